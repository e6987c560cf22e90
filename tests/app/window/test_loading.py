"""Writing while a model loads: nothing is lost, nothing is cancelled by accident."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QProgressBar

from app.state.models.downloads import Download
from app.widgets.focus import has_focus
from app.window.main_window import MainWindow
from engine.protocol import Cancel, Failed, Generate, Load, Progress
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until
from tests.app.test_library import put

NONE = Qt.KeyboardModifier.NoModifier


def press(window: MainWindow, key: Qt.Key) -> None:
    QTest.keyClick(window.windowHandle(), key, NONE)
    QApplication.processEvents()


def type_in(window: MainWindow, text: str) -> None:
    """Letters to whatever has the keyboard."""
    for letter in text:
        QTest.keyClick(window.windowHandle(), letter)
    QApplication.processEvents()


@pytest.fixture
def engine(new_window: MainWindow) -> ScriptedEngine:
    made = new_window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


@pytest.fixture
def loading(new_window: MainWindow, engine: ScriptedEngine, tmp_path: Path) -> MainWindow:
    """The first model of a new window loads."""
    new_window.bench.open_model(put(tmp_path / "first.gguf"))
    QApplication.processEvents()
    return new_window


def cancel_answered(engine: ScriptedEngine) -> None:
    """The engine has stopped the load that was cancelled."""
    engine.say(Failed(engine.last_of(Load).id, "Cancelled", "the request was cancelled"))
    QApplication.processEvents()


def reads(window: MainWindow, text: str) -> bool:
    return any(text in w.text() for w in window.findChildren(QLabel) if w.isVisible())


def test_what_is_typed_while_a_model_loads_is_a_question(
    loading: MainWindow, engine: ScriptedEngine
) -> None:
    assert has_focus(loading.talk.composer)
    type_in(loading, "to be or not")
    assert not any(isinstance(request, Cancel) for request in engine.asked)
    assert loading.talk.composer.field.text == "to be or not"
    press(loading, Qt.Key.Key_Return)
    assert reads(loading, "Sent when the model is ready.")
    assert loading.bench.session.status == "loading"
    engine.load_done()
    QApplication.processEvents()
    sent = engine.last_of(Generate)
    assert isinstance(sent, Generate)
    assert sent.messages[-1].content == "to be or not"
    assert not reads(loading, "Sent when the model is ready.")


def test_a_question_that_waits_says_how_far_a_large_model_is(
    loading: MainWindow, engine: ScriptedEngine
) -> None:
    """5 GiB are more than Qt's bars count to, and no number that anybody reads."""
    type_in(loading, "to be or not")
    press(loading, Qt.Key.Key_Return)
    engine.say(Progress(engine.last_of(Load).id, "load", 3 << 30, 5 << 30))
    QApplication.processEvents()
    (bar,) = (
        bar
        for bar in loading.talk.findChildren(QProgressBar)
        if bar.accessibleName() == "Progress of the prompt" and bar.isVisible()
    )
    assert bar.value() / bar.maximum() == pytest.approx(0.6)
    assert reads(loading, "Loading the model  ·  60 %")
    assert not reads(loading, "\u2009")


@pytest.mark.parametrize("by", ["button", "stop", "escape"])
def test_a_queued_question_is_taken_back(
    loading: MainWindow, engine: ScriptedEngine, by: str
) -> None:
    composer, chat = loading.talk.composer, loading.bench.chat
    type_in(loading, "first")
    press(loading, Qt.Key.Key_Return)
    type_in(loading, "second")
    if by == "button":
        composer.queued.button.click()
    elif by == "stop":
        composer.send_button.click()
    else:
        press(loading, Qt.Key.Key_Escape)
    QApplication.processEvents()
    assert composer.field.text == "first\nsecond"
    assert (chat.path, chat.chat_id, chat.busy) == ([], None, False)
    assert loading.bench.chats.rows == []
    assert loading.bench.session.status == "loading"
    engine.load_done()
    assert not any(isinstance(request, Generate) for request in engine.asked)


def test_a_second_question_is_taken_back_out_of_its_chat(
    loading: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    engine.load_done()
    chat, bench = loading.bench.chat, loading.bench
    assert chat.send("One?")
    engine.write("1")
    engine.end(n=1)
    bench.open_model(put(tmp_path / "second.gguf"))
    assert chat.send("Two?")
    assert chat.queued
    chat.stop()
    assert [message.text for message in chat.path] == ["One?", "1"]
    assert loading.talk.composer.field.text == "Two?"
    assert not chat.undo_delete_message(), "it was not deleted, it was not sent"
    until(lambda: len([r for r in engine.asked if isinstance(r, Load)]) == 2)
    engine.load_done()
    assert chat.send("Two?")


def test_cancelling_a_load_brings_the_model_before_back(
    loading: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    engine.load_done()
    bench = loading.bench
    bench.open_model(put(tmp_path / "second.gguf"))
    until(lambda: len([r for r in engine.asked if isinstance(r, Load)]) == 2)
    assert bench.chat.send("For the second")
    bench.session.cancel_load()
    cancel_answered(engine)
    again = engine.last_of(Load)
    assert isinstance(again, Load)
    assert Path(again.path).name == "first.gguf"
    assert loading.talk.notices.texts == ["Opening second was cancelled. first is open again."]
    engine.load_done()
    assert bench.session.status == "ready"
    assert bench.session.model_name == "first"
    assert loading.talk.composer.field.text == "For the second", "it was for another model"
    assert not any(isinstance(request, Generate) for request in engine.asked)
    bench.open_model(tmp_path / "second.gguf")
    bench.session.cancel_load()  # while its header is read
    assert bench.session.status == "ready"
    assert "first stays open." in loading.talk.notices.texts[-1]


def test_a_question_for_a_file_that_is_refused_is_not_asked_of_another_model(
    loading: MainWindow,
    engine: ScriptedEngine,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine.load_done()
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03")
    with caplog.at_level(100):
        loading.bench.open_model(tmp_path / "broken.gguf")
        assert loading.bench.chat.send("For the broken one")
        until(lambda: loading.bench.session.status == "ready")
    caplog.clear()
    assert loading.talk.composer.field.text == "For the broken one"
    assert not any(isinstance(request, Generate) for request in engine.asked)


def test_the_first_load_cancelled_leaves_the_welcome_page(
    loading: MainWindow, engine: ScriptedEngine
) -> None:
    type_in(loading, "kept")
    loading.bench.session.cancel_load()
    cancel_answered(engine)
    assert loading.bench.session.status == "idle"
    assert has_focus(loading.talk.welcome)
    assert loading.bench.chat.details.draft == "kept"
    assert loading.talk.notices.texts == ["Opening first was cancelled. No model is open."]


def test_a_space_while_a_model_is_downloaded_cancels_nothing(new_window: MainWindow) -> None:
    window, downloads = new_window, new_window.bench.downloads
    cancelled: list[str] = []
    downloads.cancel = cancelled.append  # type: ignore[method-assign]
    window.talk.welcome.get.setFocus()
    downloads.items["smollm2-135m"] = Download("smollm2-135m", "running", "download", 1, 2, 1.0, 1)
    downloads.changed.emit("smollm2-135m")
    QApplication.processEvents()
    now = QApplication.focusWidget()
    assert now is not None
    assert now.accessibleName() == "Progress"
    press(window, Qt.Key.Key_Space)
    assert cancelled == []
    press(window, Qt.Key.Key_Tab)
    press(window, Qt.Key.Key_Space)
    assert cancelled == ["smollm2-135m"], "it is the next one"
