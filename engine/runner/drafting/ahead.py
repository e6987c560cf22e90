"""Drafts of all answers that share a step: how many of their tokens it computes."""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Protocol

from engine.runner.drafting.drafts import NO_DRAFT, Draft, Drafts
from engine.runner.drafting.economy import SIZES, Economy
from engine.runner.drafting.model import Guesser
from engine.runner.stepper import Stepper

GUESSES = (1, 2, 3, 4)
"""Rows of a drafting model's usual steps."""


class Drafting(Protocol):
    """An answer that may have drafts."""

    @property
    def drafts(self) -> Drafts | None: ...
    def draft(self, guesses: int) -> Draft: ...
    def saved(self, seconds: float, per_token: float) -> None: ...


class Ahead:
    """Chooses drafts for the steps of one model."""

    def __init__(
        self,
        stepper: Stepper,
        economy: Economy | None = None,
        model: Guesser | None = None,
    ) -> None:
        """`model` is one that drafts, if there is any."""
        self._stepper, self._model = stepper, model
        self.economy = economy or Economy()
        self._built_s = self._drafted_s = 0.0  # of the step under way
        self.is_wanted = model is not None

    def plans(self) -> Iterator[None]:
        """Make the plans that drafts of one answer take at the present depth, one at a time; yields
        before each that is missing. There are none unless drafts are wanted.
        """
        wanted = [(self._stepper, n, n) for n in SIZES]
        if self._model is not None:
            wanted += [(self._model.stepper, n, 1) for n in GUESSES]
        for stepper, n_rows, n_outputs in wanted if self.is_wanted else ():
            if not stepper.is_ready(n_rows, n_outputs, 1):
                yield
                stepper.ready(n_rows, n_outputs)

    def drafts(self, answers: Sequence[Drafting], n_rows: int) -> list[Draft]:
        """Return each answer's draft for a step that has `n_rows` without any; where there is no
        plan for that many rows yet, none until it pays to make it.
        """
        guesses = self._guesses(answers, n_rows)
        begun = perf_counter()
        proposed = [answer.draft(guesses) for answer in answers]
        self._drafted_s = perf_counter() - begun if guesses else 0.0
        if not any(draft.tokens for draft in proposed):
            return proposed
        chances = [
            one.drafts.chances(draft) if one.drafts is not None else []
            for one, draft in zip(answers, proposed, strict=True)
        ]
        shares, saved = self.economy.shares(chances, len(answers), n_rows)
        total = n_rows + sum(shares)
        if not any(shares) or not self._is_ready(total, len(answers), saved):
            return [NO_DRAFT] * len(answers)
        return [
            Draft(draft.tokens[:share], draft.source) if share else NO_DRAFT
            for draft, share in zip(proposed, shares, strict=True)
        ]

    def _guesses(self, answers: Sequence[Drafting], n_rows: int) -> int:
        """How many tokens the model is to draft for each answer that may ask it; 0 where there is
        no plan to check so many.
        """
        n_drafting = sum(one.drafts is not None and one.drafts.uses_model for one in answers)
        if self._model is None or not n_drafting:
            return 0
        self._model.costs.expect(self.economy.plain(len(answers)))
        cost = self._model.costs.of
        source = self._model.source
        n, saved = self.economy.guesses(n_drafting, len(answers), n_rows, cost, source)
        is_ready = n and self._is_ready(n_rows + n_drafting * n, len(answers), saved)
        return n if is_ready else 0

    def took(self, parts: Sequence[tuple[Drafting, int, int]], n: int, seconds: float) -> None:
        """A step gave (answer, rows, of these drafted) so many tokens in all."""
        seconds -= self._built_s
        drafted, self._built_s, self._drafted_s = self._drafted_s, 0.0, 0.0
        n_rows = sum(rows for _, rows, _ in parts)
        plain = self.economy.plain(len(parts)) / len(parts)
        drafting = [answer for answer, _, n_drafted in parts if n_drafted]
        own = self.economy.believed(len(parts), n_rows, seconds - drafted) + drafted
        saved = n * plain - own if drafting else 0.0
        self.economy.took(len(parts), n_rows, seconds - drafted, saved)
        for answer in drafting:
            answer.saved(saved / len(drafting), plain)

    def _is_ready(self, n_rows: int, n_sequences: int, saved: float) -> bool:
        """True if there is a plan of all rows' logits, or there is one now."""
        if not self._stepper.is_ready(n_rows, n_rows, n_sequences):
            if not self.economy.missed(saved):
                return False
            begun = perf_counter()
            self._stepper.ready(n_rows, n_rows, n_sequences)
            seconds = perf_counter() - begun
            self._built_s += seconds
            self.economy.built(seconds)
        return True
