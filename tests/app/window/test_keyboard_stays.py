"""Where the keyboard is when what had it is gone: never on a button that opens something."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.views.talk.message import MessageView
from app.widgets.focus import has_focus
from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine

NONE = Qt.KeyboardModifier.NoModifier


def press(window: MainWindow, key: Qt.Key) -> None:
    QTest.keyClick(window.windowHandle(), key, NONE)
    QApplication.processEvents()


def press_button(window: MainWindow, root: QWidget, name: str) -> None:
    """Space on the button of that name, as somebody does who came there by Tab."""
    named = [b for b in root.findChildren(QAbstractButton) if b.accessibleName().startswith(name)]
    shown = [button for button in named if button.isVisible()]
    assert len(shown) == 1, name
    shown[0].setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    assert shown[0].hasFocus()
    press(window, Qt.Key.Key_Space)


def answer(window: MainWindow) -> MessageView:
    view = window.talk.chat.column.require(1)
    assert isinstance(view, MessageView)
    QApplication.processEvents()
    return view


@pytest.fixture
def engine(window: MainWindow, tmp_path: Path) -> ScriptedEngine:
    """A model is open and has answered one question."""
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(tmp_path / "SmolLM2.gguf")
    engine.load_done()
    assert window.bench.chat.send("Question?")
    engine.write("An", " answer")
    engine.end(n=2)
    QApplication.processEvents()
    return engine


def continues(window: MainWindow) -> None:
    press_button(window, answer(window), "Continue")
    assert window.bench.chat.busy


def regenerates(window: MainWindow) -> None:
    press_button(window, answer(window), "Regenerate")
    assert window.bench.chat.busy


def keeps(window: MainWindow) -> None:
    press_button(window, answer(window), "Edit")
    edit = answer(window).edit
    assert edit is not None
    QTest.keyClicks(edit.field, "!")
    press_button(window, edit, "Save")
    assert window.bench.chat.path[1].siblings == 2


def branches(window: MainWindow) -> None:
    window.talk.chat.toggle_probabilities()
    tokens = answer(window).tokens
    assert tokens is not None
    tokens.painter.setFocus(Qt.FocusReason.TabFocusReason)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Return):
        press(window, key)
    assert window.bench.chat.path[1].siblings == 2


def closes_a_banner(window: MainWindow) -> None:
    window.talk.notices.news("one", "This is news.")
    window.talk.notices.news("two", "This is other news.")
    QApplication.processEvents()
    press_button(window, window.talk.notices, "Dismiss: This is news.")
    assert window.talk.notices.texts == ["This is other news."]


def closes_the_last_banner(window: MainWindow) -> None:
    window.talk.notices.news("one", "This is news.")
    QApplication.processEvents()
    press_button(window, window.talk.notices, "Dismiss: This is news.")
    assert not window.talk.notices.isVisible()


def stops(window: MainWindow) -> None:
    assert window.bench.chat.regenerate(1)
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    begun = engine.last
    press_button(window, window.talk.composer, "Stop the answer")
    engine.asked.append(begun)
    engine.end("cancelled")


@pytest.mark.parametrize(
    "do",
    [
        *(continues, regenerates, keeps, branches, stops),
        *(closes_a_banner, closes_the_last_banner),
    ],
)
def test_the_keyboard_goes_to_the_composer(
    window: MainWindow, engine: ScriptedEngine, do: Callable[[MainWindow], None]
) -> None:
    do(window)
    QApplication.processEvents()
    assert has_focus(window.talk.composer)
    press(window, Qt.Key.Key_Space)
    assert window.sheets.front is None
    assert window.talk.composer.field.text == " "


def test_without_a_talk_it_goes_to_how_one_begins(
    window: MainWindow, engine: ScriptedEngine
) -> None:
    window.bench.chat.open(None)
    window.talk.composer.field.setFocus()
    window.bench.session.unload()
    QApplication.processEvents()
    assert has_focus(window.talk.welcome)


def opens_a_model(window: MainWindow, tmp_path: Path) -> None:
    window.bench.open_model(tmp_path / "SmolLM2.gguf")
    QApplication.processEvents()
    assert has_focus(window.talk.composer), "not at Cancel, which a space would press"
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    engine.load_done()


def opens_a_chat(window: MainWindow, tmp_path: Path) -> None:
    file = tmp_path / "cats.json"
    messages = [{"role": "user", "text": "What?"}, {"role": "assistant", "text": "A.", "parent": 0}]
    content = {"format": "cutaway-chat", "version": 1, "title": "Cats", "messages": messages}
    file.write_text(json.dumps(content))
    window.bench.chats.import_file(file)  # it is opened when it has come


@pytest.mark.parametrize("do", [opens_a_model, opens_a_chat])
def test_it_goes_from_the_welcome_page_to_the_composer(
    window: MainWindow, tmp_path: Path, qtbot: QtBot, do: Callable[[MainWindow, Path], None]
) -> None:
    assert has_focus(window.talk.welcome)
    do(window, tmp_path)
    qtbot.waitUntil(lambda: window.talk.stack.currentWidget() is window.talk.chat)
    QApplication.processEvents()
    assert has_focus(window.talk.composer.field)


def test_it_comes_back_to_a_window_whose_button_went_meanwhile(
    window: MainWindow, engine: ScriptedEngine
) -> None:
    window.talk.notices.news("one", "This is news.")
    QApplication.processEvents()
    buttons = window.talk.notices.findChildren(QAbstractButton)
    buttons[0].setFocus(Qt.FocusReason.TabFocusReason)
    other = QWidget()
    other.show()
    other.activateWindow()
    QTest.qWaitForWindowActive(other)
    window.talk.notices.drop("one")
    other.close()
    window.activateWindow()
    QTest.qWaitForWindowActive(window)
    assert has_focus(window.talk.composer)


def test_in_a_pane_beside_the_talk_it_stays_there(
    window: MainWindow, engine: ScriptedEngine
) -> None:
    button = next(
        b for b in window.chats.findChildren(QAbstractButton) if b.isVisible() and b.isEnabled()
    )
    button.setFocus(Qt.FocusReason.TabFocusReason)
    assert has_focus(window.chats)
    button.hide()
    assert has_focus(window.chats)
