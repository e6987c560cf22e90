"""The empty chat and its questions, the demo with its picture, a chat that changes its model."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from app.defaults import ANY, BEGINNINGS, SMOLLM2, TASKS
from app.fetch import bundled
from app.widgets.focus import has_focus
from app.window.main_window import MainWindow
from engine.protocol import Failed, Generate, Load, Loaded
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until
from tests.app.rest import come_to_rest
from tests.app.test_library import put


@pytest.fixture
def engine(new_window: MainWindow) -> ScriptedEngine:
    made = new_window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def load_done(engine: ScriptedEngine, **fields: object) -> None:
    """The model that was asked for is open, and is of that kind."""
    request = engine.last_of(Load)
    assert isinstance(request, Load)
    loaded = Loaded(
        request.id, request.path, "Some", "llama", "intel:0", "Intel CPU", 2048, 2048, 49152, "file"
    )
    engine.say(msgspec.structs.replace(loaded, **fields))
    QApplication.processEvents()


def reads(window: MainWindow, text: str) -> bool:
    return any(text in w.text() for w in window.findChildren(QLabel) if w.isVisible())


def questions(window: MainWindow) -> tuple[str, ...]:
    return tuple(offer.text() for offer in window.talk.chat.empty.questions)


def asked(engine: ScriptedEngine) -> str:
    request = engine.last_of(Generate)
    assert isinstance(request, Generate)
    return request.messages[-1].content


def test_a_click_on_a_question_asks_it(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    new_window.bench.open_model(put(tmp_path / "SmolLM2-135M-Instruct.gguf"))
    load_done(engine, general={"general.basename": "smollm2", "general.size_label": "135M"})
    assert questions(new_window) == SMOLLM2
    new_window.talk.composer.field.set_text("what I was writing")
    offer = new_window.talk.chat.empty.questions[1]
    QTest.mouseClick(offer, Qt.MouseButton.LeftButton)
    assert asked(engine) == SMOLLM2[1]
    assert new_window.talk.composer.field.text == "what I was writing"
    assert not new_window.talk.chat.empty.isVisible()


def test_the_questions_are_those_of_the_model_that_is_open(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    new_window.bench.open_model(put(tmp_path / "other.gguf"))
    load_done(engine)
    assert questions(new_window) == ANY
    assert new_window.talk.composer.field.placeholderText() == "Message"
    new_window.bench.open_model(put(tmp_path / "base.gguf"))
    until(lambda: len([r for r in engine.asked if isinstance(r, Load)]) == 2)
    load_done(engine, chat="none")
    assert questions(new_window) == BEGINNINGS
    assert reads(new_window, "This is a base model: it continues text.")
    assert new_window.talk.composer.field.placeholderText() == "Text to continue"
    first = new_window.talk.chat.empty.questions[0]
    first.setFocus()
    QTest.keyClick(first, Qt.Key.Key_Space)
    assert asked(engine) == BEGINNINGS[0]


def test_a_model_that_answers_each_message_alone_has_tasks(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    new_window.bench.open_model(put(tmp_path / "t5.gguf"))
    load_done(engine, chat="alone")
    assert questions(new_window) == TASKS
    assert reads(new_window, "This model answers each message by itself")
    assert new_window.talk.composer.field.placeholderText() == "Message"


def test_the_demo_opens_with_a_picture_and_a_question(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    bench, composer = new_window.bench, new_window.talk.composer
    bench.open_model(put(tmp_path / "first.gguf"))
    load_done(engine)
    assert bench.chat.send("Hello")
    engine.end()
    bench.chat.open(None)
    QApplication.processEvents()
    QTest.mouseClick(new_window.talk.chat.empty.demo, Qt.MouseButton.LeftButton)
    until(lambda: len([r for r in engine.asked if isinstance(r, Load)]) == 2)
    assert has_focus(composer)
    load_done(engine)
    until(lambda: bench.chat.attached.pictures)
    assert [picture.name for picture in bench.chat.attached.pictures] == ["sample.png"]
    assert composer.field.text == bundled.QUESTIONS[0]
    assert questions(new_window) == bundled.QUESTIONS
    assert reads(new_window, bundled.KNOWS)
    assert not new_window.talk.chat.empty.demo.isVisible()
    new_window.commands.run("model.demo")
    until(lambda: not bench.chat.attached.arriving)
    assert len(bench.chat.attached.pictures) == 1, "asked for twice, it is there once"


def test_the_demo_leaves_what_a_person_wrote(
    new_window: MainWindow, engine: ScriptedEngine
) -> None:
    new_window.commands.run("model.demo")
    new_window.talk.composer.field.set_text("mine")
    load_done(engine)
    until(lambda: new_window.bench.chat.attached.pictures)
    assert new_window.talk.composer.field.text == "mine"


def test_a_demo_that_was_cancelled_attaches_nothing(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    new_window.commands.run("model.demo")
    new_window.bench.session.cancel_load()
    engine.say(Failed(engine.last_of(Load).id, "Cancelled", "cancelled"))
    new_window.bench.open_model(put(tmp_path / "other.gguf"))
    load_done(engine)
    assert not new_window.bench.chat.attached.arriving
    assert new_window.bench.chat.attached.pictures == ()


def test_a_chat_says_that_another_model_answers_now(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    bench = new_window.bench
    bench.open_model(put(tmp_path / "first.gguf"))
    load_done(engine)
    assert bench.chat.send("Hello")
    engine.write("Hi")
    engine.end(n=1)
    bench.open_model(put(tmp_path / "second.gguf"))
    until(lambda: len([r for r in engine.asked if isinstance(r, Load)]) == 2)
    load_done(engine)
    said = "This chat used first; new answers use second."
    assert reads(new_window, said)
    assert bench.chat.send("And now?")
    engine.write("Ho")
    engine.end(n=1)
    QApplication.processEvents()
    assert not reads(new_window, said), "once"
    bench.chat.open(None)
    assert not reads(new_window, "This chat used")


def test_the_model_of_a_chat_is_one_click_away(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    bench, other = new_window.bench, new_window.talk.composer.other
    bench.open_model(put(tmp_path / "first.gguf"))
    load_done(engine)
    assert bench.chat.send("Hello")
    engine.write("Hi")
    engine.end(n=1)
    assert other.isHidden()
    bench.session.unload()
    assert other.words.text() == "This chat used first."
    QTest.mouseClick(other.button, Qt.MouseButton.LeftButton)
    load = engine.last_of(Load)
    assert isinstance(load, Load)
    assert load.path == str(tmp_path / "first.gguf")
    assert other.isHidden()


def test_a_message_without_a_model_opens_that_of_the_chat_and_waits_for_it(
    new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    bench, composer = new_window.bench, new_window.talk.composer
    bench.open_model(put(tmp_path / "first.gguf"))
    load_done(engine)
    assert bench.chat.send("Hello")
    engine.write("Hi")
    engine.end(n=1)
    bench.session.unload()
    QTest.keyClicks(composer.field, "And now?")
    come_to_rest(new_window, bench)
    assert composer.count.text() == "", "no model has counted them"
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert bench.session.status == "loading"
    assert composer.queued.isVisible()
    assert composer.field.text == ""
    load_done(engine)
    request = engine.last
    assert isinstance(request, Generate)
    assert request.messages[-1].content == "And now?"


def test_the_first_page_offers_the_guide(window: MainWindow) -> None:
    guide = window.talk.welcome.guide
    assert guide.isVisibleTo(window)
    guide.click()
    assert window.sheets.front is window.sheets.of[window.sheets.guide]
