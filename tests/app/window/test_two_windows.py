"""Two windows on the same files."""

from pathlib import Path

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.state.talk.disk.store import ChatStore
from app.window.main_window import MainWindow


def test_a_window_that_is_used_again_shows_what_another_wrote(
    window: MainWindow, own_home: Path, qtbot: QtBot
) -> None:
    assert window.bench.chats.rows == []
    beside = QWidget()
    with qtbot.waitActive(beside):
        beside.show()
        beside.activateWindow()
    other = ChatStore(own_home / "data" / "cutaway" / "chats.sqlite")
    other.create("by the other window")
    other.close()
    assert window.bench.chats.rows == []
    with qtbot.waitActive(window):
        window.activateWindow()
    qtbot.waitUntil(lambda: len(window.bench.chats.rows) == 1)
    assert window.bench.chats.rows[0].title == "by the other window"
    beside.close()
    beside.deleteLater()
