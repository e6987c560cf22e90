"""Answers under way: requested, received, saved while they grow, and ended."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.language import tr
from app.state.live import LiveWanted
from app.state.presets import OwnSampling
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.answer import Answer
from app.state.talk.chat_edits import ChatEdits
from app.state.talk.details import Details
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.edits import MOST_MOVES
from app.state.talk.message import Message, Picture
from app.state.talk.pictures_in_engine import PicturesInEngine
from app.state.talk.rounds import ToolRounds
from app.translated import in_language
from engine.errors import BadSetting, CutawayError
from engine.protocol import (
    AnswerForm,
    EditsRevised,
    Failed,
    Finished,
    Generate,
    Piece,
    Reply,
    Speculation,
    Tools,
)

EVERY_MS = 2000
KEPT = tr("the answer is kept here, and saved as soon as that works")


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

    def unsaved(self, chat: int) -> Answer | None:
        """An answer of a chat that has ended and is not saved yet."""
        return next((a for a in self._unsaved.values() if a.message.chat == chat), None)

    def is_unsaved(self, message: Message) -> bool:
        """Return whether an answer has ended and is not saved yet."""
        return message.id in self._unsaved

    def begin(self, answer: Answer) -> None:
        """Save an answer from now on."""
        self._running[answer.message.id] = answer, len(answer.message.text)
        self._timer.start(EVERY_MS)

    def touch(self, answer: Answer) -> None:
        """Save an answer the next time, though its text is the same."""
        if answer.message.id in self._running:
            self._running[answer.message.id] = answer, -1

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


@dataclass
class _RunningAnswer:
    """An answer, what makes its request from the engine's digests of pictures, and
    whether it was sent again for pictures which the engine had lost. While it is `calling`, the
    model has written calls of tools, which are made.
    """

    answer: Answer
    request: Callable[[Mapping[str, str]], Generate]
    again: bool = False
    calling: bool = False
    stopped: bool = False

    @property
    def pictures(self) -> list[Picture]:
        """The pictures in the prompt."""
        return [picture for message in self.answer.prompt_messages for picture in message.pictures]


class Answering(QObject):
    """The answers of one session's model, several at once. One that is begun while the model loads
    waits for it.
    """

    busy_changed = Signal()  # an answer has begun or ended
    appended = Signal(object, int)  # Answer, index of its first new token; at most once a frame
    ended = Signal(object)  # Answer
    called = Signal(object)  # Answer whose calls have changed
    saved = Signal(object)  # Answer that could not be saved when it ended
    problem = Signal(object)  # Problem: it could not be saved

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        in_engine: PicturesInEngine,
        parent: QObject | None = None,
        rounds: ToolRounds | None = None,
        follow: Callable[[Answer], None] = lambda answer: None,
    ) -> None:
        super().__init__(parent)
        self._session, self._pictures = session, in_engine
        self._rounds, self._follow = rounds, follow
        if rounds is not None:
            rounds.tools.changed.connect(self._on_ready_change)
        self._saver = AnswerSaver(store, self)
        self._saver.saved.connect(self.saved)
        self._saver.problem.connect(self.problem)
        self._answers: list[_RunningAnswer] = []
        self.live = LiveWanted(session.client, self)
        self.latest: Message | None = None  # the one under way or the one before
        session.changed.connect(self._on_session)
        session.given_up.connect(self._on_given_up)
        in_engine.changed.connect(self._on_ready_change)
        session.client.died.connect(self._on_died)
        session.client.restarted.connect(self._on_restarted)

    @property
    def possible(self) -> bool:
        """True if a model is open, is loading, or can be restarted after a crash."""
        session = self._session
        back = session.status == "died" and session.path is not None
        return back or session.status in ("ready", "loading", "answering")

    def begin(self, answer: Answer, request: Callable[[Mapping[str, str]], Generate]) -> None:
        """Request an answer; where the engine has died, restart it first. `request` makes the
        request from the engine's digests of pictures by their hashes.
        """
        running = _RunningAnswer(answer, request)
        self._answers.append(running)
        self._saver.begin(answer)
        self.latest = answer.message
        answer.message.model = self._session.model_name
        self._pictures.try_again(running.pictures)
        self._session.expect_answer()
        self.busy_changed.emit()
        if self._session.status == "died":
            self._session.restart()
        self._on_session()

    def held(self, chat: int) -> Answer | None:
        """An answer of a chat that is under way, or has ended and is not saved yet."""
        mine = (one.answer for one in self._answers if one.answer.message.chat == chat)
        return next(mine, None) or self._saver.unsaved(chat)

    def is_unsaved(self, message: Message) -> bool:
        """Return whether an answer has ended and is not saved yet."""
        return self._saver.is_unsaved(message)

    @property
    def all(self) -> list[Answer]:
        """All running answers, in the order of their start."""
        return [one.answer for one in self._answers]

    @property
    def newest(self) -> Answer | None:
        """The running answer that started last."""
        return self._answers[-1].answer if self._answers else None

    def stop(self, answer: Answer | None) -> None:
        """End an answer; what there is of it stays."""
        running = next((one for one in self._answers if one.answer is answer), None)
        if running is None or answer is None:
            return
        if running.calling and self._rounds is not None:
            running.stopped = True
            self._rounds.stop(answer)
        elif answer.sent is None:
            self._end(running, "cancelled")
        else:
            answer.sent.cancel()

    def revise(self, answer: Answer | None, chat: ChatEdits) -> None:
        """Have a running answer go on with other values of its edits, where only these differ."""
        edits = chat.value.active
        if answer is None or answer.sent is None or not edits:
            return
        latest = answer.revisions[-1] if answer.revisions else answer.message.edits
        if edits == latest or not answer.message.edits.same_places(edits):
            return
        with suppress(StoreError, BadSetting):  # said when they were changed
            answer.sent.revise(chat.request(edits), len(answer.revisions))
            answer.revisions.append(edits)

    def close(self) -> None:
        """Save the answers as far as they came."""
        for running in self._answers[:]:
            self.stop(running.answer if running.calling else None)
            if running in self._answers:
                self._end(running, "cancelled")
        self._saver.save()

    def _on_session(self) -> None:
        session = self._session
        for running in [one for one in self._answers if one.answer.sent is None]:
            if running not in self._answers:
                continue  # the one before has ended it
            if session.status in ("ready", "answering"):
                self._send(running)
            elif session.status in ("failed", "died"):
                self._end(running, "failed", session.error.text if session.error else "")
            elif session.status == "idle":
                self._end(running, "cancelled")

    def waits_for_model(self, answer: Answer | None) -> bool:
        """Return whether the request waits until the model is open."""
        loading = self._session.status == "loading"
        return answer is not None and answer.sent is None and loading

    def _on_given_up(self) -> None:
        """Cancel the requests that waited for a model that did not open."""
        for running in [one for one in self._answers if self.waits_for_model(one.answer)]:
            self._end(running, "cancelled")

    def _on_ready_change(self) -> None:
        if self._session.status in ("ready", "answering"):
            self._on_session()

    def _send(self, running: _RunningAnswer) -> None:
        """Send the request once the engine holds all pictures; their `changed` comes back here."""
        pictures, answer = running.pictures, running.answer
        problem = next(filter(None, map(self._pictures.problem, pictures)), "")
        if problem:
            self._end(running, "failed", problem)
        elif not self._pictures.send(pictures):
            self._session.show_stage("decode")
        elif self._rounds is not None and not self._rounds.prepare(answer):
            return  # `changed` of the tools comes back here
        else:
            answer.message.model = self._session.model_name
            request = running.request(self._pictures.digests(answer.prompt_messages))
            request = msgspec.structs.replace(request, live=self.live.value)
            sent = answer.sent = self._session.client.send(request)
            self.live.follow(sent)
            self._session.begin_answer(sent)
            sent.pieces.connect(partial(self._on_pieces, running))
            sent.replied.connect(partial(self._on_reply, running))
            sent.ended.connect(partial(self._on_ended, running))

    def _on_pieces(self, running: _RunningAnswer, pieces: Sequence[Piece]) -> None:
        if running not in self._answers:
            return  # it was ended here
        answer = running.answer
        self.appended.emit(answer, answer.take(pieces))

    def _on_reply(self, running: _RunningAnswer, reply: Reply) -> None:
        if running not in self._answers or not isinstance(reply, EditsRevised):
            return
        message, edits = running.answer.message, running.answer.revisions[reply.number]
        if reply.problem:
            self.problem.emit(Problem("BadSetting", reply.problem))
            return
        if len(message.edits.moves) < MOST_MOVES:
            message.edits = message.edits.moved(edits, reply.position, reply.n_prompt)
            self._saver.touch(running.answer)
            self.called.emit(running.answer)

    def _on_ended(self, running: _RunningAnswer, reply: Finished | Failed) -> None:
        if running not in self._answers:
            return
        if isinstance(reply, Finished):
            running.answer.count(reply.stats)
            if (
                reply.reason == "calls"
                and running.answer.message.calls
                and self._rounds is not None
            ):
                running.calling = True
                self._rounds.run(
                    running.answer, self._on_called, partial(self._on_all_called, running)
                )
            else:
                self._end(running, reply.reason)
        elif reply.pictures and not running.again:
            running.again, running.answer.sent = True, None
            self._pictures.lost(reply.pictures)
            self._on_session()
        else:
            cancelled = reply.kind == "Cancelled"  # before it was begun
            finish = "cancelled" if cancelled else "failed"
            self._end(running, finish, "" if cancelled else reply.message)

    def _on_called(self, answer: Answer) -> None:
        self._saver.touch(answer)
        self.called.emit(answer)

    def _on_all_called(self, running: _RunningAnswer) -> None:
        if running in self._answers:
            self._end(running, "cancelled" if running.stopped else "calls")

    def _on_died(self, error: CutawayError) -> None:
        self._end_all("died", in_language(str(error)))

    def _on_restarted(self) -> None:
        self._end_all("cancelled")

    def _end_all(self, finish: str, problem: str = "") -> None:
        """End all answers that were requested from the engine."""
        for running in [a for a in self._answers if a.answer.sent is not None and not a.calling]:
            self._end(running, finish, problem)

    def _end(self, running: _RunningAnswer, finish: str, problem: str = "") -> None:
        answer = running.answer
        self._answers.remove(running)
        if self._rounds is not None:
            self._rounds.end(answer)
        self._saver.end(answer, finish, problem)
        if finish == "calls":
            self._follow(answer)
        self.busy_changed.emit()
        self.ended.emit(answer)


@dataclass(frozen=True)
class Manner:
    """How an answer is requested: the numbers of `own` over those that suit the model of `details`,
    at most `most` tokens; `chat` names what the engine keeps of it for the next answer.
    """

    system: str
    own: OwnSampling
    details: Details
    most: int | None
    form: AnswerForm | None
    speculation: Speculation
    chat: str | None

    def request(self, answer: Answer, tools: Tools, digests: Mapping[str, str]) -> Generate:
        """The request, with the numbers and limits that suit the model now."""
        sampling, limits = self.details.drawn_with(self.own).sampling, self.details.limits
        if self.most is not None:
            most = min(self.most, limits.max_tokens or self.most)
            limits = msgspec.structs.replace(limits, max_tokens=most)
        request = answer.request(self.system, sampling, limits, digests, self.form, tools)
        drafts, chat = self.speculation, self.chat
        return msgspec.structs.replace(request, speculation=drafts, chat=chat)


@dataclass(frozen=True)
class Writer:
    """A model that writes answers: its session, the numbers that suit it, its answers. With `own`
    these numbers are set instead of the chat's, and answers have neither tools nor edits.
    """

    session: Session
    details: Details
    answering: Answering
    own: OwnSampling | None = None

    def wrote(self, message: Message) -> bool:
        """True if a message's token ids are those of this model."""
        return self.session.client.abilities.ids and message.model == self.session.model_name


class Writers(list[Writer]):
    """All models that may answer in a chat; the first is the one that is open."""

    @property
    def answers(self) -> list[Answer]:
        """All running answers."""
        return [answer for writer in self for answer in writer.answering.all]

    def of(self, chat: int | None) -> list[Answer]:
        """The running answers of a chat."""
        return [answer for answer in self.answers if answer.message.chat == chat]

    def running(self, message: Message) -> Answer | None:
        """The running answer that is this message."""
        return next((answer for answer in self.answers if answer.message is message), None)

    def held(self, chat: int) -> Answer | None:
        """An answer of a chat that is under way, or has ended and is not saved yet."""
        return next(filter(None, (writer.answering.held(chat) for writer in self)), None)

    def is_unsaved(self, message: Message) -> bool:
        """Return whether an answer has ended and is not saved yet."""
        return any(writer.answering.is_unsaved(message) for writer in self)

    def stop(self, message: Message) -> None:
        """End one running answer."""
        answer = self.running(message)
        for writer in self:
            writer.answering.stop(answer)

    def close(self) -> None:
        """Save all answers as far as they came."""
        for writer in self:
            writer.answering.close()
