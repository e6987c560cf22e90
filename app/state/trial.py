"""An edited answer beside the one as it is, with what the model makes of both, and a control."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, PendingRequest
from app.language import tr
from app.state.session import Session
from app.state.talk.answer import as_messages
from app.state.talk.chat import ChatState
from app.state.talk.edits import NO_EDITS, EditSet
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from engine.protocol import AnswerScored, Failed, ScoreAnswer

Floats = NDArray[np.float32]
SHORTEST, LONGEST = 64, 512  # tokens that an edited answer may have at most
SEED = 1  # of the first random control
NO_PLAIN = tr("Only the edited answer exists. Answer without edits to compare.")
OTHER_MODEL = tr("Open the model that wrote both answers to compare them.")


@dataclass(frozen=True)
class TriedAnswer:
    """One of the answers. `plain` and `edited` are log-probabilities of its tokens, by the model as
    it is and with the edits that are compared; None as long as the engine has not said.
    """

    message: Message
    tokens: Tokens
    plain: Floats | None
    edited: Floats | None


class TrialState(QObject):
    """Answers to one question, with edits and without. `problem` says why they cannot be compared,
    else it is "".
    """

    updated = Signal()

    def __init__(
        self, client: EngineClient, session: Session, chat: ChatState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._client, self._session, self._chat = client, session, chat
        self._scores: dict[tuple[int, bool], Floats] = {}
        self._requests: list[PendingRequest] = []
        self._tried: int | None = None
        self.problem = ""
        chat.opened.connect(self.forget)
        chat.busy_changed.connect(self._on_busy)

    @property
    def edits(self) -> EditSet:
        """The edits that are compared."""
        shown = self._shown()
        return shown[1].edits if shown else NO_EDITS

    @property
    def busy(self) -> bool:
        """True while replies of the engine are outstanding."""
        return bool(self._requests)

    def row_to_try(self) -> int | None:
        """The answer that would be written again: the last one of the chat."""
        path = self._chat.path
        rows = (row for row in range(len(path) - 1, -1, -1) if path[row].role == "assistant")
        return next(rows, None)

    def start(self, edits: EditSet | None = None) -> bool:
        """Answer the last question once more with edits, by default the chat's; they are compared
        with the answer without when that has ended.
        """
        row = self.row_to_try()
        edits = self._chat.edits.value.active if edits is None else edits
        if row is None or not self._chat.answer_edited(row, edits, self._most(row)):
            return False
        self._clear()
        self._tried = self._chat.path[row].id
        self.updated.emit()
        return True

    def start_control(self, n_head: int | None = None) -> bool:
        """Answer once more with random vectors of the same lengths, or other heads, in place of
        those of the chat's edits. Each control of an answer has another seed.
        """
        row = self.row_to_try()
        if row is None:
            return False
        siblings = self._chat.siblings(self._chat.path[row])
        seeds = [m.edits.seed for m in siblings if m.edits.seed is not None]
        made = control_of(self._chat.edits.value.active, max(seeds, default=SEED - 1) + 1, n_head)
        return made is not None and self.start(made)

    def start_plain(self) -> bool:
        """Answer once more without edits, whatever the chat's are."""
        row = self.row_to_try()
        return row is not None and self._chat.answer_edited(row, NO_EDITS, self._most(row))

    def show(self, message: Message) -> None:
        """Compare an answer that was written before."""
        self._clear()
        if message.edits:
            self._tried = message.id
            self._compare()

    def forget(self) -> None:
        """Compare nothing."""
        self._clear()
        self.updated.emit()

    def answers(self) -> tuple[TriedAnswer, ...]:
        """The original and the edited answer, and the latest random control where there is one;
        none where there are not the first two.
        """
        plain, *others = self._shown() or (None,)
        return () if plain is None else tuple(map(self._answer, (plain, *others)))

    def _shown(self) -> tuple[Message | None, Message, *tuple[Message, ...]] | None:
        """The original, where there is one, the edited answer and a control; None for no trial."""
        tried = self._message(self._tried)
        if tried is None:
            return None
        controls = tried.edits.seed is not None
        found = [m for m in self._chat.siblings(tried) if m.edits and m.n_tokens and m is not tried]
        others = [m for m in found if (m.edits.seed is None) == controls]
        plain = self.plain(tried)
        if not others:
            return plain, tried
        return (plain, others[-1], tried) if controls else (plain, tried, others[-1])

    def _answer(self, message: Message) -> TriedAnswer:
        tokens, own = self._chat.tokens_of(message), message.edits == self.edits
        scores = {own: _own(tokens)} if own or not message.edits else {}
        for by_edited in (False, True):
            known = self._scores.get((message.id, by_edited))
            if known is not None and len(known) == len(tokens):
                scores.setdefault(by_edited, known)
        return TriedAnswer(message, tokens, scores.get(False), scores.get(True))

    def _on_busy(self, busy: bool) -> None:
        if not busy and self._tried is not None:
            self._compare()

    def _compare(self) -> None:
        """Ask what each model makes of the answers that it did not write."""
        found, session = self.answers(), self._session
        if self._chat.busy or self._requests:
            self.updated.emit()
            return
        if not found:
            self.problem = NO_PLAIN
        elif session.status != "ready" or found[1].message.model != session.model_name:
            self.problem = OTHER_MODEL
        else:
            self.problem = ""
            self._send(found[0], edited=True)
            for one in found[1:]:
                self._send(one, edited=False)
        self.updated.emit()

    def _send(self, one: TriedAnswer, edited: bool) -> None:
        key = one.message.id, edited
        if key in self._scores or not len(one.tokens):
            return
        before = self._chat.path[: self._chat.row_of(self._tried or 0)]
        digests: Mapping[str, str] = self._chat.pictures_in_engine.digests(before)
        shown = self._shown()
        request = ScoreAnswer(
            0,
            messages=as_messages(self._chat.details.system, before, digests),
            tokens=one.tokens.ids,
            edits=self._chat.edits.of(shown[1]) if edited and shown is not None else [],
        )

        def end(reply: AnswerScored | Failed) -> None:
            if pending not in self._requests:
                return  # another trial began
            self._requests.remove(pending)
            if isinstance(reply, Failed):
                self.problem = reply.message
            else:
                self._scores[key] = np.frombuffer(reply.logprobs, "<f4")
            self.updated.emit()

        pending = self._client.send(request, end, end)
        self._requests.append(pending)

    def _clear(self) -> None:
        for pending in self._requests:
            pending.cancel()
        self._requests, self._scores = [], {}
        self._tried, self.problem = None, ""

    def _message(self, number: int | None) -> Message | None:
        row = None if number is None else self._chat.row_of(number)
        return None if row is None else self._chat.path[row]

    def _most(self, row: int) -> int:
        """An edited answer may not find an end: about twice as many tokens as the one at `row`."""
        return min(max(2 * self._chat.path[row].n_tokens, SHORTEST), LONGEST)

    def show_original(self) -> None:
        """Have the chat show the answer without edits in the place of the one that was tried."""
        tried = self._message(self._tried)
        if tried is not None:
            self.show_plain(tried)

    def show_plain(self, tried: Message) -> None:
        """Have the chat show the answer without edits in the place of that one."""
        plain, row = self.plain(tried), self._chat.row_of(tried.id)
        if plain is not None and row is not None:
            siblings = self._chat.siblings(tried)
            self._chat.choose_sibling(row, siblings.index(plain) - siblings.index(tried))

    def plain(self, tried: Message) -> Message | None:
        """The latest answer to the same question without edits, by the same model."""
        siblings = [m for m in self._chat.siblings(tried) if not m.edits and m.finish]
        same = [m for m in siblings if m.model == tried.model and m.n_tokens]
        return same[-1] if same else None


def control_of(edits: EditSet, seed: int, n_head: int | None = None) -> EditSet | None:
    """The random control of edits: with a seed for their directions, and other heads of the same
    layers. None where nothing of them is a direction or a head.
    """
    rng, changed = np.random.default_rng(seed), False
    made = []
    for one in edits.edits:
        head = one.edit.head
        if not one.directions and head is not None and n_head is not None and n_head > 1:
            other = int(rng.integers(n_head - 1))
            one = replace(one, edit=replace(one.edit, head=other + (other >= head)))
            changed = True
        made.append(one)
    if not changed and not edits.directions:
        return None
    return EditSet(tuple(made), seed=seed)


def _own(tokens: Tokens) -> Floats:
    """Return the log-probabilities that the generating model reported; NaN if missing."""
    logprobs = [tokens.logprob(i) for i in range(len(tokens))]
    return np.array([np.nan if p is None else p for p in logprobs], np.float32)
