"""The list of chats folded to icons, where there is no room for it."""

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.theme.tokens import GRID
from app.widgets.basics import IconButton, surface
from app.widgets.commands import Actions


class ChatRail(QWidget):
    """A narrow bar with buttons for the chat list, a new chat and search."""

    def __init__(self, commands: Actions[Any]) -> None:
        super().__init__()
        surface(self, "panel")
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID // 2, GRID, GRID // 2, GRID)
        column.setSpacing(GRID // 2)
        column.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        for picture, name, command in (
            ("chats", "Show the chats (Ctrl+B)", "view.chats"),
            ("plus", "New chat (Ctrl+N)", "chat.new"),
            ("search", "Search chats (Ctrl+K)", "chat.search"),
        ):
            column.addWidget(_button(picture, name, commands, command))


def _button(picture: str, name: str, commands: Actions[Any], command: str) -> IconButton:
    return IconButton(picture, name, lambda: commands.run(command))
