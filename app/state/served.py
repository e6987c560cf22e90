"""Requests of other programs as chats to read, where the person wishes so."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.serve.clients import RequestEnded
from app.state.models.serving import ServedText, ServingState
from app.state.preferences import PreferencesState
from app.state.session import Session
from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message, Role, title_of
from app.state.talk.tokens import Tokens
from app.work import Work
from engine.protocol import ChatMessage, TextPart

KEPT = 100  # such chats; older ones are deleted
SOON_MS = 500  # many requests are written at once
PICTURE = "[picture]"  # its file is with the client


@dataclass(frozen=True)
class _EndedRequest:
    """A request that has ended."""

    client: str
    at: float
    model: str
    text: ServedText
    ended: RequestEnded


class ServedChats(QObject):
    """Keeps the server's requests as read-only chats, the last KEPT of them, while the
    preference `served_chats` is on. They are written in a thread.
    """

    written = Signal()

    def __init__(
        self,
        store: ChatStore,
        serving: ServingState,
        session: Session,
        preferences: PreferencesState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._session, self._preferences = store, session, preferences
        self._ended: deque[_EndedRequest] = deque(maxlen=KEPT)
        self._job: Work | None = None
        self._soon = QTimer(self, singleShot=True, interval=SOON_MS)
        self._soon.timeout.connect(self._write)
        serving.ended.connect(self._take)

    def _take(self, ended: RequestEnded, text: ServedText) -> None:
        if self._preferences.value.served_chats:
            row, model = ended.row, self._session.model_name
            self._ended.append(_EndedRequest(row.client, row.at, model, text, ended))
            self._soon.start()

    def _write(self) -> None:
        if self._job is not None:
            self._soon.start()
            return
        some = [*self._ended]
        self._ended.clear()
        job = Work(_keep, self._store, some).then(lambda _: self._done(True))
        self._job = job.fail(lambda _: self._done(False)).start(self)

    def _done(self, written: bool) -> None:
        self._job = None
        if written:
            self.written.emit()


def _keep(store: ChatStore, some: Sequence[_EndedRequest]) -> None:
    with store.elsewhere() as here:
        for ended in some:
            _add(here, ended)
        here.prune_served(KEPT)


def _add(store: ChatStore, request: _EndedRequest) -> None:
    """A chat of the request's messages and its answer; those of the system are its prompt."""
    turns = [m for m in request.text.conversation if m.role not in ("system", "developer")]
    system = "\n\n".join(m.text for m in request.text.conversation if m not in turns)
    question = next((_text(m) for m in reversed(turns) if m.role == "user"), "")
    with store.together():
        title = title_of(question or request.client)
        chat = store.create(title, system, served=request.client)
        rows: list[tuple[Role, str, dict[str, Any]]] = [
            ("assistant" if m.role == "assistant" else "user", _text(m), {}) for m in turns
        ]
        ended = request.ended
        end = {"finish": _finish(ended.row.ended), "stats": ended.stats, "model": request.model}
        rows.append(("assistant", request.text.answer, end))
        above: Message | None = None
        new: list[tuple[Message, Message | None, Tokens | None]] = []
        for role, text, more in rows:
            message = Message(0, chat, None, role, text, created=request.at, **more)
            new.append((message, above, None))
            above = message
        store.add_all(new)
        for message, _, _ in new:
            store.choose(message)


def _finish(ended: str) -> str:
    """Convert the end of a request to a message's finish reason."""
    known = {"gone": "cancelled", "error": "failed", "calls": "stop"}
    return known.get(ended, ended)


def _text(message: ChatMessage) -> str:
    """Format a message as text, with a placeholder for each picture and the tool calls."""
    parts = [message.text]
    if isinstance(message.content, list):
        parts = [part.text if isinstance(part, TextPart) else PICTURE for part in message.content]
    calls = [f"{call.name}({call.arguments})" for call in message.calls]
    return "\n".join([*parts, *calls])
