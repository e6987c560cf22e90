"""Writing, sending, stopping, drafts, presets."""

import sqlite3
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from PIL import Image
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QKeyEvent, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QInputDialog
from pytestqt.qtbot import QtBot

from app.state.presets import BUILT_IN, AnswerLimits
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Message
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.talk.composer import Composer
from app.views.talk.composer_parts import PromptMenu
from app.views.talk.sampling import SamplingPopover
from app.views.talk.settings import stops_of
from app.widgets.controls.hidden_text import HiddenText
from app.widgets.pictures.loader import PictureLoader
from engine.errors import CutawayError
from engine.gguf.reader import open_gguf
from engine.protocol import Cancel, Failed, Generate, Load, Sampling
from engine.tokenizer import load_tokenizer
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def test_enter_sends_and_shift_enter_breaks_the_line(talk: Talk, engine: ScriptedEngine) -> None:
    field = talk.composer.field
    QTest.keyClicks(field, "one")
    QTest.keyClick(field, Qt.Key.Key_Return, SHIFT)
    QTest.keyClicks(field, "two")
    QTest.keyClick(field, Qt.Key.Key_Return)
    request = engine.last
    assert isinstance(request, Generate)
    assert request.messages[-1].content == "one\ntwo"
    assert field.text == ""


def test_the_other_way_round_where_it_is_preferred(talk: Talk, engine: ScriptedEngine) -> None:
    talk.bench.preferences.update(send_key="ctrl+enter")
    field, count = talk.composer.field, len(engine.asked)
    QTest.keyClicks(field, "one")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert field.text == "one\n"
    assert len(engine.asked) == count
    QTest.keyClick(field, Qt.Key.Key_Return, CONTROL)
    assert isinstance(engine.last, Generate)


def test_a_long_draft_is_read_when_it_is_needed_not_at_each_key(
    talk: Talk, ask: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("Q", "A")
    chat, field = talk.bench.chat, talk.composer.field
    first, lines = chat.chat_id, "A line of words.\n" * 8000
    field.set_text(lines)
    reads: list[int] = []
    text = HiddenText.text
    monkeypatch.setattr(HiddenText, "text", lambda *which: reads.append(1) or text(*which))
    QTest.keyClicks(field, "end")
    assert not reads
    assert talk.composer.send_button.isEnabled()
    chat.open(None)  # before the draft is saved by its timer
    assert field.text == ""
    chat.open(first)
    assert field.text == chat.details.draft == lines + "end"
    QTest.keyClicks(field, "!")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert chat.path[2].text == lines + "end!"
    assert field.text == chat.details.draft == ""


def test_send_becomes_stop_in_its_place(talk: Talk, engine: ScriptedEngine) -> None:
    composer, button = talk.composer, talk.composer.send_button
    assert (button.text(), button.isEnabled()) == ("Send", False)
    composer.field.set_text("Q")
    place = button.geometry()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    QApplication.processEvents()
    assert (button.text(), button.accessibleName()) == ("Stop", "Stop the answer")
    assert button.toolTip() == "Esc"
    assert button.geometry() == place
    composer.field.set_text("the next question, while the answer comes")
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert composer.field.text.startswith("the next question")
    request = engine.last.id
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert engine.last == Cancel(request)
    engine.asked.pop()
    engine.end("cancelled", n=0)
    QApplication.processEvents()
    assert (button.text(), button.accessibleName(), button.isEnabled()) == ("Send", "Send", True)
    assert button.geometry() == place
    assert composer.field.text.startswith("the next question")


def test_a_double_click_or_a_held_key_sends_and_does_not_stop(
    talk: Talk, engine: ScriptedEngine
) -> None:
    button = talk.composer.send_button
    talk.composer.field.set_text("Q")
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    place = QPointF(button.rect().center())
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    for kind, held in (
        (QEvent.Type.MouseButtonDblClick, left),  # the second press of a double click
        (QEvent.Type.MouseButtonRelease, none),
    ):
        event = QMouseEvent(
            kind, place, button.mapToGlobal(place), left, held, Qt.KeyboardModifier.NoModifier
        )
        QApplication.sendEvent(button, event)
    assert isinstance(engine.last, Generate)
    button.setFocus()
    held = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Return, Qt.KeyboardModifier(0), "", True)
    QApplication.sendEvent(button, held)
    assert isinstance(engine.last, Generate)


def test_drafts_are_kept_with_their_chat(talk: Talk, ask: Callable[..., None]) -> None:
    ask("First", "A.")
    field, chat = talk.composer.field, talk.bench.chat
    first = chat.chat_id
    QTest.keyClicks(field, "draft of the first")
    chat.open(None)
    assert field.text == ""
    QTest.keyClicks(field, "of the second")
    chat.open(first)
    assert field.text == "draft of the first"
    chat.open(None)
    assert field.text == "of the second"


def test_it_grows_from_one_line_to_eight(talk: Talk) -> None:
    field = talk.composer.field
    one = field.height()
    line = field.fontMetrics().lineSpacing()
    field.set_text("\n" * 2)
    assert field.height() == one + 2 * line
    field.set_text("\n" * 40)
    assert field.height() == one + 7 * line
    field.set_text("word " * 100)  # wrapped lines count as well
    assert one + 2 * line <= field.height() <= one + 7 * line
    field.set_text("")
    assert field.height() == one


def test_only_plain_text_is_pasted(talk: Talk) -> None:
    rich = QMimeData()
    rich.setHtml("<b>bold</b><img src='https://example.org/x.png'>")
    rich.setText("bold")
    QGuiApplication.clipboard().setMimeData(rich)
    talk.composer.field.paste()
    assert talk.composer.field.text == "bold"


def test_pictures_and_files_are_left_to_the_window(talk: Talk) -> None:
    field, given, pasted = talk.composer.field, [], []
    talk.composer.picture_given.connect(lambda data: given.append(data()))
    talk.composer.files_given.connect(pasted.extend)
    picture = QImage(4, 3, QImage.Format.Format_RGB32)
    picture.fill(0xFF3366CC)
    QGuiApplication.clipboard().setImage(picture)
    field.paste()
    (data,) = given
    assert Image.open(BytesIO(data)).convert("RGB").getcolors() == [(12, (0x33, 0x66, 0xCC))]
    copied = QMimeData()
    copied.setUrls([QUrl.fromLocalFile("/tmp/a.png"), QUrl.fromLocalFile("/tmp/b.gif")])
    QGuiApplication.clipboard().setMimeData(copied)
    field.paste()
    assert pasted == [Path("/tmp/a.png"), Path("/tmp/b.gif")]
    assert field.text == ""
    files = QMimeData()
    files.setUrls([QUrl.fromLocalFile("/tmp/model.gguf")])
    assert not field.canInsertFromMimeData(files)


def test_the_drafts_tokens_are_counted_by_the_models_tokenizer(
    qtbot: QtBot, bench: Workbench, engine: ScriptedEngine, smollm2_path: Path
) -> None:
    composer = Composer(bench, PictureLoader(bench))
    bench.open_model(smollm2_path)
    looked = str(smollm2_path)  # the file is looked at before it is loaded
    qtbot.waitUntil(lambda: getattr(engine.last_of(Load), "path", "") == looked)
    engine.load_done()
    text = "How many tokens has a naïve sentence, 你好?"
    composer.field.set_text(text)
    qtbot.waitUntil(lambda: composer.counter.count is not None)
    with open_gguf(smollm2_path) as file:
        expected = len(load_tokenizer(file.metadata).encode(text, add_special=False))
    assert composer.counter.count == expected
    assert composer.count.text() == f"{expected} tok"
    composer.field.set_text("")
    assert composer.count.text() == ""
    composer.deleteLater()


@pytest.fixture
def popover(talk: Talk) -> SamplingPopover:
    QTest.mouseClick(talk.composer.sampling, Qt.MouseButton.LeftButton)
    popover = talk.composer.popover
    assert popover is not None
    assert popover.isVisible()
    return popover


def test_the_settings_leave_the_message_in_sight(talk: Talk) -> None:
    """They scroll between the top of the window and the field."""
    talk.resize(700, 800)
    talk.move(20, 100)
    QApplication.processEvents()
    QTest.mouseClick(talk.composer.sampling, Qt.MouseButton.LeftButton)
    popover = talk.composer.popover
    assert popover is not None
    assert popover.geometry().bottom() < talk.composer.field.mapToGlobal(QPoint()).y()
    assert popover.geometry().top() >= talk.mapToGlobal(QPoint()).y()


def test_sliders_and_fields_set_the_sampling(
    talk: Talk, popover: SamplingPopover, engine: ScriptedEngine
) -> None:
    temperature = popover.numbers["temperature"]
    temperature.field.setValue(1.5)
    assert temperature.slider.value() == 750
    popover.numbers["top_k"].slider.setValue(100)
    popover.numbers["min_p"].slider.setValue(0)
    popover.seed.setText("42")
    popover.seed.editingFinished.emit()
    popover.hide()
    assert talk.bench.chat.details.sampling == Sampling(
        temperature=1.5, top_k=10, min_p=0.0, seed=42
    )
    assert "seed 42" in talk.composer.settings_button.text()
    talk.bench.chat.send("Q")
    request = engine.last
    assert isinstance(request, Generate)
    assert request.sampling.temperature == 1.5


def test_nonsense_is_no_seed(talk: Talk, popover: SamplingPopover) -> None:
    for text in ("abc", "-1", str(1 << 64)):
        popover.seed.setText(text)
        popover.seed.editingFinished.emit()
        assert talk.bench.chat.details.sampling.seed is None
        assert popover.seed.text() == ""


def test_presets_are_chosen_kept_and_deleted(talk: Talk, popover: SamplingPopover) -> None:
    precise = BUILT_IN[1]
    popover.presets.setCurrentText(precise.name)
    popover.presets.activated.emit(popover.presets.currentIndex())
    drawn = talk.bench.chat.details.sampling
    assert drawn == replace(Sampling(), **precise.sampling.values)
    assert not popover.remove_button.isEnabled()
    popover.numbers["temperature"].field.setValue(0.31)
    assert popover.presets.currentText() == "Custom"
    popover.save_as("Mine")
    assert popover.presets.currentText() == "Mine"
    assert talk.composer.settings_button.text().startswith("Mine")
    popover.remove_button.click()
    assert popover.presets.currentText() == "Custom"


def test_the_system_prompt_goes_with_the_next_question(
    talk: Talk, popover: SamplingPopover, engine: ScriptedEngine
) -> None:
    QTest.keyClicks(popover.system, "Be brief.")
    QTest.keyClick(popover, Qt.Key.Key_Escape)
    QApplication.processEvents()
    assert not popover.isVisible()
    talk.bench.chat.send("Q")
    request = engine.last
    assert isinstance(request, Generate)
    assert [(m.role, m.content) for m in request.messages] == [
        ("system", "Be brief."),
        ("user", "Q"),
    ]


def test_a_sent_question_does_not_come_back_as_a_draft(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    field, chat = talk.composer.field, talk.bench.chat
    QTest.keyClicks(field, "What is a cat?")
    qtbot.waitUntil(lambda: talk.bench.preferences.value.draft == "What is a cat?")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert field.text == ""
    engine.end()
    chat.open(None)
    assert (chat.details.draft, field.text) == ("", "")
    assert talk.bench.preferences.value.draft == ""


def test_a_question_that_cannot_be_kept_stays_in_the_field(
    talk: Talk, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ChatStore, message: Message) -> None:
        raise StoreError("chats.sqlite", sqlite3.OperationalError("disk full"))

    QTest.keyClicks(talk.composer.field, "What is a cat?")
    talk.bench.chat.details.set_draft("What is a cat?")
    monkeypatch.setattr(ChatStore, "add", fail)
    talk.composer.send()
    assert talk.composer.field.text == "What is a cat?"
    assert talk.bench.chat.details.draft == "What is a cat?"
    monkeypatch.undo()
    talk.composer.send()
    assert [m.text for m in talk.bench.chat.path] == ["What is a cat?", ""]
    assert talk.composer.field.text == ""


def too_long(talk: Talk, qtbot: QtBot, tokens: int = 5898) -> None:
    """A question of so many tokens of a context of 2,048 is written."""
    talk.composer.field.set_text("word " * tokens)
    talk.composer.counter.count = tokens
    talk.composer.counter.changed.emit()


def test_a_question_that_does_not_fit_says_what_is_left_out(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    overflow = talk.composer.overflow
    talk.bench.chat.details.set_limits(AnswerLimits(when_full="shift"))
    talk.composer.field.set_text("short")
    talk.composer.counter.count = 1
    talk.composer.counter.changed.emit()
    assert overflow.isHidden()
    too_long(talk, qtbot)
    assert overflow.isVisible()
    assert overflow.words.text() == (
        "3\u202f851 tokens too long for the context of 2\u202f048:"
        " the oldest messages will be dropped."
    )
    assert talk.composer.send_button.isEnabled()


def test_a_model_made_for_a_longer_context_is_loaded_with_one(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot, tiny_path: Path
) -> None:
    session, longer = talk.bench.session, talk.composer.overflow.longer
    too_long(talk, qtbot)
    assert longer.isHidden(), "2,048 tokens are all that it was made for"
    session.unload()
    talk.bench.open_model(tiny_path)
    engine.load_done(trained=32768)
    too_long(talk, qtbot, 40_000)
    assert longer.isHidden(), "not even that is enough"
    too_long(talk, qtbot)
    assert longer.text().replace("\u2009", " ") == "Reload with 8 192 tokens"
    too_long(talk, qtbot, 32_700)
    assert longer.text().replace("\u2009", " ") == "Reload with 32 768 tokens"
    too_long(talk, qtbot)
    QTest.mouseClick(longer, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: session.options.ctx == 8192 and session.status == "loading")
    qtbot.waitUntil(lambda: isinstance(engine.last, Load) and engine.last.options.ctx == 8192)
    engine.load_done(n_ctx=8192, trained=32768)
    assert talk.composer.overflow.isHidden()
    assert talk.composer.field.text.startswith("word")
    assert talk.bench.preferences.of_model(str(tiny_path)).ctx == 8192
    engine.load_done(n_ctx=4096, trained=32768)
    too_long(talk, qtbot)
    assert longer.isHidden(), "the memory had room for 4,096 alone"


@pytest.mark.parametrize(("row", "policy"), [(0, "shift"), (1, "middle"), (2, "stop")])
def test_the_person_chooses_what_is_left_out(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot, row: int, policy: str
) -> None:
    too_long(talk, qtbot)
    count = len(engine.asked)
    choice = talk.composer.overflow.choice
    choice.setCurrentIndex(row)
    choice.activated.emit(row)
    QTest.keyClick(talk.composer.field, Qt.Key.Key_Return)
    if policy == "stop":
        assert "shorten it to send it" in talk.composer.overflow.words.text()
        assert not talk.composer.send_button.isEnabled()
        assert len(engine.asked) == count
        assert talk.composer.field.text.startswith("word")
        too_long(talk, qtbot, 100)
        assert talk.composer.send_button.isEnabled()
    else:
        request = engine.last
        assert isinstance(request, Generate)
        assert request.when_full == policy
    talk.bench.chat.open(None)
    assert talk.bench.chat.details.limits.when_full == policy


def test_limits_go_with_every_question(talk: Talk, engine: ScriptedEngine) -> None:
    popover = SamplingPopover(talk.bench, talk)
    popover.limits.length.field.setValue(256)
    popover.limits.stops.setPlainText("User:\n\\n\\n\n\nC:\\\\new\nUser:")
    popover.limits.save()
    popover.numbers["frequency_penalty"].field.setValue(-0.5)
    popover.numbers["presence_penalty"].field.setValue(1.5)
    popover.numbers["penalty_last_n"].field.setValue(-1)
    talk.bench.chat.send("Q")
    request = engine.last
    assert isinstance(request, Generate)
    assert request.max_tokens == 256
    assert request.stop == ["User:", "\n\n", "C:\\new"]
    drawn = request.sampling
    assert (drawn.frequency_penalty, drawn.presence_penalty) == (-0.5, 1.5)
    assert drawn.penalty_last_n == -1
    again = SamplingPopover(talk.bench, talk)
    assert again.limits.length.value == 256
    assert stops_of(again.limits.stops.toPlainText()) == request.stop


def test_every_sampler_has_a_hint_with_its_range_and_default(talk: Talk) -> None:
    popover = SamplingPopover(talk.bench, talk)
    fields = set(Sampling.__struct_fields__) - {"seed"}
    assert popover.numbers.keys() == fields
    for field, number in popover.numbers.items():
        hint = " ".join(number.name.toolTip().split())
        assert f"default {getattr(Sampling(), field):g}" in hint
        assert "From " in hint
    for widget in (popover.seed, popover.limits.stops, popover.limits.length.field):
        assert "Default" in widget.accessibleDescription()


def test_the_field_has_the_size_of_text_that_is_chosen(talk: Talk, theme: Theme) -> None:
    field = talk.composer.field
    sizes = []
    for choice, scale in (("light", 1.0), ("dark", 2.0), ("light", 0.75)):
        theme.choose(choice, scale)
        QApplication.processEvents()
        sizes.append((field.font().pixelSize(), field.viewport().font().pixelSize()))
    assert sizes == [(15, 15), (30, 30), (11, 11)]


def test_enter_during_an_answer_sends_after_it(talk: Talk, engine: ScriptedEngine) -> None:
    composer = talk.composer
    assert talk.bench.chat.send("One")
    engine.write("An answer")
    assert composer.next.isHidden()
    composer.field.set_text("Two")
    assert not composer.next.isHidden()
    assert composer.queued.isHidden()
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert composer.field.text == "Two"
    assert composer.queued.words.text() == "Sent when the answer ends."
    assert composer.next.isHidden()
    engine.end(n=1)
    request = engine.last
    assert isinstance(request, Generate)
    assert [message.content for message in request.messages][-3:] == ["One", "An answer", "Two"]
    assert (composer.field.text, composer.queued.isHidden()) == ("", True)
    engine.end(n=1)
    assert [m.text for m in talk.bench.chat.path if m.role == "user"] == ["One", "Two"]


@pytest.mark.parametrize("how", ["stop", "cancel", "fail", "type", "leave", "die"])
def test_a_message_for_later_stays_a_draft(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot, how: str
) -> None:
    composer, chat = talk.composer, talk.bench.chat
    assert chat.send("One")
    engine.write("An answer")
    first, request = chat.chat_id, engine.last.id
    composer.field.set_text("Two")
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert chat.sends_next
    if how == "stop":
        chat.stop()
    elif how == "cancel":
        QTest.mouseClick(composer.queued.button, Qt.MouseButton.LeftButton)
    elif how == "type":
        QTest.keyClicks(composer.field, "!")
    elif how == "leave":
        chat.open(None)
    assert chat.sends_next == (how in ("fail", "die"))
    asked = len([one for one in engine.asked if isinstance(one, Generate)])
    if how == "fail":
        engine.say(Failed(request, "OutOfMemory", "no memory"))
    elif how == "die":
        engine.die(CutawayError("it was killed"))
    else:
        engine.end("cancelled" if how == "stop" else "stop", n=1)
    assert not chat.sends_next
    assert len([one for one in engine.asked if isinstance(one, Generate)]) == asked
    chat.open(first)
    assert composer.field.text == ("Two!" if how == "type" else "Two")


def test_saved_prompts_are_offered_at_a_slash(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    composer, preferences = talk.composer, talk.bench.preferences
    QTest.keyClicks(composer.field, "/")
    assert composer.findChild(PromptMenu) is None, "nothing is saved yet"
    composer.field.set_text("Translate this into French & German:")
    composer.show_prompts()
    menu = composer.findChild(PromptMenu)
    assert menu is not None
    menu.close()
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: ("R&D translation", True))
    menu.save()
    assert [prompt.name for prompt in preferences.value.prompts] == ["R&D translation"]
    composer.field.clear()
    QTest.keyClicks(composer.field, "/")
    assert menu.isVisible()
    assert menu.actions()[0].text() == "R&&D translation"
    QTest.keyClick(menu, Qt.Key.Key_Down)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    assert composer.field.text == "Translate this into French & German:"
    assert not menu.isVisible()
    composer.field.set_text("Shortly.")
    composer.show_prompts()
    QTest.keyClick(menu, Qt.Key.Key_Down)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    assert composer.field.text == "Shortly.\n\nTranslate this into French & German:"
    preferences.delete_prompt("R&D translation")
    assert preferences.value.prompts == []
