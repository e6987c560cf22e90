"""The list of chats: newest first, searched, renamed, deleted and brought back, taken in and out."""

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True)
class ChatRow:
    """A chat in the list; `snippet` is the text around what was searched for."""

    id: int
    title: str
    created: float
    changed: float
    model: str = ""
    snippet: str = ""


class ChatList(QObject):
    """What the chat list shows."""

    changed = Signal()  # rows
    deleted = Signal(object)  # the ChatRow that `undo_delete` would bring back
    problem = Signal(object)  # Problem

    rows: list[ChatRow]
    query: str

    def search(self, query: str) -> None:
        """Only chats whose title or messages have all words of `query`; all when empty."""

    def refresh(self) -> None:
        """Look again; another window may have changed something."""

    def rename(self, chat_id: int, title: str) -> None: ...
    def delete(self, chat_id: int) -> None:
        """Put aside until the program ends; `undo_delete` brings it back."""

    def undo_delete(self) -> int | None:
        """Bring back what was deleted last; its id."""
        ...

    def duplicate(self, chat_id: int) -> int: ...
    def export(self, chat_id: int, path: Path) -> None:
        """Write the active path as Markdown, or (`.json`) the whole tree."""

    def import_file(self, path: Path) -> int | None:
        """Take in what `export` wrote as JSON; the new chat's id."""
        ...
