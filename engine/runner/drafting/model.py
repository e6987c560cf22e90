"""Drafts by a second model of the same vocabulary, which reads what the first one writes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import numpy as np

from engine.errors import CutawayError
from engine.runner.drafting.economy import MOST
from engine.runner.sequence import Sequenced
from engine.runner.stepper import TEXT, Logits, Stepper

_FIRST = 3  # measurements, of which the quickest counts


@dataclass
class DraftCosts:
    """Seconds that drafts take: their first token, with what was missing before it, and each that
    follows. Moving averages; until they were measured, a step of the other model times the `ratio`
    of both models' steps, as both get slower with the context.
    """

    first: float = 0.0
    each: float = 0.0
    ratio: float = 0.0
    _n: int = 0

    def expect(self, plain: float) -> None:
        """Expect the ratio of a step of the other model that takes so long, unless measured."""
        if not self._n and self.ratio:
            self.first = self.each = self.ratio * plain

    def took(self, first: float, rest: float, n: int) -> None:
        """A draft of n tokens took so long for its first and for the others."""
        self._n += 1
        self.first = self._averaged(self.first, first)
        if n > 1:
            self.each = self._averaged(self.each, rest / (n - 1))

    def of(self, n: int) -> float:
        """Seconds of a draft of n tokens."""
        return self.first + (n - 1) * (self.each or self.first) if n else 0.0

    def _averaged(self, known: float, seconds: float) -> float:
        if not known or self._n == 1:  # what was expected counts no more
            return seconds
        if self._n <= _FIRST:
            return min(known, seconds)
        return known + (min(seconds, 3 * known) - known) / 8


def likeliest(row: Logits, p_min: float) -> int | None:
    """The token of the largest logit; None where it is less likely than `p_min`."""
    token = int(row.argmax())
    unsure = p_min and p_min * float(np.exp(row - row[token]).sum()) > 1
    return None if unsure else token


class Guesser(Protocol):
    """A model that guesses the next tokens of another one's sequences."""

    costs: DraftCosts
    source: str

    @property
    def stepper(self) -> Stepper:
        """Computes its guesses."""

    def draft(self, number: int, text: Sequence[int], most: int, at: int) -> list[int]:
        """At most so many tokens to follow the `text` of a sequence, whose last token has the
        position `at`; none where nothing can be guessed now.
        """


@dataclass
class DraftModel:
    """A model that drafts for another, with a sequence for each of the other's. Tokens from
    `n_vocab` on are never drafted. A draft ends where its likeliest token is less likely than
    `p_min`; one of fewer than `least` tokens is none.
    """

    stepper: Stepper
    n_vocab: int
    p_min: float = 0.0
    least: int = 0
    costs: DraftCosts = field(default_factory=DraftCosts)
    source: str = "draft"

    def __post_init__(self) -> None:
        numbers = range(self.stepper.built.n_sequences)
        self._sequences = [Sequenced(self.stepper, number=number) for number in numbers]
        self._begins: dict[int, int] = defaultdict(int)  # of the text that a sequence has

    def draft(self, number: int, text: Sequence[int], most: int, at: int = 0) -> list[int]:
        """The likeliest tokens to follow the text of the other model's sequence, at most so many.
        None while more of the text is missing here than one step reads, or where it cannot be read.
        Its positions are those of the text, wherever its last token is `at`.
        """
        begun = perf_counter()
        try:
            sequence, missing = self._at(number, text, most)
            logits = self._read(sequence, missing)
            if logits is None:
                return []
            first = perf_counter()
            tokens = self._followed(sequence, logits, most)
        except CutawayError:  # of its cells others may hold too many
            for one in self._sequences:
                one.clear()
            return []
        if len(missing) <= MOST + 1:
            self.costs.took(first - begun, perf_counter() - first, len(tokens))
        return tokens if len(tokens) >= self.least else []

    def _at(self, number: int, text: Sequence[int], most: int) -> tuple[Sequenced, list[int]]:
        """A sequence that holds the beginning of a text, or of its end where all of it is longer
        than the context; and what is missing of that.
        """
        sequence, n_ctx = self._sequences[number], self.stepper.built.n_ctx
        begin = self._begins[number]
        if begin and not sequence.shared([*text[begin : begin + 2]]):
            begin = 0  # another text
        if len(text) - begin + most > n_ctx:
            begin = max(0, len(text) - n_ctx // 2)
        self._begins[number] = begin
        shown = list(text[begin:])
        return sequence, shown[sequence.reuse(shown) :]

    def _read(self, sequence: Sequenced, missing: list[int]) -> Logits | None:
        """Logits behind what is missing; None where that takes further steps."""
        part = sequence.part(missing)
        logits = sequence.begin(part, TEXT)()
        sequence.keep()
        return logits if len(part) == len(missing) else None

    def _followed(self, sequence: Sequenced, logits: Logits, most: int) -> list[int]:
        tokens: list[int] = []
        while True:
            token = likeliest(logits[: self.n_vocab], self.p_min)
            if token is None:
                return tokens
            tokens.append(token)
            if len(tokens) == most:
                return tokens
            logits = sequence.append(token)
