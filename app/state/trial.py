"""An answer of a changed model beside the one as it is, with what each model makes of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.client import Asked, EngineClient
from app.language import tr
from app.state.session import Session
from app.state.talk.answer import said
from app.state.talk.chat import ChatState
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from engine.protocol import AnswerScored, Change, Failed, ScoreAnswer

Floats = NDArray[np.float32]
SHORTEST, LONGEST = 64, 512  # tokens that an answer of a changed model may have at most
NO_PLAIN = tr("Only the changed answer exists. Regenerate to get an answer without the change.")
OTHER_MODEL = tr("Open the model that wrote both answers to compare them.")


@dataclass(frozen=True)
class TriedAnswer:
    """One of the two answers. `plain` and `changed` are log-probabilities of its tokens, by the
    model as it is and as it was changed; None as long as the engine has not told.
    """

    message: Message
    tokens: Tokens
    plain: Floats | None
    changed: Floats | None


class TrialState(QObject):
    """Both answers to one question. `problem` says why they cannot be compared, else it is ""."""

    updated = Signal()

    def __init__(
        self, client: EngineClient, session: Session, chat: ChatState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._client, self._session, self._chat = client, session, chat
        self._scores: dict[tuple[int, bool], Floats] = {}
        self._asked: list[Asked] = []
        self._tried: int | None = None
        self.problem = ""
        chat.opened.connect(self.forget)
        chat.busy_changed.connect(self._on_busy)

    @property
    def changes(self) -> Sequence[Change]:
        """The changes made to the model."""
        tried = self._message(self._tried)
        return tried.changes if tried is not None else ()

    @property
    def busy(self) -> bool:
        """True while replies of the engine are outstanding."""
        return bool(self._asked)

    def row_to_try(self) -> int | None:
        """The answer that would be tried again: the last one of the chat."""
        path = self._chat.path
        rows = (row for row in range(len(path) - 1, -1, -1) if path[row].role == "assistant")
        return next(rows, None)

    def start(self, changes: Sequence[Change]) -> bool:
        """Answer the last question once more, changed; both are compared when that has ended."""
        row = self.row_to_try()
        if row is None or not self._chat.try_changed(row, changes, self._most(row)):
            return False
        self._clear()
        self._tried = self._chat.path[row].id
        self.updated.emit()
        return True

    def show(self, message: Message) -> None:
        """Compare an answer that was tried before."""
        self._clear()
        if message.changes:
            self._tried = message.id
            self._compare()

    def forget(self) -> None:
        """Compare nothing."""
        self._clear()
        self.updated.emit()

    def answers(self) -> tuple[TriedAnswer, TriedAnswer] | None:
        """The original and the changed answer; None where there are not both."""
        tried = self._message(self._tried)
        plain = None if tried is None else self.plain(tried)
        if tried is None or plain is None:
            return None
        return self._answer(plain), self._answer(tried)

    def _answer(self, message: Message) -> TriedAnswer:
        tokens, own = self._chat.tokens_of(message), bool(message.changes)
        scores = {own: _own(tokens)}
        other = self._scores.get((message.id, not own))
        if other is not None and len(other) == len(tokens):
            scores[not own] = other
        return TriedAnswer(message, tokens, scores.get(False), scores.get(True))

    def _on_busy(self, busy: bool) -> None:
        if not busy and self._tried is not None:
            self._compare()

    def _compare(self) -> None:
        """Ask what each model makes of the other's answer."""
        both, session = self.answers(), self._session
        if self._chat.busy or self._asked:
            self.updated.emit()
            return
        if both is None:
            self.problem = NO_PLAIN
        elif session.status != "ready" or both[1].message.model != session.model_name:
            self.problem = OTHER_MODEL
        else:
            self.problem = ""
            for one in both:
                self._ask(one.message, one.tokens, changed=not one.message.changes)
        self.updated.emit()

    def _ask(self, message: Message, tokens: Tokens, changed: bool) -> None:
        key = message.id, changed
        if key in self._scores or not len(tokens):
            return
        path = self._chat.path
        row = self._chat.row_of(self._tried or 0)
        before = path[:row]
        digests: Mapping[str, str] = self._chat.brought.digests(before)
        request = ScoreAnswer(
            0,
            messages=said(self._chat.details.system, before, digests),
            tokens=tokens.ids,
            changes=list(self.changes) if changed else [],
        )

        def end(reply: AnswerScored | Failed) -> None:
            if asked not in self._asked:
                return  # another trial began
            self._asked.remove(asked)
            if isinstance(reply, Failed):
                self.problem = reply.message
            else:
                self._scores[key] = np.frombuffer(reply.logprobs, "<f4")
            self.updated.emit()

        asked = self._client.ask(request, end, end)
        self._asked.append(asked)

    def _clear(self) -> None:
        for asked in self._asked:
            asked.cancel()
        self._asked, self._scores = [], {}
        self._tried, self.problem = None, ""

    def _message(self, number: int | None) -> Message | None:
        row = None if number is None else self._chat.row_of(number)
        return None if row is None else self._chat.path[row]

    def _most(self, row: int) -> int:
        """A changed model may not find an end: about as many tokens as the answer at `row` has."""
        return min(max(2 * self._chat.path[row].n_tokens, SHORTEST), LONGEST)

    def show_plain(self, tried: Message) -> None:
        """Have the chat show the answer of the unchanged model in the place of that one."""
        plain, row = self.plain(tried), self._chat.row_of(tried.id)
        if plain is not None and row is not None:
            siblings = self._chat.siblings(tried)
            self._chat.choose_sibling(row, siblings.index(plain) - siblings.index(tried))

    def plain(self, tried: Message) -> Message | None:
        """The latest answer to the same question that no change made, by the same model."""
        siblings = [m for m in self._chat.siblings(tried) if not m.changes and m.finish]
        same = [m for m in siblings if m.model == tried.model and m.n_tokens]
        return same[-1] if same else None


def _own(tokens: Tokens) -> Floats:
    """Return the log-probabilities that the generating model reported; NaN if missing. NaN where it
    did not.
    """
    told = [tokens.logprob(i) for i in range(len(tokens))]
    return np.array([np.nan if p is None else p for p in told], np.float32)
