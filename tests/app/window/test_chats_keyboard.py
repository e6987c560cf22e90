"""Where the keyboard is after a new chat and another title; Ctrl+Z undoes a deletion."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.widgets.focus import has_focus
from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest

NONE = Qt.KeyboardModifier.NoModifier
CTRL = Qt.KeyboardModifier.ControlModifier


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(window.windowHandle(), key, modifiers)
    QApplication.processEvents()


def type_in(window: MainWindow, text: str) -> None:
    for letter in text:
        QTest.keyClick(window.windowHandle(), letter)
    QApplication.processEvents()


@pytest.fixture
def chats(window: MainWindow, tmp_path: Path) -> MainWindow:
    """Two chats of one question each; the second is open."""
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(tmp_path / "SmolLM2.gguf")
    engine.load_done()
    for question in ("One", "Two"):
        window.bench.chat.open(None)
        assert window.bench.chat.send(question)
        engine.write("An answer")
        engine.end(n=1)
    QApplication.processEvents()
    return window


def titles(window: MainWindow) -> set[str]:
    return {row.title for row in window.bench.chats.rows}


@pytest.mark.parametrize("by", ["mouse", "key", "rail"])
def test_after_a_new_chat_one_can_type(chats: MainWindow, by: str) -> None:
    if by == "rail":
        press(chats, Qt.Key.Key_B, CTRL)
        button = chats.rail.layout().itemAt(1).widget()
    else:
        button = chats.chats.new
    if by == "key":
        button.setFocus()
        press(chats, Qt.Key.Key_Space)
    else:
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert chats.bench.chat.chat_id is None
    assert has_focus(chats.talk.composer)
    type_in(chats, "hello")
    assert chats.talk.composer.field.text == "hello"


@pytest.mark.parametrize("width", [1600, 1280])
def test_after_another_title_the_keyboard_is_in_the_list(chats: MainWindow, width: int) -> None:
    chats.resize(width, 800)
    QApplication.processEvents()
    press(chats, Qt.Key.Key_F2)
    assert chats.chats.isVisible()
    type_in(chats, "Renamed")
    press(chats, Qt.Key.Key_Return)
    come_to_rest(chats)
    assert "Renamed" in titles(chats)
    assert QApplication.focusWidget() is chats.chats.list
    assert chats.chats.search.text() == ""


@pytest.mark.parametrize("at", ["list", "composer"])
def test_ctrl_z_brings_a_deleted_chat_back(chats: MainWindow, at: str) -> None:
    (chats.chats.list if at == "list" else chats.talk.composer.field).setFocus()
    chats.commands.run("chat.delete")
    QApplication.processEvents()
    assert titles(chats) == {"One"}
    press(chats, Qt.Key.Key_Z, CTRL)
    assert titles(chats) == {"One", "Two"}
    assert chats.bench.chat.details.title == "Two"
    assert chats.talk.notices.texts == []


def test_ctrl_z_brings_a_deleted_message_back(chats: MainWindow) -> None:
    assert chats.bench.chat.delete_message(0)
    chats.talk.composer.field.setFocus()
    press(chats, Qt.Key.Key_Z, CTRL)
    assert [message.text for message in chats.bench.chat.path] == ["Two", "An answer"]
    assert chats.talk.notices.texts == []
    assert not chats.commands["chat.undo_delete"].isEnabled(), "nothing else was deleted"


def test_ctrl_z_in_a_text_undoes_the_text_first(chats: MainWindow) -> None:
    assert chats.bench.chat.delete_message(0)
    chats.talk.composer.field.setFocus()
    type_in(chats, "a")
    press(chats, Qt.Key.Key_Z, CTRL)
    assert chats.talk.composer.field.text == ""
    assert chats.bench.chat.path == []
    press(chats, Qt.Key.Key_Z, CTRL)
    assert len(chats.bench.chat.path) == 2
