"""Drafts by the block of a model that predicts further tokens, from the model's hidden states."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from engine.errors import CutawayError
from engine.models.build import BuiltModel
from engine.models.mtp import NextToken
from engine.runner.batch import MAX_BATCH
from engine.runner.drafting.economy import MOST
from engine.runner.drafting.model import DraftCosts, likeliest
from engine.runner.stepper import Extras, Logits, StepPart, Stepper

AT_ONCE = MAX_BATCH // 2
"""Hidden states of written tokens after which they are read without a draft."""
NOT_READ = -1


@dataclass
class Track:
    """A sequence as the block reads it. `following[p]` is the token behind position p with which
    it has read p, NOT_READ where it has not. Of the positions behind these, `tokens` and `rows` of
    hidden states wait to be read. `row` has the logits behind the last that was read, `hidden` its
    state.
    """

    following: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    rows: list[Logits] = field(default_factory=list)
    row: Logits | None = None
    hidden: Logits | None = None

    def skip_to(self, position: int) -> None:
        """Positions before this one are not read any more."""
        self.following += [NOT_READ] * (position - len(self.following))
        self.tokens, self.rows = [], []


class PredictingDrafts:
    """Drafts by the block that predicts, with cells of its own for each of the model's sequences.
    Tokens from `n_vocab` on are never drafted. A draft ends where its likeliest token is less
    likely than `p_min`; one of fewer than `least` tokens is none.
    """

    source = "mtp"

    def __init__(self, trunk: Stepper, n_vocab: int, p_min: float = 0.0, least: int = 0) -> None:
        """Follows the steps of the `trunk` from now on."""
        assert trunk.built.predicting is not None
        self.built: BuiltModel = trunk.built.predicting
        self._trunk, self._n_vocab = trunk, n_vocab
        self._p_min, self._least = p_min, least
        self._own = Stepper(self.built, trunk.planner, trunk.fused_attention)
        self.tracks: dict[int, Track] = defaultdict(Track)
        self.costs = DraftCosts(ratio=_ratio(trunk.built, self.built))
        trunk.follower = self

    @property
    def stepper(self) -> Stepper:
        """Runs the block, wherever the model has moved."""
        self._own.planner = self._trunk.planner
        return self._own

    def draft(self, number: int, text: Sequence[int], most: int, at: int) -> list[int]:
        """The likeliest tokens to follow the text of a sequence, at most so many; none where the
        hidden state before its last token, at position `at`, is not known.
        """
        begun, track = perf_counter(), self.tracks[number]
        try:
            n = at - len(track.following)
            if n and not self._read_up_to(number, n, text):
                return []
            if track.row is None or track.following[-1] != text[-1]:
                return []
            first = perf_counter()
            tokens = self._followed(number, at, most)
        except CutawayError:  # of its cells others may hold too many
            self._forget_all()
            return []
        if n <= MOST + 1:
            self.costs.took(first - begun, perf_counter() - first, len(tokens))
        return tokens if len(tokens) >= self._least else []

    def computed(self, parts: Sequence[StepPart], hidden: Logits) -> None:
        """The model has computed these parts, with hidden states [T, E] of all their tokens."""
        at = 0
        for part in parts:
            rows = hidden[at : at + len(part.tokens)]
            at += len(part.tokens)
            self._take(part, rows)

    def forgot(self, sequence: int, begin: int) -> None:
        """The positions from `begin` on are gone; hidden states stay until others come."""
        track = self.tracks[sequence]
        if not begin:
            self.tracks[sequence] = Track()
            self.built.caches.remove(sequence, 0)
        elif begin < len(track.following):
            self._cut(sequence, begin)

    def shared(self, sequence: int, source: int, n: int) -> None:
        """An empty sequence goes on behind `n` tokens of another one."""
        following = self.tracks[source].following[: n - 1]
        self.tracks[sequence] = Track(following[:])
        self.built.caches.share(sequence, source, len(following))

    def _take(self, part: StepPart, rows: Logits) -> None:
        """The tokens of a part, with their hidden states: those of a prompt are read at once, but
        for the last, whose next token is not known yet.
        """
        number, first, tokens = part.sequence, part.first_position, list(part.tokens)
        track = self.tracks[number]
        if first > len(track.following) + len(track.tokens):  # some were computed unseen
            track.skip_to(first)
        wrong = self._first_wrong(track, first, tokens)
        if wrong < len(track.following):
            self._cut(number, wrong)
            track.skip_to(max(first, wrong))
        waiting = max(0, first - len(track.following))
        known = max(0, len(track.following) - first)
        track.tokens[waiting:] = tokens[known:]
        track.rows[waiting:] = list(np.array(rows[known:]))
        if len(tokens) > MOST + 1 or len(track.tokens) >= AT_ONCE:
            try:
                while len(track.tokens) > 1:
                    n = min(MAX_BATCH, len(track.tokens) - 1)
                    self._read(number, track.tokens[1 : n + 1])
            except CutawayError:
                self._forget_all()

    @staticmethod
    def _first_wrong(track: Track, first: int, tokens: Sequence[int]) -> int:
        """The first position that was read with another token behind it than there is now."""
        read = enumerate(track.following[max(0, first - 1) :], max(0, first - 1))
        known = ((p, token) for p, token in read if 0 <= p + 1 - first < len(tokens))
        wrong = (p for p, token in known if tokens[p + 1 - first] != token)
        return next(wrong, len(track.following))

    def _cut(self, number: int, position: int) -> None:
        """Forget what was read from a position on, and what waits behind."""
        track = self.tracks[number]
        del track.following[position:]
        track.tokens, track.rows, track.row = [], [], None
        self.built.caches.remove(number, position)

    def _forget_all(self) -> None:
        self.tracks.clear()
        self.built.caches.clear()

    def _read_up_to(self, number: int, n: int, text: Sequence[int]) -> bool:
        """Read the `n` positions before the text's last token. False where they are not known."""
        track = self.tracks[number]
        if not 0 < n <= min(len(track.tokens), MAX_BATCH):
            return False
        if track.tokens[:n] != list(text[-1 - n : -1]):
            return False
        self._read(number, [*track.tokens[1:n], text[-1]])
        return True

    def _read(self, number: int, following: list[int]) -> None:
        """Read as many positions as tokens follow them, each with that token behind it."""
        track, n = self.tracks[number], len(following)
        first = len(track.following)
        track.row, track.hidden = self._step(number, following, first, np.stack(track.rows[:n]))
        track.following += following
        del track.tokens[:n], track.rows[:n]

    def _step(
        self, number: int, tokens: list[int], first: int, rows: Logits
    ) -> tuple[Logits, Logits]:
        """Logits [V] and the hidden state [E] behind tokens that follow these rows [T, E]."""
        part = StepPart(tokens, first, [len(tokens) - 1], number)
        step = self.stepper.start_together([part], extras=Extras(rows=rows))
        (row,) = step()
        return row, step.hidden[0][0]

    def _followed(self, number: int, at: int, most: int) -> list[int]:
        """The tokens behind position `at`, each guessed from the hidden state of the one before."""
        track, tokens = self.tracks[number], list[int]()
        row, hidden = track.row, track.hidden
        try:
            while row is not None and hidden is not None:
                token = likeliest(row[: self._n_vocab], self._p_min)
                if token is None:
                    break
                tokens.append(token)
                if len(tokens) == most:
                    break
                position = at + len(tokens) - 1
                row, hidden = self._step(number, [token], position, hidden[None])
        finally:
            self.built.caches.remove(number, at)
        return tokens


def _ratio(trunk: BuiltModel, predicting: BuiltModel) -> float:
    """The bytes of weights that one token of the block reads, to those of the model: its time is
    expected to be as much shorter.
    """
    assert isinstance(predicting.model, NextToken)
    own = sum(t.nbytes for t in predicting.sources if t.name.startswith("blk."))
    whole = sum(t.nbytes for t in trunk.sources if t not in predicting.sources)
    output = sum(t.nbytes for t in trunk.sources if t.name.startswith("output."))
    return (own + output) / max(1, whole)
