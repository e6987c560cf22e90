"""The prompt that the message being written makes, and how many tokens it has."""

from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.client import Latest
from app.state.session import Session
from app.state.talk.answer import as_messages
from app.state.talk.chat import ChatState
from app.state.talk.context import WAIT_MS, ContextUse
from app.state.talk.message import Message
from engine.protocol import ChatMessage, Failed, Render, Rendered


class NextPrompt(QObject):
    """While documents are attached the engine applies the chat template to all that would be sent,
    and its tokens are counted as they will be. A prompt with tools is not: their servers list them
    after Send.
    """

    changed = Signal()

    def __init__(self, chat: ChatState, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._chat, self._session = chat, session
        self._request = Latest(session.client)
        self._of: list[ChatMessage] = []  # that are counted, or being counted
        self._count: int | None = None
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._begin)
        for signal in (
            *(chat.documents.changed, chat.attached.changed, chat.path_changed, chat.busy_changed),
            *(chat.details.changed, session.changed),
        ):
            signal.connect(self.written)

    def messages(self) -> list[ChatMessage]:
        """The chat up to what is written now, or up to its last question where nothing is."""
        chat = self._chat
        pictures, documents = chat.attached.pictures, chat.documents.documents
        path = chat.path
        if chat.details.draft.strip() or pictures or documents:
            draft = Message(0, 0, None, "user", chat.details.draft)
            path = [*path, replace(draft, pictures=pictures, documents=documents)]
        else:
            questions = [n for n, message in enumerate(path) if message.role == "user"]
            path = path[: questions[-1] + 1] if questions else []
        return as_messages(chat.details.system, path, chat.pictures_in_engine.digests(path))

    @property
    def use(self) -> ContextUse:
        """How the chat fills the context; `whole` where the message being written is counted."""
        use = self._chat.context
        return use if self._count is None else use.exactly(self._count)

    @property
    def counting(self) -> bool:
        """True while what is written now is not counted yet."""
        return self._soon.isActive() or self._request.running

    def written(self, *_: object) -> None:
        """The message has changed: count it soon."""
        if self._chat.documents.documents and not self._chat.details.tools:
            self._soon.start()
        else:
            self._soon.stop()
            self._forget()

    def _forget(self) -> None:
        self._request.forget()
        self._of = []
        self._set(None)

    def _begin(self) -> None:
        chat, session = self._chat, self._session
        fits = chat.documents.tokens is not None and not chat.context.over
        if chat.busy or session.model is None or not session.client.abilities.tokenize or not fits:
            self._forget()
            return
        messages = self.messages()
        if messages != self._of:
            self._of = messages
            self._request.send(Render(0, messages=messages), self._take, self._failed)

    def _take(self, rendered: Rendered) -> None:
        self._set(rendered.n_tokens)

    def _failed(self, failed: Failed) -> None:
        self._forget()

    def _set(self, count: int | None) -> None:
        if count != self._count:
            self._count = count
            self.changed.emit()
