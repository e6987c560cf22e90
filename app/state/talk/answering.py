"""The answer under way: asked of the engine, taken in as it comes, saved, ended by whatever."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from PySide6.QtCore import QObject, Signal

from app.state.live import LiveWanted
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.answer import Answer
from app.state.talk.brought import PicturesInEngine
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Message, Picture
from engine.errors import CutawayError
from engine.protocol import Failed, Finished, Generate, Piece


class Answering(QObject):
    """At most one answer at a time. One that is begun while the model loads waits for it."""

    busy_changed = Signal(bool)
    appended = Signal(object, int)  # Answer, index of its first new token; at most once a frame
    ended = Signal(object)  # Answer, saved
    problem = Signal(object)  # Problem: it could not be saved

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        brought: PicturesInEngine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._session, self._brought = store, session, brought
        self._request: Callable[[Mapping[str, str]], Generate] = lambda digests: Generate(0)
        self._asked_again = False
        self.live = LiveWanted(session.client, self)
        self.current: Answer | None = None
        self.latest: Message | None = None  # the one under way or the one before
        session.changed.connect(self._on_session)
        brought.changed.connect(self._on_brought)
        session.client.pieces.connect(self._on_pieces)
        session.client.on(Finished, self._on_finished)
        session.client.failed.connect(self._on_failed)
        session.client.died.connect(self._on_died)
        session.client.restarted.connect(self._on_restarted)

    @property
    def possible(self) -> bool:
        """Whether a model is open, will be, or can be brought back after a crash."""
        session = self._session
        back = session.status == "died" and session.path is not None
        return back or session.status in ("ready", "loading")

    def begin(self, answer: Answer, request: Callable[[Mapping[str, str]], Generate]) -> None:
        """Ask for an answer; where the engine has died, restart it first. `request` makes what is
        asked, of the engine's digests of pictures by their hashes.
        """
        self.current, self._request, self._asked_again = answer, request, False
        self.latest = answer.message
        self._brought.try_again(self._pictures)
        self._session.expect_answer()
        self.busy_changed.emit(True)
        if self._session.status == "died":
            self._session.restart()
        self._on_session()

    def stop(self) -> None:
        """End the answer; what there is of it stays."""
        if self.current is None:
            return
        if self.current.request_id is None:
            self._end("cancelled")
        else:
            self._session.client.cancel(self.current.request_id)

    def close(self) -> None:
        """Save the answer as far as it came."""
        if self.current is not None:
            self._end("cancelled")

    def _on_session(self) -> None:
        answer, session = self.current, self._session
        if answer is None or answer.request_id is not None:
            return
        if session.status == "ready":
            self._bring_and_ask(answer)
        elif session.status in ("failed", "died"):
            self._end("failed", session.error.text if session.error else "")
        elif session.status == "idle":
            self._end("cancelled")

    def _on_brought(self) -> None:
        if self._session.status == "ready":
            self._on_session()

    @property
    def _pictures(self) -> list[Picture]:
        """Those that the answer is about."""
        asked = self.current.asked if self.current is not None else []
        return [picture for message in asked for picture in message.pictures]

    def _bring_and_ask(self, answer: Answer) -> None:
        """Ask once the engine holds all pictures; `changed` of these comes back here."""
        pictures = self._pictures
        problem = next(filter(None, map(self._brought.problem, pictures)), "")
        if problem:
            self._end("failed", problem)
        elif not self._brought.bring(pictures):
            self._session.show_stage("decode")
        else:
            answer.message.model = self._session.model_name
            request = self._request(self._brought.digests(answer.asked))
            request = msgspec.structs.replace(request, live=self.live.value)
            answer.request_id = self._session.client.generate(request)
            self.live.begun(answer.request_id)
            self._session.begin_answer(answer.request_id)

    def _on_pieces(self, request_id: int, pieces: Sequence[Piece]) -> None:
        answer = self.current
        if answer is None or request_id != answer.request_id:
            return
        first = answer.take(pieces)
        try:
            answer.save_sometimes(self._store)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
        self.appended.emit(answer, first)

    def _on_finished(self, finished: Finished) -> None:
        if self.current is not None and finished.id == self.current.request_id:
            self.current.count(finished.stats)
            self._end(finished.reason)

    def _on_failed(self, failed: Failed) -> None:
        if self.current is None or failed.id != self.current.request_id:
            return
        if failed.pictures and not self._asked_again:
            self._asked_again, self.current.request_id = True, None
            self._brought.lost(failed.pictures)
            self._on_session()
        else:
            cancelled = failed.kind == "Cancelled"  # before it was begun
            self._end("cancelled" if cancelled else "failed", "" if cancelled else failed.message)

    def _on_died(self, error: CutawayError) -> None:
        if self.current is not None and self.current.request_id is not None:
            self._end("died", str(error))

    def _on_restarted(self) -> None:
        if self.current is not None and self.current.request_id is not None:
            self._end("cancelled")

    def _end(self, finish: str, problem: str = "") -> None:
        answer, self.current = self.current, None
        assert answer is not None
        self.live.ended()
        try:
            answer.end(self._store, finish, problem)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
        self.busy_changed.emit(False)
        self.ended.emit(answer)
