"""How often a running answer is looked into: a share of its time, whatever a look takes."""

from collections import deque
from statistics import median
from time import perf_counter

from engine.protocol import LOOK_SHARE

GUESS = 0.04
"""Seconds that a look is taken to last before one was seen."""


class LookBudget:
    """Time for looks comes as an answer goes on, and a look waits until there is enough for it, as
    the latest ones were. What one takes more, later ones wait for, in the next answers too.

    A look takes what it is seen to take: the step with its copies, what it means, and how much
    slower the next step is, which reports it and finds processors' caches emptied.
    """

    def __init__(self) -> None:
        self._plain: deque[float] = deque([], 8)
        self._looks: deque[float] = deque([GUESS], 3)
        self._look = 0.0  # what the latest has taken so far
        self._spent = 0.0  # in this answer, and more than there was in those before
        self._began: float | None = None
        self._now = 0.0

    def begin(self) -> None:
        """An answer begins; what the one before left unspent is lost."""
        self._spent = max(0.0, self._spent - self._earned())
        self._began = None

    def step(self, seconds: float, by_look: bool) -> None:
        """A step took so long, and may have been made slower by a look."""
        if by_look:
            self.spend(max(0.0, seconds - median(self._plain)))
        else:
            self._plain.append(seconds)

    def spend(self, seconds: float) -> None:
        """Looking took so long."""
        self._look += seconds
        self._spent += seconds

    def is_due(self) -> bool:
        """True if to look at the next step, if somebody wants to; not before one was plain, to
        compare with.
        """
        self._now = perf_counter()
        if self._began is None:
            self._began = self._now
        looks = [*self._looks, self._look] if self._look else self._looks
        if not self._plain or self._earned() < self._spent + median(looks):
            return False
        if self._look:
            self._looks.append(self._look)
            self._look = 0.0
        return True

    def _earned(self) -> float:
        """Seconds that looks may take of the answer, up to the last token in question."""
        return 0.0 if self._began is None else LOOK_SHARE * (self._now - self._began)
