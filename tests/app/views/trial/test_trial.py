"""The sheet that compares answers, the bar of edits and its form, by keyboard and by mouse."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec import structs
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from app.state.talk.answer import NOTHING_COUNTED
from app.state.talk.edits import ChatEdit, EditSet, words
from app.state.workbench import Workbench
from app.views.lab.map import MapForm
from app.views.talk.edits import CONTROL, EditChip, layers_of, layers_text
from app.views.talk.message import MessageView
from app.views.token.token import TokenView
from app.views.trial import NO_EDITS, NOTE
from app.window.edit_commands import VERBS
from app.window.main_window import MainWindow
from engine.errors import BadSetting
from engine.protocol import (
    Cancel,
    Edit,
    Finished,
    Generate,
    Load,
    MapPatches,
    MeasureQuality,
    PatchTable,
    RecordDataset,
    ScoreAnswer,
)
from tests.app.helpers import inside
from tests.app.helpers.seeing import until
from tests.app.window.scenes.trial_scenes import (
    DRAWN,
    PLAIN,
    ROWS,
    TRIED,
    causes,
    client,
    control,
    edit_form,
    featured,
    measured,
    measuring,
    patched,
    recorded,
    steering,
    taking,
    trial,
    trial_form,
    with_edits,
)


def saved_autoencoder(folder: Path) -> Path:
    """The files of one that SAELens made."""
    with np.load(Path(__file__).parents[3] / "goldens" / "autoencoders.npz") as file:
        (folder / "cfg.json").write_bytes(file["jumprelu/cfg"].tobytes())
        (folder / "sae_weights.safetensors").write_bytes(file["jumprelu/weights"].tobytes())
    return folder


OFF = Edit.of("scale", "residual", 12, 0, delta=True)


def generated(window: MainWindow) -> Generate:
    asked = client(window).last_of(Generate)
    assert isinstance(asked, Generate)
    return asked


def test_the_sheet_answers_with_the_edits(window: MainWindow) -> None:
    trial_form(window)
    view = window.sheets.trial
    assert view.caption.text() == NOTE
    assert view.edits.text() == "Layer 12 off; layers 1–29 + 1.5 × “formal”"
    assert view.back.isHidden()
    QTest.keyClick(view.try_it, Qt.Key.Key_Space)
    asked = generated(window)
    assert asked.edits[0] == OFF
    assert [one.layers for one in asked.edits[1:]] == [[layer] for layer in ROWS]
    assert not view.try_it.isEnabled()
    QTest.keyClick(view.stop, Qt.Key.Key_Space)
    client(window).end("cancelled")
    assert view.try_it.isEnabled()
    assert window.bench.chat.path[-1].edits == window.bench.chat.edits.value


def test_both_answers_are_painted_by_what_the_other_model_finds(window: MainWindow) -> None:
    trial(window)
    view = window.sheets.trial
    asked = [r for r in client(window).asked if isinstance(r, ScoreAnswer)]
    assert [bool(r.edits) for r in asked] == [True, False]
    assert [len(r.tokens) for r in asked] == [len(PLAIN), len(TRIED)]
    assert view.edited.title.text() == "Edited"
    assert view.edited.title.toolTip().startswith("Layer 12 off")
    assert view.plain.text.text == "".join(PLAIN)
    assert view.edited.text.bands[5] == 4  # two in a hundred
    assert view.other.isHidden()
    for _ in range(5):
        QTest.keyClick(view.edited.text, Qt.Key.Key_Right)
    assert view.under.text() == "“a”: original 2.0 %, edited 80.0 %"
    view.copy_table()
    lines = QApplication.clipboard().text().split("\n")
    assert len(lines) == 1 + len(PLAIN) + len(TRIED)
    assert lines[6] == "original\tParis\t80.0 %\t2.0 %"


def test_a_random_control_stands_beside_both(window: MainWindow) -> None:
    control(window)
    view = window.sheets.trial
    asked = generated(window)
    steered = asked.edits[1:]
    own = ROWS[1].astype("<f4").tobytes()
    assert len(steered) == len(ROWS)
    assert all(one.vector != own for one in steered)
    assert not view.other.isHidden()
    assert view.edited.text.text == "".join(TRIED)
    assert view.other.title.text() == "Random control, seed 1"
    assert view.other.text.text == "".join(DRAWN)
    view.copy_table()
    names = {line.partition("\t")[0] for line in QApplication.clipboard().text().split("\n")}
    assert names == {"answer", "original", "control", "edited"}


def test_without_edits_it_says_how_to_make_one(window: MainWindow) -> None:
    with_edits(window)
    window.bench.chat.edits.clear()
    window.sheets.show_trial()
    view = window.sheets.trial
    assert view.caption.text() == NO_EDITS
    assert not view.try_it.isEnabled()
    window.bench.chat.open(None)
    assert not view.try_plain.isEnabled()
    window.bench.session.unload()
    assert view.isVisible()


def test_an_edited_answer_has_a_bound(window: MainWindow) -> None:
    trial_form(window)
    for n, most in ((11, 64), (100, 200), (4000, 512)):
        window.bench.chat.path[-1].n_tokens = n
        assert window.bench.trial.start()
        asked = generated(window)
        assert asked.max_tokens == most
        client(window).say(Finished(asked.id, "cancelled", NOTHING_COUNTED))
    limits = window.bench.chat.details.limits
    window.bench.chat.details.set_limits(structs.replace(limits, max_tokens=20))
    assert window.bench.trial.start()
    assert generated(window).max_tokens == 20


def test_one_click_leads_back_to_the_unedited_answer(window: MainWindow) -> None:
    trial(window)
    chat, view = window.bench.chat, window.sheets.trial
    tried = chat.path[1]
    assert tried.edits
    assert "The chat shows the edited answer." in view.caption.text()
    QTest.keyClick(view.back, Qt.Key.Key_Space)
    assert window.sheets.front is None
    assert not chat.path[1].edits
    assert chat.path[1].text == "".join(PLAIN)
    chat.choose_sibling(1, 1)
    assert chat.path[1] is tried
    chat.edits.switch_all(False)
    assert chat.send("And of Italy?")
    client(window).write("Rome")
    client(window).end(n=1)
    QApplication.processEvents()
    shown, plain = (window.talk.chat.column.require(row) for row in (1, 3))
    assert isinstance(shown, MessageView)
    assert isinstance(plain, MessageView)
    assert not shown.header.edited.isHidden()
    assert shown.header.edited.accessibleName().startswith("Edited: Layer 12 off")
    assert plain.header.edited.isHidden()
    assert shown.end is not None
    assert shown.end.text.startswith("Written with edits: Layer 12 off; layers 1–29")
    (back,) = shown.end.stops
    QTest.keyClick(back, Qt.Key.Key_Space)
    assert not chat.path[1].edits


def test_the_bar_is_there_only_with_edits(window: MainWindow) -> None:
    with_edits(window)
    bar, edits = window.talk.composer.edits, window.bench.chat.edits
    assert bar.isVisible()
    assert [chip.button.text() for chip in bar.chips][0] == "layer 12 off"
    assert bar.control is not None
    assert bar.control.text() == CONTROL
    assert bar.control.isEnabled()
    assert bar.switch is not None
    QTest.keyClick(bar.switch, Qt.Key.Key_Space)
    assert not edits.value.on
    assert window.bench.chat.send("Again?")
    assert generated(window).edits == []
    client(window).end()
    bar.chips[0].remove.setFocus()
    QTest.keyClick(bar.chips[0].remove, Qt.Key.Key_Space)
    assert len(edits.value.edits) == 1
    assert isinstance(QApplication.focusWidget(), type(bar.chips[0].button))
    window.commands.run("edits.clear")
    assert bar.isHidden()
    window.commands.run("edits.undo")
    assert bar.isVisible()
    window.commands.run("edits.redo")
    assert bar.isHidden()


def test_the_form_changes_an_edit_and_says_what_cannot_be(window: MainWindow) -> None:
    edit_form(window)
    bar, edits = window.talk.composer.edits, window.bench.chat.edits
    form = bar.form
    assert form is not None
    assert form.isVisible()
    form.layers.selectAll()
    QTest.keyClicks(form.layers, "8-10, 12")
    assert edits.value.edits[1].edit.layers == [8, 9, 10, 12]
    form.value.field.setValue(-2.5)
    assert edits.value.edits[1].edit.value == -2.5
    form.where.setCurrentIndex(form.where.findData("answer"))
    form.where.activated.emit(form.where.currentIndex())
    assert form.title.text().endswith("in the answer")
    before = edits.value
    QTest.keyClicks(form.layers, "x")
    assert form.problem.text() == "Layers: a layer or layers, such as 5, or 8–20 is needed."
    assert edits.value == before
    QTest.keyClick(form, Qt.Key.Key_Escape)
    assert form.isHidden()


@pytest.mark.parametrize("text", ["", "x", "5-", "9-8", "-3", "1,,2", "99999999", "5000"])
def test_layers_that_are_none(text: str) -> None:
    with pytest.raises(BadSetting):
        layers_of(text)


def test_layers_in_words_and_back() -> None:
    for layers in ([5], [1, 2, 3], [0, 4, 5, 9]):
        assert layers_of(layers_text(layers)) == layers
    with pytest.raises(BadSetting, match="from 0 to 29"):
        layers_of("30", 30)


KEYS = {
    "edits.off": "X",
    "edits.scale": "M",
    "edits.steer": "V",
    "edits.take": "P",
    "edits.causes": "W",
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_opens_by_its_key_and_by_the_menu(verb: str, window: MainWindow) -> None:
    with_edits(window)
    edits, sheets = window.bench.chat.edits, window.sheets
    window.bench.selection.select_head(3, 1)
    before = edits.value

    def opened() -> bool:
        form = window.talk.composer.edits.form
        return {
            "edits.off": edits.value.edits[-1].edit == Edit.scale("heads", 3, by=0, head=1),
            "edits.scale": form is not None and form.isVisible(),
            "edits.steer": sheets.steer.isVisible(),
            "edits.take": sheets.take.isVisible(),
            "edits.causes": sheets.runs.isVisible(),
        }[verb]

    key = getattr(Qt.Key, f"Key_{KEYS[verb]}")
    held = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
    QTest.keyClick(window.focusWidget() or window, key, held)
    assert opened()
    for popup in (window.talk.composer.edits.form, sheets.front):
        if popup is not None:
            QTest.keyClick(popup, Qt.Key.Key_Escape)
    while edits.value != before:
        edits.undo()
    assert not opened()
    strip = window.inspector.selection
    QTest.mouseClick(strip.verbs, Qt.MouseButton.LeftButton)
    menu = next(m for m in window.findChildren(QMenu) if m.isVisible())
    action = window.commands[verb]
    assert action in menu.actions()
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action).center())
    assert opened()


def test_a_right_click_offers_the_verbs_of_the_selection(window: MainWindow) -> None:
    with_edits(window)
    wanted: list[QPoint] = []
    window.inspector.selection.verbs_wanted.connect(wanted.append)
    window.bench.selection.clear()
    assert not window.inspector.selection.verbs.isEnabled()
    window.bench.selection.select_layer(3)
    assert window.inspector.selection.verbs.isEnabled()


def test_a_vector_is_added_to_the_edits(window: MainWindow) -> None:
    steering(window)
    view, edits = window.sheets.steer, window.bench.chat.edits
    assert view.counts.text() == "2 and 2 texts"
    view.layers.setText("4-5")
    view.strength.field.setValue(2.5)
    QTest.keyClick(view.use, Qt.Key.Key_Return)
    assert window.sheets.front is None
    assert words(edits.value.edits[-1]) == "layers 4–5 + 2.5 × “formal”"
    window.sheets.show_steering()
    view.layers.setText("nonsense")
    QTest.keyClick(view.use, Qt.Key.Key_Return)
    assert view.problem.text() == "Layers: a layer or layers, such as 5, or 8–20 is needed."


def test_a_map_is_started_by_keyboard_and_its_cells_select(window: MainWindow) -> None:
    patched(window)
    view = window.sheets.runs
    assert view.map.title.text() == "SmolLM2: Paris against Rome"
    assert view.map.map.cells.describe(14, 3, 0.2) == "layer 14, token 3 Italy: 0.20"
    view.map.map.pointed.emit(14, 3)
    assert window.bench.selection.now.layer == 14
    assert [one.title for one in window.bench.runs.kept] == [
        "The capital of France is / The capital of Italy is"
    ]
    QTest.keyClick(view.begin, Qt.Key.Key_Space)
    asked = client(window).last_of(MapPatches)
    assert isinstance(asked, MapPatches)
    assert (asked.clean.prompt, asked.grid) == ("The capital of France is", "residual")
    assert view.stop.isEnabled()
    QTest.keyClick(view.stop, Qt.Key.Key_Space)
    assert isinstance(client(window).last, Cancel)
    view.copy_command.click()
    assert QApplication.clipboard().text().startswith("cutaway patch /models/SmolLM2")


def test_noise_takes_the_place_of_the_other_prompt(bench: Workbench, qtbot: QtBot) -> None:
    form = MapForm(bench)
    qtbot.addWidget(form)
    form.refresh()
    form.show()
    assert form.corrupt.isVisible()
    assert not form.noise.isVisible()
    QTest.keyClick(form.source, Qt.Key.Key_Down)
    assert not form.corrupt.isVisible()
    names = [one.accessibleName() for one in (form.source, form.noise, form.subject, form.seeds)]
    assert names == [
        "Compared with", "Noise (standard deviations)", "Part of the prompt", "Seeds",
    ]  # fmt: skip
    QTest.keyClicks(form.subject, "France")
    QTest.keyClick(form.noise, Qt.Key.Key_Up)
    QTest.keyClick(form.seeds, Qt.Key.Key_Down)
    asked = form.request
    assert (asked.noise, asked.subject, asked.seeds) == (4.0, "France", 9)
    assert form.is_ready
    assert "--noise 4 --seeds 9 --subject France" in form.command
    assert "--corrupt" not in form.command
    form.source.setCurrentIndex(0)
    assert (form.request.noise, form.request.corrupt.prompt) == (0.0, "The capital of Italy is")


def test_the_causes_of_a_word_lead_from_the_chat_to_a_map_and_back(window: MainWindow) -> None:
    causes(window)
    bench, view = window.bench, window.sheets.runs
    answer = bench.chat.path[1]
    asked = client(window).last_of(MapPatches)
    assert isinstance(asked, MapPatches)
    assert [one.text for one in asked.clean.messages] == ["What is the capital of France?"]
    assert [one.text for one in asked.corrupt.messages] == ["What is the capital of Italy?"]
    assert asked.clean.prefix == asked.corrupt.prefix == "The capital of France is "
    ids = bench.chat.tokens_of(answer).ids
    assert asked.clean.prefix_tokens == asked.corrupt.prefix_tokens == ids[:5]
    assert asked.right == ids[5]
    assert [one.word for one in bench.runs.kept] == [(answer.id, 5)]
    view.copy_command.click()
    assert QApplication.clipboard().text().endswith("--metric logit-diff --chat")
    assert "--right Paris --answer 'The capital of France is '" in QApplication.clipboard().text()
    view.map.map.setFocus()
    view.map.map.set_cursor(9, 8)  # " Italy", in the question
    QTest.keyClick(view.map.open, Qt.Key.Key_Space)
    assert window.sheets.front is None
    assert window.inspector.tab == "token"
    inside.answer(client(window))
    until(lambda: bench.selection.now.token == (bench.chat.path[0].id, 5))
    assert bench.selection.now.layer == 9
    window.sheets.show_runs()
    view.map.map.set_cursor(10, 1)  # the template's own: the word itself
    QTest.mouseClick(view.map.open, Qt.MouseButton.LeftButton)
    until(lambda: bench.selection.now.token == (answer.id, 5))
    assert bench.selection.now.layer == 10
    view.map_form.leave.click()
    assert view.map_form.request.clean.prompt == "What is the capital of France?"


def test_the_token_view_shows_which_heads_cause_a_word(window: MainWindow) -> None:
    causes(window)
    bench, view = window.bench, window.sheets.runs
    view.done.emit()
    window.panes.show_tab("token")
    token = window.inspector.view(TokenView)
    bench.token.send()
    inside.answer(client(window))
    panel = token.attention
    QTest.keyClick(panel.effect, Qt.Key.Key_Space)  # there is no map of heads yet
    assert view.isVisible()
    assert not panel.effect.isChecked()
    assert view.map_form.grid.currentData() == "heads"
    QTest.keyClicks(view.map_form.corrupt, "What is the capital of Italy?")
    QTest.keyClick(view.begin, Qt.Key.Key_Space)
    effects = np.zeros((30, 9), "<f4")
    effects[20, 3] = 0.75
    tables = [PatchTable("heads", effects.tobytes(), effects.tobytes())]
    client(window).answer(
        MapPatches, "SmolLM2", "intel:0", "heads", "denoising", "logit-diff", ["a"], ["a"],
        (1, "Paris"), (2, "Rome"), 4.0, -3.0, list(range(30)), list(range(9)), tables, [(0, 0)], [],
    )  # fmt: skip
    view.done.emit()
    QTest.keyClick(panel.effect, Qt.Key.Key_Space)
    assert panel.effect.isChecked()
    assert panel.map.value(20, 3) == pytest.approx(0.75)
    assert panel.rows()[1 + 20 * 9 + 3][5] == "0.75"
    assert "0.75" in panel.map.describe(20, 3)
    QTest.keyClick(panel.choices["entropy"], Qt.Key.Key_Space)
    assert not panel.effect.isChecked()
    assert not panel.map.is_diverging
    bench.token.step(-1)
    assert panel.rows()[1:] == [] or panel.rows()[1][5] == ""


def test_a_quality_is_measured_by_keyboard_in_place_of_the_model(
    window: MainWindow, tmp_path: Path
) -> None:
    measuring(window, tmp_path)
    view, session = window.sheets.runs, window.bench.session
    assert session.status == "loading"
    assert window.talk.notices.isVisible()
    QTest.keyClick(view.stop, Qt.Key.Key_Space)
    assert isinstance(client(window).last, Cancel)
    measured(window)
    kinds = [type(one) for one in client(window).asked]
    assert Load in kinds[kinds.index(MeasureQuality) :], "the model is opened again"
    assert session.status == "ready"
    assert view.quality.title.text() == "SmolLM2 Q4_1 against SmolLM2 F16"
    says = view.quality.caption.text()
    assert "Mean KL divergence 0.01251 ± 0.0004, at most 1.3" in says
    assert "The likeliest token is the same at 95.31 ± 0.65 %" in says
    assert view.quality.layers.rows.total == 30
    assert [one.name for one in view.quality.tensors.rows.shown][0] == "blk.5.ffn_down.weight"
    view.copy_command.click()
    command = QApplication.clipboard().text()
    assert command.startswith("cutaway quality /models/Q4_1.gguf --base")
    assert command.endswith("--ctx 512 --chunks 8 --drift --guilty")
    kept = [one.title for one in window.bench.runs.kept]
    assert kept == ["Q4_1 / F16"]


def test_tensors_in_another_type_take_the_place_of_the_second_file(
    window: MainWindow, tmp_path: Path
) -> None:
    measuring(window, tmp_path)
    measured(window)
    client(window).load_done()
    view = window.sheets.runs
    form = view.quality_form
    form.path.set_text("")
    assert not form.is_ready
    QTest.keyClicks(form.swaps, r"blk\.5\.ffn_down\.weight=Q4_K; output\.weight = Q6_K;")
    assert form.is_ready
    assert not form.drift.isEnabled()
    assert not form.guilty.isEnabled()
    view.copy_command.click()
    swaps = r"--what-if 'blk\.5\.ffn_down\.weight=Q4_K' --what-if 'output\.weight=Q6_K'"
    assert QApplication.clipboard().text().endswith(f"{swaps} --chunks 8")
    QTest.keyClick(view.begin, Qt.Key.Key_Space)
    asked = client(window).last_of(MeasureQuality)
    assert isinstance(asked, MeasureQuality)
    assert [(one.pattern, one.type) for one in asked.swaps] == [
        (r"blk\.5\.ffn_down\.weight", "Q4_K"),
        (r"output\.weight", "Q6_K"),
    ]
    assert (asked.path, asked.base, asked.drift, asked.guilty) == ("", "/models/F16.gguf", False, 0)
    measured(window, "SmolLM2 F16", None)
    assert view.quality.title.text() == "SmolLM2 F16, 2 tensors swapped"
    kept = window.bench.runs.kept[0]
    assert kept.title.startswith(r"blk\.5\.ffn_down\.weight=Q4_K; output")
    assert kept.model == "F16"


def test_texts_are_recorded_by_keyboard(window: MainWindow) -> None:
    recorded(window)
    view = window.sheets.runs
    assert view.recording.caption.text() == (
        "2\u2009048 tokens of 3 texts, on intel:0\nWritten: norms.npz, imatrix.gguf"
    )
    asked = client(window).last_of(RecordDataset)
    assert isinstance(asked, RecordDataset)
    assert (asked.paths, asked.out) == (["/texts/a.txt", "/texts/b.txt"], "/tmp/out")
    assert asked.what == ["imatrix", "norms"]
    for box in view.record_form.kinds.values():
        box.setChecked(False)
    assert not view.begin.isEnabled()


def test_a_word_and_a_feature_are_chosen_by_keyboard_and_turned_up(
    window: MainWindow, tmp_path: Path
) -> None:
    featured(window)
    view, edits = window.sheets.runs.features, window.bench.chat.edits
    assert view.title.text() == "SmolLM2: 16\u2009384 features of residual-12"
    assert view.words.currentRow() == 4
    QTest.keyClick(view.words, Qt.Key.Key_Left)
    assert view.words.currentItem().text() == "France"
    assert [one.index for one in view.features.table.rows.shown] == list(range(300, 306))
    assert view.features.table.text().split("\n")[1] == "names of countries\t300\t10.50"
    assert view.features.strength.value() == 21.0
    QTest.keyClick(view.features.table.view, Qt.Key.Key_Down)
    assert view.features.strength.value() == 19.0
    QTest.keyClick(view.features.turn, Qt.Key.Key_Space)
    until(lambda: view.features.notice.text() != "")
    assert "/saes/layer-12" in view.features.notice.text()
    before = edits.value
    window.bench.runs.shown = msgspec.structs.replace(
        window.bench.runs.shown, sae=str(saved_autoencoder(tmp_path))
    )
    window.bench.runs.changed.emit()
    view.words.setCurrentRow(0)
    view.features.strength.setValue(40.0)
    QTest.keyClick(view.features.turn, Qt.Key.Key_Space)
    until(lambda: edits.value != before)
    added = edits.value.edits[-1]
    assert words(added) == "layer 1 + 40 × “#0”"
    assert view.features.notice.text().startswith("Added to the edits")


def test_other_answers_are_listed(window: MainWindow) -> None:
    taking(window)
    view = window.sheets.take
    assert view.title.text() == "Take layer 12 from another answer"
    (item,) = [view.list.item(row).text() for row in range(view.list.count())]
    assert item.startswith("What is the capital of France?  ·  ")
    window.bench.chat.open(None)
    view.refresh()
    assert "There is no other answer" in view.caption.text()
    assert not view.button.isEnabled()


def test_a_chip_shows_no_markup_and_names_its_cross() -> None:
    one = ChatEdit(Edit("residual", [1], "add"), "0" * 64, "<b>&x</b>", on=False)
    chip = EditChip(one, lambda: None, lambda: None)
    assert chip.button.text() == "layer 1 + 1 × “<b>&&x</b>” (off)"
    assert chip.remove.accessibleName() == "Remove: layer 1 + 1 × “<b>&x</b>”"
    assert msgspec.json.decode(msgspec.json.encode(EditSet((one,))), type=EditSet).edits == (one,)
