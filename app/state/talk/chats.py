"""The list of chats: searched, renamed, deleted and brought back, taken in and out."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.language import tr
from app.state.problem import Problem
from app.state.talk.disk.chat_file import MOST_TAGS
from app.state.talk.disk.exchange import duplicate_chat, export_chat, import_chat
from app.state.talk.disk.store import ChatRow, ChatStore
from app.work import Work
from engine.errors import CutawayError

LONGEST_TITLE = 1000  # characters
LONGEST_FOLDER = 200
LONGEST_TAG = 100

log = logging.getLogger("chats")

__all__ = ["ChatList", "ChatRow", "Transfer"]


@dataclass(frozen=True)
class Transfer:
    """A chat on its way in or out; `total` messages, 0 while that is not known."""

    what: str
    done: int = 0
    total: int = 0


class ChatList(QObject):
    """State of the chat list; `folders` are the names of all folders, sorted. Failures are sent as
    `problem` and changes nothing.

    Chats are imported, copied and exported in the background, one at a time.
    """

    changed = Signal()  # rows
    renamed = Signal(int, str)  # chat, title
    deleted = Signal(object)  # the ChatRow that `undo_delete` would bring back
    arrived = Signal(int)  # a chat that was imported or copied, to be opened
    exported = Signal(object)  # Path
    transfer_changed = Signal()  # at most once a frame
    problem = Signal(object)  # Problem

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._deleted: list[int] = []
        self._version = 0
        self._job: Work | None = None
        self.transfer: Transfer | None = None
        self.query = ""
        self.rows: list[ChatRow] = []
        self.folders: list[str] = []
        self.refresh()

    def search(self, query: str) -> None:
        """Only chats whose title or messages have all words of `query`; all when empty."""
        self.query = query
        self.refresh()

    def refresh(self) -> None:
        """Look again."""
        with self._storing():
            self._version = self._store.version()
            rows = self._store.chats(self.query)
            everything = self._store.chats() if self.query else rows
            self.folders = sorted({row.folder for row in everything} - {""}, key=str.casefold)
            if rows != self.rows:
                self.rows = rows
                self.changed.emit()

    def refresh_if_changed(self) -> None:
        """Look again where another window has written; for when this one is activated."""
        with self._storing():
            if self._store.version() != self._version:
                self.refresh()

    def rename(self, chat_id: int, title: str) -> None:
        """Another title; an empty one is ignored."""
        title = title.strip()[:LONGEST_TITLE]
        if title:
            with self._storing():
                self._store.update(chat_id, touch=False, title=title)
                self.renamed.emit(chat_id, title)
                self.refresh()

    def set_pinned(self, chat_id: int, pinned: bool) -> None:
        """Keep a chat at the top of the list, or no longer."""
        self._update(chat_id, pinned=int(pinned))

    def move(self, chat_id: int, folder: str) -> None:
        """Put a chat into a folder, which exists while chats are in it; empty: into none."""
        self._update(chat_id, folder=_folder_name(folder))

    def rename_folder(self, folder: str, name: str) -> None:
        """Give a folder another name; with an empty one its chats are in no folder."""
        with self._storing(), self._store.together():
            for chat in self._store.chats():
                if chat.folder == folder:
                    self._store.update(chat.id, touch=False, folder=_folder_name(name))
        self.refresh()

    def set_tags(self, chat_id: int, text: str) -> None:
        """Set the tags of a chat: words, with or without #, separated by spaces or commas."""
        words = [word.strip("#") for word in text.replace(",", " ").split()]
        tags = dict.fromkeys(word[:LONGEST_TAG] for word in words if word)
        self._update(chat_id, tags=list(tags)[:MOST_TAGS])

    def _update(self, chat_id: int, **fields: Any) -> None:
        with self._storing():
            self._store.update(chat_id, touch=False, **fields)
        self.refresh()

    def delete(self, chat_id: int) -> None:
        """Put aside until the program ends; `undo_delete` brings it back."""
        with self._storing():
            chat = self._store.chat(chat_id)
            if chat is not None:
                self._store.delete(chat_id)
                self._deleted.append(chat_id)
                self.deleted.emit(chat)
        self.refresh()

    @property
    def has_deleted(self) -> bool:
        """True if `undo_delete` would restore a chat."""
        return bool(self._deleted)

    def undo_delete(self) -> int | None:
        """Bring back what was deleted last; its id."""
        if not self._deleted:
            return None
        chat_id = self._deleted.pop()
        with self._storing():
            self._store.undelete(chat_id)
            self.refresh()
            return chat_id
        return None

    def duplicate(self, chat_id: int, until: int | None = None) -> None:
        """A copy with all branches, or of the message `until` and those above it: `arrived`."""
        self._begin(tr("Copying the chat"), duplicate_chat, chat_id, until, done=self._on_arrived)

    def export(self, chat_id: int, path: Path) -> None:
        """Write the active path as Markdown, or (`.json`) the whole tree: `exported`."""

        def done(_: object) -> None:
            self._end()
            log.info("a chat was exported to %s", path)
            self.exported.emit(path)

        self._begin(tr("Exporting {name}", name=path.name), export_chat, chat_id, path, done=done)

    def import_file(self, path: Path) -> None:
        """Take in what `export` wrote as JSON: `arrived`."""
        self._begin(
            tr("Importing {name}", name=path.name), import_chat, path, done=self._on_arrived
        )

    def cancel_transfer(self) -> None:
        """Stop it; nothing of the chat is taken in."""
        if self._job is not None:
            self._job.cancel()
            self._end()

    def _begin(
        self, what: str, do: Callable[..., Any], *args: Any, done: Callable[[Any], None]
    ) -> None:
        if self._job is not None:
            text = tr(
                "another chat is being copied, imported or exported; wait for it, or cancel it"
            )
            self.problem.emit(Problem("Busy", text))
            return
        job = Work.polling(_in_thread, self._store, do, args).then(done).fail(self._on_failed)
        self._job = job.progress(self._on_progress).start(self)
        self._show(Transfer(what))

    def _on_progress(self, done: int, total: int) -> None:
        if self.transfer is not None:
            self._show(Transfer(self.transfer.what, done, total))

    def _on_arrived(self, chat_id: int) -> None:
        self._end()
        self.refresh()
        self.arrived.emit(chat_id)

    def _on_failed(self, text: str) -> None:
        self._end()
        self.problem.emit(Problem("Chats", text))

    def _end(self) -> None:
        self._job = None
        self._show(None)

    def _show(self, transfer: Transfer | None) -> None:
        self.transfer = transfer
        self.transfer_changed.emit()

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """End the block where the store fails, and emit the problem."""
        try:
            yield
        except CutawayError as error:
            self.problem.emit(Problem(error.kind, str(error)))


def _folder_name(text: str) -> str:
    return " ".join(text.split())[:LONGEST_FOLDER]


def _in_thread(job: Work, store: ChatStore, do: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    with store.elsewhere() as here:
        return do(here, *args, job.report, lambda: job.cancelled)
