"""How many tokens a step may have, so that who reads an answer waits for nobody's prompt."""

from collections import defaultdict, deque
from statistics import median

from engine.runner.stepper import MAX_BATCH, bucket_of

SLOWER = 1.7
"""How much longer a step may take that reads a piece of a prompt beside writing."""
USUAL = 0.1
"""Seconds for such a step, as long as nobody knows what one without a piece takes."""
LEAST, FIRST = 3, 32
"""Tokens of a piece at least, and of the first one."""
SIZES = sorted({bucket_of(n) for n in range(1, MAX_BATCH + 1)})
"""Of which plans are made."""


class Pace:
    """Learns from steps how long they take. Of steps that write alone the median counts, by how
    many write; the piece of a prompt beside them follows from how long the last one took.
    """

    def __init__(self) -> None:
        self._plain: dict[int, deque[float]] = defaultdict(lambda: deque([], 9))
        self._piece = float(FIRST)

    def piece(self, n_writing: int) -> int:
        """How many tokens of prompts a step may have beside those of `n_writing` answers: with
        them as many as a plan is made for.
        """
        if not n_writing:
            return MAX_BATCH
        most = n_writing + round(self._piece)
        sizes = [size for size in SIZES if size >= n_writing + LEAST]
        return max((size for size in sizes if size <= most), default=sizes[0]) - n_writing

    def took(self, n_writing: int, n_read: int, seconds: float) -> None:
        """A step of so many tokens took so long."""
        if not n_writing:
            return
        if not n_read:
            self._plain[n_writing].append(seconds)
            return
        self._piece *= min(1.5, max(0.5, self._target(n_writing) / seconds))
        self._piece = min(max(self._piece, LEAST), MAX_BATCH)

    def _target(self, n_writing: int) -> float:
        if not self._plain:
            return USUAL
        nearest = min(self._plain, key=lambda n: abs(n - n_writing))
        return SLOWER * median(self._plain[nearest])
