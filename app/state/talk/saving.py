"""Answers written to the store while they come, when they end, and later where that failed."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.problem import Problem
from app.state.talk.answer import Answer
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Message

EVERY_MS = 2000
KEPT = "the answer is kept here, and saved as soon as that works"


class AnswerSaver(QObject):
    """Tries again until an answer is written: the disk may have room a moment later."""

    saved = Signal(object)  # Answer that could not be saved when it ended
    problem = Signal(object)  # Problem: it could not be saved

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._running: dict[int, tuple[Answer, int]] = {}  # and the letters that are written
        self._unsaved: dict[int, Answer] = {}
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.save)

    def unsaved(self, chat: int | None) -> Answer | None:
        """An answer of a chat that has ended and is not saved yet."""
        return next((a for a in self._unsaved.values() if a.message.chat == chat), None)

    def is_unsaved(self, message: Message) -> bool:
        """Return whether an answer has ended and is not saved yet."""
        return message.id in self._unsaved

    def begin(self, answer: Answer) -> None:
        """Save an answer from now on."""
        self._running[answer.message.id] = answer, len(answer.message.text)
        self._timer.start(EVERY_MS)

    def end(self, answer: Answer, finish: str, problem: str) -> None:
        """Save all of an answer that has ended."""
        message = answer.message
        message.finish, message.problem = finish, problem
        self._running.pop(message.id, None)
        try:
            self._store.finish(message, answer.tokens)
        except StoreError as error:
            self._unsaved[message.id] = answer
            self.problem.emit(Problem(error.kind, f"{error}; {KEPT}"))
        self._stop_if_idle()

    def save(self) -> None:
        """Save what was not saved yet."""
        for number, (answer, written) in list(self._running.items()):
            text = answer.message.text
            if len(text) == written:
                continue
            try:
                self._store.save(answer.message)
            except StoreError as error:
                self.problem.emit(Problem(error.kind, str(error)))
            else:
                self._running[number] = answer, len(text)
        for number, answer in list(self._unsaved.items()):
            try:
                self._store.finish(answer.message, answer.tokens)
            except StoreError:
                break  # it was shown when it happened first
            del self._unsaved[number]
            self.saved.emit(answer)
        self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        if not self._running and not self._unsaved:
            self._timer.stop()
