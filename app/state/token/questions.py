"""Requests to the engine about tokens: one at a time, and only if it can answer them."""

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from app import names
from app.client import Latest
from app.language import tr
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.pictures_in_engine import PicturesInEngine
from app.state.token.word import Conversation
from engine.protocol import Examine, Examined, Failed

SLOW_MS = 500  # then it is said that something is computed, and can be cancelled

Status = Literal["idle", "asked", "slow"]
Question = tuple[Conversation, Examine]
Then = Callable[[Conversation, Examine, Examined], None]


class WordQuestions(QObject):
    """A question takes the place of the one before. It waits for the pictures of its
    conversation; where it cannot be sent or fails, `problem` says why and what to do.
    """

    changed = Signal()  # status or problem

    def __init__(self, session: Session, in_engine: PicturesInEngine, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._pictures = session, in_engine
        self._latest = Latest(session.client)
        self._waiting: tuple[Callable[[], Question | None], Then] | None = None  # for pictures
        self.status: Status = "idle"
        self.problem: Problem | None = None
        self._slow = QTimer(self, singleShot=True, interval=SLOW_MS)
        self._slow.timeout.connect(lambda: self._say("slow", None))
        in_engine.changed.connect(self._send_waiting)

    def send(self, make: Callable[[], Question | None], then: Then) -> None:
        """Send the question of `make` in place of the one before; `then` is called at most once.

        It is made again where pictures have to be sent first.
        """
        self.forget()
        question = make()
        if question is None:
            return
        talk, request = question
        self.problem = self._refusal(talk) or self._bad_picture(talk)
        if self.problem is not None:
            self.changed.emit()
            return
        self._slow.start()
        self._say("asked", None)
        pictures = [picture for message in talk.path for picture in message.pictures]
        if not self._pictures.send(pictures):
            self._waiting = make, then
            return

        def done(examined: Examined) -> None:
            self._slow.stop()
            self._say("idle", None)
            then(talk, request, examined)

        self._latest.send(request, done, self._failed)

    def forget(self) -> None:
        """No answer matters any more, and nothing is wrong."""
        self._latest.forget()
        self._slow.stop()
        self._waiting = None
        if self.status != "idle" or self.problem is not None:
            self._say("idle", None)

    def cancel(self) -> None:
        """Stop the computation on a person's request."""
        if self.status != "idle":
            self.forget()
            self._say(
                "idle", Problem("Cancelled", tr("Inspecting the token was cancelled."), "retry")
            )

    def refuse(self, problem: Problem) -> None:
        """There is no result, and why."""
        self._say("idle", problem)

    def _send_waiting(self) -> None:
        if self._waiting is not None:
            self.send(*self._waiting)

    def _failed(self, failed: Failed) -> None:
        self._slow.stop()
        if failed.pictures:
            self._pictures.lost(failed.pictures)
        again = failed.kind in ("Cancelled", "WorkerDied") or bool(failed.pictures)
        self._say("idle", Problem(failed.kind, failed.message, "retry" if again else ""))

    def _say(self, status: Status, problem: Problem | None) -> None:
        if (status, problem) != (self.status, self.problem):
            self.status, self.problem = status, problem
            self.changed.emit()

    def _bad_picture(self, talk: Conversation) -> Problem | None:
        pictures = [picture for message in talk.path for picture in message.pictures]
        text = next(filter(None, map(self._pictures.problem, pictures)), "")
        return Problem("BadPicture", text) if text else None

    def _refusal(self, talk: Conversation) -> Problem | None:
        """Why nothing need be sent, and the next step."""
        session, message = self._session, talk.message
        if not session.client.abilities.examine:
            text = tr("Only models on this machine can be inspected.")
            return Problem("Unable", text)
        if session.status == "loading":
            return Problem(
                "Loading", tr("The model is loading. The token is inspected when it is ready.")
            )
        if session.status == "died":
            text = tr("The engine stopped. Restart it to inspect tokens.")
            return Problem("Died", text, "restart")
        if session.model is None:
            return Problem("NoModel", tr("No model is open. Open one to inspect tokens."), "open")
        if len(talk.tokens) and message.model != session.model_name:
            wrote, now = names.title(message.model) or tr("Another model"), session.model_title
            text = tr(
                "{wrote} wrote this answer, and {now} is open. Open {wrote} to inspect it.",
                wrote=wrote,
                now=now,
            )
            return Problem("OtherModel", text, "open_model")
        return None
