"""The list of chats: searched, renamed, deleted and brought back, taken in and out."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.state.problem import Problem
from app.state.talk.exchange import duplicate_chat, export_chat, import_chat
from app.state.talk.store import ChatRow, ChatStore
from engine.errors import CutawayError

__all__ = ["ChatList", "ChatRow"]


class ChatList(QObject):
    """What the chat list shows. What fails is told by `problem` and changes nothing."""

    changed = Signal()  # rows
    renamed = Signal(int, str)  # chat, title
    deleted = Signal(object)  # the ChatRow that `undo_delete` would bring back
    problem = Signal(object)  # Problem

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._deleted: list[int] = []
        self._version = 0
        self.query = ""
        self.rows: list[ChatRow] = []
        self.refresh()

    def search(self, query: str) -> None:
        """Only chats whose title or messages have all words of `query`; all when empty."""
        self.query = query
        self.refresh()

    def refresh(self) -> None:
        """Look again."""

        def look() -> None:
            self._version = self._store.version()
            rows = self._store.chats(self.query)
            if rows != self.rows:
                self.rows = rows
                self.changed.emit()

        self._attempt(look)

    def refresh_if_changed(self) -> None:
        """Look again where another window has written; for when this one is activated."""

        def look() -> None:
            if self._store.version() != self._version:
                self.refresh()

        self._attempt(look)

    def rename(self, chat_id: int, title: str) -> None:
        """Another title; an empty one is ignored."""
        if title.strip() and self._attempt(
            lambda: self._store.update(chat_id, touch=False, title=title.strip())
        ):
            self.renamed.emit(chat_id, title.strip())
            self.refresh()

    def delete(self, chat_id: int) -> None:
        """Put aside until the program ends; `undo_delete` brings it back."""

        def delete() -> None:
            chat = self._store.chat(chat_id)
            if chat is not None:
                self._store.delete(chat_id)
                self._deleted.append(chat_id)
                self.deleted.emit(chat)

        self._attempt(delete)
        self.refresh()

    def undo_delete(self) -> int | None:
        """Bring back what was deleted last; its id."""
        if not self._deleted:
            return None
        chat_id = self._deleted.pop()
        if not self._attempt(lambda: self._store.undelete(chat_id)):
            return None
        self.refresh()
        return chat_id

    def duplicate(self, chat_id: int) -> int | None:
        """A copy with all branches; its id."""
        return self._made(lambda: duplicate_chat(self._store, chat_id))

    def export(self, chat_id: int, path: Path) -> bool:
        """Write the active path as Markdown, or (`.json`) the whole tree."""
        return self._attempt(lambda: export_chat(self._store, chat_id, path))

    def import_file(self, path: Path) -> int | None:
        """Take in what `export` wrote as JSON; the new chat's id."""
        return self._made(lambda: import_chat(self._store, path))

    def _made(self, make: Callable[[], int]) -> int | None:
        made: list[int] = []
        self._attempt(lambda: made.append(make()))
        self.refresh()
        return made[0] if made else None

    def _attempt(self, do: Callable[[], object]) -> bool:
        try:
            do()
        except CutawayError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return False
        return True
