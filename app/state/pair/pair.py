"""Two models, or two settings of one, that answer one question, and what each finds of both."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import nan
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from app.client import EngineClient, PendingRequest
from app.engine import Engine
from app.language import mark, tr
from app.state.pair.words import ComparedWord, ScoredTokens, character_ends, compared_words, parting
from app.state.preferences import PreferencesState
from app.state.presets import OwnSampling
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.answer import Answer, as_messages
from app.state.talk.answering import Answering, Writer
from app.state.talk.chat import ChatState
from app.state.talk.details import Details
from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message
from app.state.talk.pictures_in_engine import PicturesInEngine
from app.state.talk.thread import Thread
from app.state.talk.tokens import Tokens
from app.state.wanted import title_of
from engine.protocol import (
    Alternative,
    AnswerScored,
    EncodedText,
    EncodeText,
    Failed,
    ScoreAnswer,
)
from engine.settings import EngineOptions

SIDES = (0, 1)
IN_TURN = mark("Not enough memory for both models at once: they answer one after the other.")


@dataclass(frozen=True)
class PairChoice:
    """The model of a side, and the numbers of sampling that are set for it; `name` says how it is
    called next to the other one.
    """

    path: Path
    own: OwnSampling
    name: str = ""


@dataclass
class PairSide:
    """A side of the comparison. `scored` is its text as the other side's model finds it."""

    choice: PairChoice
    message: Message | None = None
    tokens: Tokens = field(default_factory=Tokens)
    scored: ScoredTokens | None = None
    request: PendingRequest | None = None  # its score
    _words: tuple[tuple[int, int], ScoredTokens | None, list[ComparedWord]] | None = None

    @property
    def ended(self) -> bool:
        """True once its answer is there."""
        return self.message is not None and bool(self.message.finish)

    @property
    def words(self) -> list[ComparedWord]:
        """Its words, as far as they are written."""
        basis = len(self.tokens), self.tokens.end(len(self.tokens) - 1) if len(self.tokens) else 0
        if self._words is None or self._words[:2] != (basis, self.scored):
            self._words = basis, self.scored, self._make_words()
        return self._words[2]

    def _make_words(self) -> list[ComparedWord]:
        known = (self.tokens.logprob(i) for i in range(len(self.tokens)))
        ends = [self.tokens.end(i) for i in range(len(self.tokens))]
        own = ScoredTokens(ends, [nan if p is None else p for p in known])
        return compared_words(self.tokens.begin, own, self.scored)


class PairState(QObject):
    """Both answers are branches of the open chat, below one question.

    Two settings of one model are answered at once by its engine. Of two models the open one answers
    in the window's engine, the other in a second engine, which `start` makes. Where the memory does
    not suffice for both, they answer in turn: `note` says so. `problem` says what went wrong.
    Likelihoods are those of the models themselves, before sampling.
    """

    updated = Signal()

    def __init__(
        self,
        chat: ChatState,
        store: ChatStore,
        preferences: PreferencesState,
        open_model: Callable[[Path], None],
        options_for: Callable[[Path], EngineOptions],
        start: Callable[[], Engine] | None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._chat, self._store, self._preferences = chat, store, preferences
        self._open, self._options_for, self._start = open_model, options_for, start
        self._engine: Engine | None = None
        self._second: Writer | None = None
        self._chat_id: int | None = None
        self._opening: Path | None = None  # requested last
        self._before: list[Message] = []  # the question and what is above it
        self._in_turn = self._busy_here = self._is_shown = False
        self.sides: tuple[PairSide, PairSide] | None = None
        self.note = self.problem = ""
        chat.opened.connect(self._on_opened)
        self._follow(chat.writer)

    @property
    def busy(self) -> bool:
        """True while an answer or a score is outstanding."""
        return self.sides is not None and not self.problem and not self._done

    @property
    def _done(self) -> bool:
        return self.sides is not None and all(
            side.ended and (side.scored is not None or not len(side.tokens)) for side in self.sides
        )

    @property
    def second(self) -> Session | None:
        """The session of the second engine, once there is one."""
        return self._second.session if self._second is not None else None

    @property
    def loading(self) -> str:
        """The title of the model that is loading, if any."""
        writers = [self._chat.writer, *([self._second] if self._second else [])]
        loading = (w.session for w in writers if w.session.status == "loading")
        return next((session.model_title for session in loading), "")

    @property
    def parted(self) -> tuple[int, int] | None:
        """The first word of each side that differs from the other's, while both are there."""
        if self.sides is None or any(side.message is None for side in self.sides):
            return None
        left, right = self.sides
        texts = tuple(side.message.text if side.message else "" for side in self.sides)
        return parting((texts[0], texts[1]), (left.words, right.words))

    def send(self, text: str, left: PairChoice, right: PairChoice) -> bool:
        """Have both sides answer a new question, or the chat's last one where `text` is empty."""
        if self.busy or self._chat.busy:
            return False
        session, path = self._chat.writer.session, self._chat.path
        if session.path not in (left.path, right.path):
            self._open(left.path)
        first = int(session.path == right.path and left.path != right.path)
        by = replace(self._chat.writer, own=(left, right)[first].own)
        begun = (
            self._chat.send(text, by)
            if text.strip()
            else bool(path) and self._chat.regenerate(len(path) - 1, by)
        )
        if not begun:
            return False
        self.forget()
        self.sides, self._opening = (PairSide(left), PairSide(right)), None
        self._chat_id = self._chat.chat_id
        self._before = self._chat.path[:-1]
        self._take(first, self._chat.path[-1])
        self._advance()
        return True

    def stop(self, number: int | None = None) -> None:
        """End the answer of a side, or everything."""
        if self.sides is None:
            return
        for side in self.sides if number is None else (self.sides[number],):
            if side.message is not None:
                self._chat.writers.stop(side.message)
            if side.request is not None:
                side.request.cancel()
        if self.busy and any(side.message is None for side in self.sides):
            if self._second is not None:
                self._second.session.cancel_load()
            self._give_up(tr("Stopped before the other model began."))
        elif number is None and self.busy and all(side.ended for side in self.sides):
            self._give_up(tr("Comparing the words was stopped."))

    def branch(self, number: int, index: int, other: Alternative) -> bool:
        """Write a side's answer again from token `index` on, with another token there; the side
        shows the new branch.
        """
        if self.sides is None or self.busy or self._chat.busy or not self._is_here:
            return False
        side = self.sides[number]
        writer = self._writer(side.choice.path)
        if writer is None or side.message is None:
            self.problem = tr(
                "Open {model} to branch from its answer.", model=title_of(side.choice.path)
            )
            self.updated.emit()
            return False
        message, same = side.message, writer.wrote(side.message)
        made = self._chat.begin_beside(
            message,
            lambda thread: thread.branch(message, index, other, same),
            replace(writer, own=side.choice.own),
        )
        if made is not None:
            self.problem, self._opening = "", None
            self._take(number, made.message)
            self._advance()
        return made is not None

    def forget(self) -> None:
        """Compare nothing; answers under way go on in their chat."""
        for side in self.sides or ():
            if side.request is not None:
                side.request.cancel()
        self.sides, self._in_turn = None, False
        self.note = self.problem = ""
        self.updated.emit()

    def show(self, shown: bool) -> None:
        """Keep the second model open while the comparison is shown; else close it once it is done,
        as it takes memory.
        """
        self._is_shown = shown
        self._release()

    def _release(self) -> None:
        second = self._second
        unused = second is not None and not self.busy and not self._is_shown
        if second is not None and unused and not second.answering.all:
            second.session.unload()

    def close(self) -> None:
        """End the second engine."""
        if self._second is not None:
            self._second.session.client.close()
        if self._engine is not None:
            self._engine.close()

    # What comes next

    @property
    def _is_here(self) -> bool:
        return self._chat.chat_id == self._chat_id

    def _advance(self) -> None:
        """Do what is due: begin the second answer, have words scored, open a model for that."""
        if self._busy_here or not self.busy or not self._is_here or self.sides is None:
            return
        self._busy_here = True  # what is done here changes sessions, which come back here
        try:
            waiting = next((n for n in SIDES if self.sides[n].message is None), None)
            if waiting is not None:
                self._begin(waiting)
            elif all(side.ended for side in self.sides):
                self._score()
        finally:
            self._busy_here = False
        self._release()
        self.updated.emit()

    def _begin(self, number: int) -> None:
        """Begin the second answer as soon as its model can."""
        assert self.sides is not None
        side, first = self.sides[number], self.sides[1 - number]
        if self._in_turn and not first.ended:
            return
        writer = self._ready(side.choice.path)
        if writer is not None and first.message is not None:
            made = self._chat.begin_beside(
                first.message,
                partial(_answer, first.message),
                replace(writer, own=side.choice.own),
            )
            if made is None:
                self._give_up(tr("The second answer could not be begun."))
            else:
                self._take(number, made.message)

    def _ready(self, path: Path) -> Writer | None:
        """The writer of a model, once it can answer; has it opened where it is not."""
        writer = self._writer(path)
        if writer is None:
            here = self._chat.writer.session.status
            if path != self._opening and not (self._in_turn and here in ("loading", "answering")):
                self._opening = path
                if self._in_turn:
                    self._open(path)
                else:
                    self._open_second(path)
            return None
        session = writer.session
        if session.status in ("failed", "died"):
            problem = session.error.text if session.error else tr("The model could not be opened.")
            if session.error is not None and session.error.kind == "NoMem" and not self._in_turn:
                self._in_turn, self.note, self._opening = True, tr(IN_TURN), None
                session.unload()
                QTimer.singleShot(0, self, self._advance)  # the first may have ended already
            else:
                self._give_up(problem)
        return writer if session.status in ("ready", "answering") else None

    def _writer(self, path: Path) -> Writer | None:
        """Who has a model open, or opens it."""
        for writer in (self._chat.writer, self._second):
            if writer is not None and writer.session.path == path:
                return writer
        return None

    def _open_second(self, path: Path) -> None:
        if self._start is None:
            self._in_turn, self.note, self._opening = True, tr(IN_TURN), None
            QTimer.singleShot(0, self, self._advance)
            return
        if self._second is None:
            self._engine = self._start()
            session = Session(EngineClient(self._engine, self), self)
            details = Details(session, self._preferences, lambda **fields: False, self)
            in_engine = PicturesInEngine(session.client, session, self._store.pictures.files, self)
            answering = Answering(self._store, session, in_engine, self)
            self._second = Writer(session, details, answering)
            self._chat.add_writer(self._second)
            self._follow(self._second)
        self._second.session.open(path, self._options_for(path))

    def _follow(self, writer: Writer) -> None:
        writer.session.changed.connect(self._advance)
        writer.session.refused.connect(self._on_refused)
        writer.answering.appended.connect(lambda answer, first: self.updated.emit())
        writer.answering.ended.connect(lambda answer: self._advance())

    def _take(self, number: int, message: Message) -> None:
        assert self.sides is not None
        side = self.sides[number]
        side.message, side.tokens = message, self._chat.tokens_of(message)
        for one in self.sides:
            one.scored = None

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        self.updated.emit()

    def _on_refused(self, problem: Problem) -> None:
        if self.busy and self._opening is not None and self._writer(self._opening) is None:
            self._give_up(problem.text)

    def _on_opened(self) -> None:
        if self.sides is not None and not self._is_here:
            self.forget()

    # Scores

    def _score(self) -> None:
        """Have each model read the other's answer, by turns where only one fits the memory."""
        assert self.sides is not None
        missing = [n for n in SIDES if self.sides[n].scored is None and len(self.sides[n].tokens)]
        if self.sides[0].choice.path == self.sides[1].choice.path:
            for number in missing:  # the same model finds it as likely as the one that wrote it
                side = self.sides[number]
                own = [(word.end, word.own) for word in side.words]
                side.scored = ScoredTokens([end for end, _ in own], [p for _, p in own])
            return
        if any(self.sides[n].request is not None for n in missing):
            return
        here = [n for n in missing if self._writer(self.sides[1 - n].choice.path) is not None]
        for number in (here or missing)[:1]:
            writer = self._ready(self.sides[1 - number].choice.path)
            if writer is not None:
                self._read(self.sides[number], writer)

    def _read(self, side: PairSide, reader: Writer) -> None:
        """Ask how likely a model finds an answer that it did not write."""
        message = side.message
        assert message is not None
        client = reader.session.client

        def end(reply: AnswerScored | Failed, ends: list[int]) -> None:
            side.request = None
            if side.message is not message:
                return
            if isinstance(reply, Failed):
                self._give_up(reply.message)
            else:
                side.scored = ScoredTokens(ends, np.frombuffer(reply.logprobs, "<f4"))
                self._advance()

        def encoded(reply: EncodedText | Failed) -> None:
            side.request = None
            if isinstance(reply, Failed):
                self._give_up(reply.message)
                return
            ends = character_ends(message.text, reply.pieces)
            if ends is None:
                self._give_up(
                    tr(
                        "The texts cannot be compared: {model} reads them as other characters.",
                        model=reader.session.model_title,
                    )
                )
                return
            digests = self._chat.pictures_in_engine.digests(self._before)
            messages = as_messages(self._chat.details.system, self._before, digests)
            request = ScoreAnswer(0, messages=messages, tokens=reply.tokens)
            side.request = client.send(request, lambda r: end(r, ends), lambda r: end(r, ends))

        side.request = client.send(EncodeText(0, message.text), encoded, encoded)


def _answer(message: Message, thread: Thread) -> Answer:
    """A new answer to the question of another one."""
    question = thread.parent(message)
    assert question is not None
    return thread.answer_to(question)
