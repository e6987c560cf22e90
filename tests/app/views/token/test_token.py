"""What the Token view shows of a word, and what a person does with it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel
from pytestqt.qtbot import QtBot

from app.state.workbench import Workbench
from app.views.selection import SelectionStrip
from app.views.token.token import TokenView
from engine.protocol import (
    ActiveFeature,
    Cancel,
    Examine,
    Failed,
    FindFeatures,
    Generate,
    Piece,
    ReadFile,
)
from tests.app.helpers import inside
from tests.app.helpers.gui import Talk
from tests.app.helpers.painted import texts
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until
from tests.app.views.talk.driving import view as message

WORDS = ("The", " capital", " is", " Paris", ".")
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def token(bench: Workbench, engine: ScriptedEngine, qtbot: QtBot) -> TokenView:
    """The view beside an answer, of which no word is looked at yet."""
    bench.preferences.update(token_live=False)
    assert bench.chat.send("What is the capital of France?")
    engine.write(*WORDS)
    engine.end(n=len(WORDS))
    made = TokenView(bench)
    qtbot.addWidget(made)
    made.resize(900, 900)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def look(token: TokenView, bench: Workbench, engine: ScriptedEngine) -> Callable[[int], Examine]:
    """Look at a word of the answer and hear of it."""

    def look(index: int) -> Examine:
        bench.selection.select_token(bench.chat.path[1].id, index)
        bench.token.send()
        request = inside.answer(engine)
        QApplication.processEvents()
        return request

    return look


def painted(widget: object) -> list[str]:
    return [text.text for text in texts(widget)]  # type: ignore[arg-type]


def test_before_a_word_it_says_what_there_is(token: TokenView, bench: Workbench) -> None:
    assert "10 % slower" in " ".join(token.head.live.toolTip().split())
    assert "Ctrl+L" in token.head.live.toolTip()
    assert token.head.caption.startswith("“.”")  # the newest
    assert painted(token.choice.bars)[1:5] == [".", "80 %", ".!", "14 %"]
    bench.chat.open(None)
    assert token.head.place.text() == "No token selected"
    assert "Click a word" in token.head.about.text()
    assert "10 % slower" in token.head.about.text()


def test_the_lens_shows_each_layers_words_and_the_climb(
    token: TokenView, look: Callable[[int], Examine]
) -> None:
    look(3)
    shown = painted(token.lens)
    assert "rank of “Paris”" in shown
    assert [text for text in shown if text.isdecimal()][:3] == ["1", "29", "1"]
    assert "out" in shown
    reading = token.lens.reading
    assert reading is not None
    assert reading.leads_from == 20
    assert token.lens.cell_words(0).startswith("The model's answer: Paris 90 %")
    assert "at rank 4\u2009000 with < 0.1 %" in token.lens.cell_words(30)
    rows = token.lens_rows()
    assert [row[3] for row in rows[1:]] == [
        f"{rank:,}".replace(",", "\u2009") for rank in reading.rank.tolist()
    ]
    assert token.lens.accessibleDescription().endswith("It leads from layer 20 on")


def test_the_section_is_called_as_the_lens_that_was_used(
    token: TokenView,
    bench: Workbench,
    engine: ScriptedEngine,
    look: Callable[[int], Examine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look(3)
    section = token.sections[0]
    assert section.head.text() == section.report().title == "Logit lens"
    chosen = ("/lenses/j.safetensors", "")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: chosen)
    token.choose_lens()
    bench.token.send()
    request = engine.last_of(Examine)
    assert request.lens_file == chosen[0]
    known = inside.examined(request)
    assert known.lens is not None
    lens = structs.replace(known.lens, kind="jacobian")
    engine.say(structs.replace(known, lens=lens))
    QApplication.processEvents()
    assert section.head.text() == section.report().title == "Jacobian lens"


def test_lenses_are_picked_by_keyboard_and_kept(
    token: TokenView,
    bench: Workbench,
    engine: ScriptedEngine,
    look: Callable[[int], Examine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look(3)
    picker = token.picker
    assert [picker.itemText(i) for i in range(picker.count())] == [
        "Logit lens",
        "Lens from a file…",
    ]
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    QTest.keyClick(picker, Qt.Key.Key_End)  # the dialog is dismissed
    assert (picker.currentIndex(), bench.token.questions_of_chat.lens_file) == (0, "")
    chosen = ("/lenses/j.safetensors", "")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: chosen)
    QTest.keyClick(picker, Qt.Key.Key_End)
    assert picker.currentText() == "j.safetensors"
    bench.token.send()
    request = engine.last_of(Examine)
    assert isinstance(request, Examine)
    assert request.lens_file == chosen[0]
    QTest.keyClick(picker, Qt.Key.Key_Home)
    assert bench.token.questions_of_chat.lens_file == ""
    assert [picker.itemData(i) for i in range(picker.count())][:2] == ["", chosen[0]]
    assert bench.preferences.value.lenses == [chosen[0]]


def test_features_of_a_word_are_shown_and_one_is_turned_up(
    token: TokenView,
    bench: Workbench,
    engine: ScriptedEngine,
    look: Callable[[int], Examine],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    look(3)
    panel = token.features
    assert panel.table.isHidden()
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    QTest.keyClick(panel.choose, Qt.Key.Key_Space)
    request = engine.last_of(FindFeatures)
    assert isinstance(request, FindFeatures)
    assert request.sae == str(tmp_path) == bench.preferences.value.autoencoder
    ids = bench.chat.tokens(1).ids
    assert request.text.prefix_tokens == ids
    assert panel.caption.text() == "Computing the features…"
    features = [[ActiveFeature(100 + at, 9.0 + at)] for at in range(20)]
    engine.answer(
        FindFeatures, "SmolLM2", "intel:0", "jumprelu", "residual-12", 16384, ["x"] * 20, features,
        38.4, 0.83, {118: "cities"}, [], str(tmp_path),
    )  # fmt: skip
    QApplication.processEvents()
    titles = [one for one in token.findChildren(QLabel) if one.text() == "Features"]
    assert [one for one in titles if one.isVisible()] == [token.sections[-1].head]
    assert panel.table.rows()[1:] == [["cities", "118", "27.00"]]  # the last but one of 20
    assert "residual-12. 38.4 features" in panel.caption.text()
    assert list(token.sections[-1].report().rows()[0]) == ["cities", "118", "27.00"]
    n = len([one for one in engine.asked if isinstance(one, FindFeatures)])
    look(2)  # of the same message: nothing is asked again
    assert panel.table.rows()[1:] == [["", "117", "26.00"]]
    assert len([one for one in engine.asked if isinstance(one, FindFeatures)]) == n
    assert panel.table.strength.value() == 52.0
    QTest.keyClick(panel.table.turn, Qt.Key.Key_Space)
    until(lambda: panel.table.notice.text() != "")
    assert tmp_path.name in panel.table.notice.text()  # it holds no autoencoder
    bench.features.use("")
    assert panel.table.isHidden()
    assert panel.none.isHidden()


def test_the_lens_walks_and_selects_layers(
    token: TokenView, bench: Workbench, look: Callable[[int], Examine]
) -> None:
    look(3)
    token.lens.setFocus()
    QTest.keyClick(token.lens, Qt.Key.Key_End)
    assert bench.selection.now.layer == 0
    QTest.keyClick(token.lens, Qt.Key.Key_Up)
    assert bench.selection.now.layer == 1
    place = token.lens.cell_area(5, 1).center().toPoint()
    QTest.mouseClick(token.lens, LEFT, pos=place)
    assert bench.selection.now.layer == 25
    assert (token.lens.row, token.lens.column) == (5, 1)
    bench.selection.select_layer(2)
    assert token.lens.row == 28
    wanted: list[str] = []
    bench.selection.page_wanted.connect(wanted.append)
    QTest.keyClick(token.lens, Qt.Key.Key_Return)
    assert wanted == ["tensors"]
    assert bench.selection.now.layer == 2


@pytest.mark.each_value
@pytest.mark.parametrize("layers", [18, 30, 80])
@pytest.mark.parametrize("width", [560, 900, 1400])
def test_every_layer_has_a_row_at_any_width(
    token: TokenView, bench: Workbench, engine: ScriptedEngine, layers: int, width: int
) -> None:
    token.resize(width, 700)
    bench.selection.select_token(bench.chat.path[1].id, 3)
    bench.token.send()
    inside.answer(engine, layers=layers, heads=4)
    QApplication.processEvents()
    lens = token.lens
    assert lens.row_area(layers).bottom() <= lens.height() + 1
    assert lens.cell_area(0, lens.columns() - 1).right() <= lens.climb.left()
    numbers = [text for text in texts(lens) if text.text == "rank of “Paris”"]
    assert all(text.area.right() <= lens.width() + 1 for text in numbers)


def test_the_map_shows_all_heads_and_selects_one(
    token: TokenView, bench: Workbench, look: Callable[[int], Examine], engine: ScriptedEngine
) -> None:
    request = look(3)
    panel = token.attention
    places = len(inside.items(request).ids) // 4
    full = inside.rows(places)
    entropy = -(full * np.log2(full)).sum(-1)
    assert panel.map.value(7, 3) == pytest.approx(entropy[7, 3], rel=1e-4)
    panel.choices["first"].click()
    assert panel.map.value(7, 3) == pytest.approx(full[7, 3, 0], rel=1e-4)
    panel.map.setFocus()
    panel.map.set_cursor(7, 2)
    QTest.keyClick(panel.map, Qt.Key.Key_Right)
    assert (bench.selection.now.layer, bench.selection.now.head) == (7, 3)
    assert panel.list.lines == ()
    assert "Loading" in panel.caption.text()
    inside.answer(engine)
    of_chat = full[7, 3, [*range(3, 9), 14, 15, 16]]
    assert panel.list.lines[0].share == pytest.approx(full[7, 3, 0])
    assert [line.share for line in panel.list.lines[2:]] == pytest.approx(sorted(of_chat)[::-1])
    assert "layer 7: head 3" in panel.caption.text()


def test_steppers_go_through_layers_and_heads(
    token: TokenView, bench: Workbench, look: Callable[[int], Examine]
) -> None:
    look(3)
    panel, selection = token.attention, bench.selection
    assert not panel.heads.isEnabled()
    QTest.keyClick(panel.layers, Qt.Key.Key_Right)
    assert selection.now.layer == 0
    panel.layers.after.click()
    assert (selection.now.layer, panel.layers.text) == (1, "1")
    panel.heads.before.click()
    assert (selection.now.layer, selection.now.head) == (1, 8)
    panel.layers.before.click()
    assert (selection.now.layer, selection.now.head) == (0, 8)
    panel.heads.all.click()
    assert (selection.now.layer, selection.now.head) == (0, None)
    panel.layers.before.click()
    assert (selection.now.layer, panel.layers.text) == (None, "all")


def test_sources_are_listed_with_the_first_token_apart(
    token: TokenView, bench: Workbench, look: Callable[[int], Examine]
) -> None:
    request = look(3)
    mean = inside.rows(len(inside.items(request).ids) // 4).mean((0, 1))
    lines = token.attention.list.lines
    assert [line.text for line in lines[:2]] == ["First token", "Chat template"]
    assert lines[0].share == pytest.approx(mean[0])
    template = [1, 2, *range(9, 14)]
    assert lines[1].share == pytest.approx(mean[template].sum(), rel=1e-4)
    assert lines[2].strength == pytest.approx(1.0)
    shares = [line.share for line in lines[2:]]
    assert shares == sorted(shares, reverse=True)
    assert "France?" in painted(token.attention.list)
    for at, said in ((0, "the attention sink"), (1, "tokens that the chat template adds")):
        place = token.attention.list.row_area(at).center().toPoint()
        QTest.mouseClick(token.attention.list, Qt.MouseButton.LeftButton, pos=place)
        assert said in token.attention.caption.text()
    at = [line.text for line in lines].index("is")
    chosen: list[tuple[int, int]] = []
    token.attention.place_wanted.connect(lambda *place: chosen.append(place))
    token.attention.list.go(at)
    QTest.keyClick(token.attention.list, Qt.Key.Key_Return)
    assert chosen


def test_sources_are_lit_in_the_chat(
    talk: Talk, bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, token: TokenView
) -> None:
    bench.selection.select_token(bench.chat.path[1].id, 3)
    bench.token.send()
    inside.answer(engine)
    question, answer = message(talk, 0).body, message(talk, 1).body
    assert question is not None
    assert answer is not None
    assert [word for word, _ in question.lit_words] == [
        "What",
        "is",
        "the",
        "capital",
        "of",
        "France?",
    ]
    assert [word for word, _ in answer.lit_words] == ["The", "capital", "is"]
    assert max(strength for _, strength in question.lit_words + answer.lit_words) == 1.0
    bench.preferences.update(probabilities_shown=True)
    tokens = message(talk, 1).tokens
    assert tokens is not None
    assert [light[:2] for light in tokens.painter.lights] == [(0, 3), (3, 11), (11, 14)]
    token.hide()
    assert tokens.painter.lights == ()


def test_another_chat_is_not_lit(
    talk: Talk, bench: Workbench, look: Callable[[int], Examine], engine: ScriptedEngine
) -> None:
    look(3)
    bench.chat.open(None)  # there are fewer messages than were lit
    QApplication.processEvents()
    assert bench.token.word is None
    assert bench.chat.send("Something else")
    engine.write("Yes")
    engine.end(n=1)
    body = message(talk, 0).body
    assert body is not None
    assert body.lit_words == []


def test_a_click_on_a_word_of_the_chat_looks_at_it(
    talk: Talk, bench: Workbench, engine: ScriptedEngine, token: TokenView
) -> None:
    body = message(talk, 1).body
    assert body is not None
    QTest.mouseClick(body, LEFT, pos=QPoint(4, 10))
    assert bench.selection.now.token == (bench.chat.path[1].id, 0)
    assert token.head.caption.startswith("“The”")
    question = message(talk, 0).body
    assert question is not None
    QTest.mouseClick(question, LEFT, pos=QPoint(4, 10))
    inside.answer(engine)
    assert bench.selection.now.token == (bench.chat.path[0].id, 0)
    assert token.head.caption.startswith("“What”")
    assert question.pointed_text == "What"


def test_the_choice_tells_what_each_step_removed(
    token: TokenView, look: Callable[[int], Examine]
) -> None:
    look(3)
    shown = painted(token.choice.bars)
    assert shown[2:5] == ["Paris", "62 %", "74 %"]
    assert "by min-p" in shown
    assert "top-k leaves 40, removes 2.1 %" in token.choice.caption.text()
    assert ["a", "1.0 %", "", "min-p"] in token.choice.rows()


def test_the_time_adds_up_and_names_its_gaps(
    token: TokenView, look: Callable[[int], Examine]
) -> None:
    look(3)
    step, shares = inside.step(), token.time.band.shares
    assert sum(share.ns for share in shares) == step.step_ns
    assert [share.group for share in shares if not share.device] == [
        *("host before", "launches and waiting", "host after, sampling")
    ]
    assert {share.device for share in shares} == {"intel:0", "pocl:0", ""}
    assert ["feed-forward", "intel:0", "1.52", "40"] in token.time.rows()
    band = token.time.band
    band.setFocus()
    QTest.keyClick(band, Qt.Key.Key_End)
    assert "host after, sampling: 0.42 ms" in band.accessibleDescription()


def test_charts_are_tables_too(token: TokenView, look: Callable[[int], Examine]) -> None:
    look(3)
    token.toggle_table()
    assert token.as_table
    tables = [section.table for section in token.sections]
    assert [table.rows.total for table in tables[:-1]] == [
        *(31, 270, 11, len(token.time.band.shares))
    ]
    assert tables[-1].rows.total == 0  # features, without an autoencoder
    assert all(table.isVisible() for table in tables)
    assert not token.lens.isVisible()
    token.toggle_table()
    assert token.lens.isVisible()


def test_it_is_copied_with_model_prompt_and_seed(
    token: TokenView, look: Callable[[int], Examine]
) -> None:
    look(3)
    token.copy_text()
    text = QGuiApplication.clipboard().text()
    for said in (
        "“Paris”",
        "Model: SmolLM2, on Intel CPU",
        "Prompt: What is the capital",
        "Seed: 7",
        "Logit lens",
    ):
        assert said in text
    assert "First token\t" in text
    picture = token.picture()
    assert picture.width() >= token.body.width()
    assert picture.height() > token.body.height() + 60
    colours = {picture.pixel(x, y) for x in range(16, 200) for y in range(16, 96, 3)}
    assert len(colours) > 3  # the words above


def test_slow_looks_can_be_cancelled_and_tried_again(
    token: TokenView, bench: Workbench, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    bench.selection.select_token(bench.chat.path[1].id, 3)
    bench.token.send()
    request = engine.last
    qtbot.waitUntil(lambda: token.head.detail.text() == "Computing…")
    assert token.head.act.text() == "Cancel"
    token.head.act.click()
    assert engine.last == Cancel(request.id)
    assert token.head.act.text() == "Inspect again"
    token.head.act.click()
    assert isinstance(engine.last, Examine)
    engine.say(Failed(engine.last.id, "BadSetting", "it does not fit"))
    assert token.head.detail.text() == "it does not fit"
    assert not token.head.act.isVisible()


def test_the_switch_turns_the_live_view_off_and_on(token: TokenView, bench: Workbench) -> None:
    assert not token.head.live.isChecked()
    token.head.live.click()
    assert bench.token.live
    assert token.head.live.isChecked()
    bench.token.toggle_live()
    assert not token.head.live.isChecked()


def test_arrows_go_from_word_to_word(
    token: TokenView, bench: Workbench, look: Callable[[int], Examine]
) -> None:
    look(3)
    token.head.after.click()
    assert token.head.caption.startswith("“.”")
    assert not token.head.after.isEnabled()
    token.head.before.click()
    token.head.before.click()
    assert bench.selection.now.token == (bench.chat.path[1].id, 2)
    token.head.newest.click()
    assert token.head.caption.startswith("“.”")


def test_before_anything_runs_the_file_gives_the_shape(
    bench: Workbench, engine: ScriptedEngine, token: TokenView, tiny_path: object
) -> None:
    bench.chat.open(None)
    told = engine.files.answer(ReadFile(0, str(tiny_path)))
    bench.file.content = told  # type: ignore[assignment]
    bench.file.changed.emit()
    assert token.lens.minimumSizeHint().height() > 0
    assert [text for text in painted(token.lens) if text.isdecimal()] == ["2", "1", "0"]
    assert "3 layers of 4 heads" in token.attention.caption.text()
    assert token.attention.blank.isVisible()


def by_click(token: TokenView, at: int) -> None:
    QTest.mouseClick(token.choice.bars, LEFT, pos=token.choice.bars.row_area(at).center().toPoint())


def by_keyboard(token: TokenView, at: int) -> None:
    token.choice.bars.setFocus()
    for key in (Qt.Key.Key_Home, *[Qt.Key.Key_Down] * at, Qt.Key.Key_Return):
        QTest.keyClick(token.choice.bars, key)


@pytest.mark.parametrize("take", [by_click, by_keyboard])
@pytest.mark.parametrize("asked", [False, True], ids=["as recorded", "computed again"])
def test_a_word_of_the_choice_is_gone_on_with_and_alt_left_comes_back(
    token: TokenView,
    bench: Workbench,
    engine: ScriptedEngine,
    look: Callable[[int], Examine],
    take: Callable[[TokenView, int], None],
    asked: bool,
) -> None:
    chat, first = bench.chat, bench.chat.path[1]
    if asked:
        look(3)
    else:
        bench.selection.select_token(first.id, 3)
    words = token.choice.bars.candidates
    at = next(n for n, one in enumerate(words) if not one.taken)
    take(token, at)
    request = engine.last_of(Generate)
    assert isinstance(request, Generate)
    assert request.prefix_tokens[:3] == chat.tokens_of(first).ids[:3]
    assert request.prefix_tokens[3] == words[at].token.token
    engine.say(Piece(request.id, f"The capital is{words[at].text}", []))
    engine.write(" it is.")
    engine.end(n=1)
    assert chat.path[1].id != first.id
    assert chat.path[1].siblings == 2
    bench.selection.back()
    assert chat.path[1] is first
    assert bench.selection.now.token == (first.id, 3)
    assert token.head.caption.startswith("“Paris”")


def test_a_click_on_the_word_that_came_or_on_one_of_a_question_says_why_it_stays(
    token: TokenView, bench: Workbench, engine: ScriptedEngine, look: Callable[[int], Examine]
) -> None:
    look(3)
    before = len(engine.asked)
    at = next(n for n, one in enumerate(token.choice.bars.candidates) if one.taken)
    by_click(token, at)
    assert token.choice.word.text().endswith("This token was sampled.")
    assert not token.choice.hint.isHidden()
    token.choice.show_choice(inside.choice(7, " Paris"), None, "")
    by_click(token, 1)
    assert "Only tokens of an answer" in token.choice.word.text()
    assert token.choice.hint.isHidden()
    assert len(engine.asked) == before


def test_the_model_that_wrote_a_word_is_opened_by_a_button(
    token: TokenView, bench: Workbench, engine: ScriptedEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    wrote = tmp_path / "SmolLM2.gguf"
    bench.session.unload()
    bench.open_model("/models/gemma-3-270m-Q4_K_M.gguf")
    engine.load_done("Gemma")
    bench.selection.select_token(bench.chat.path[1].id, 1)
    bench.token.send()
    qtbot.waitUntil(lambda: not token.head.act.isHidden())
    assert token.head.act.text() == "Open SmolLM2"
    bench.session.unload()
    token.head.act.click()
    assert bench.session.path == wrote


def test_without_a_model_the_one_that_wrote_a_word_is_opened_by_a_button(
    token: TokenView, bench: Workbench, engine: ScriptedEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    bench.session.unload()
    bench.selection.select_token(bench.chat.path[1].id, 1)
    bench.token.send()
    qtbot.waitUntil(lambda: "No model is open" in token.head.detail.text())
    assert not token.head.act.isHidden()
    assert token.head.act.text() == "Open SmolLM2"
    token.head.act.click()
    assert bench.session.path == tmp_path / "SmolLM2.gguf"


def test_the_word_itself_stands_in_the_line_of_the_selection_alone(
    token: TokenView, bench: Workbench, qtbot: QtBot
) -> None:
    strip = SelectionStrip(bench)
    qtbot.addWidget(strip)
    bench.selection.select_token(bench.chat.path[1].id, 3)
    assert strip.caption.text() == "“Paris” #4"
    assert token.head.place.text() == "Token 4 of SmolLM2"
    bench.selection.clear()
    assert strip.caption.text() == "“.” #5 (newest)"
    assert token.head.place.text() == "Token 5 of SmolLM2"


def test_live_says_what_it_costs_in_plain_words(token: TokenView) -> None:
    said = " ".join(token.head.live.toolTip().split())
    assert "answers up to 10 % slower" in said
    assert "the time allows" not in said
