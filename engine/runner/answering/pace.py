"""How many tokens a step may read, so that no prompt delays another answer for long."""

from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median

from engine.runner.batch import FIRST, MAX_BATCH, Patience, bucket_of

SLOWER = 1.7
"""How much longer a step may take that reads a piece of a prompt beside writing."""
LONG, TIMES, EVERY = 0.1, 36, 36
"""Seconds that one step in EVERY may take instead, where steps are quick, or so many times as long
as usual: fewer than one in 20, which is what p95 of the time between tokens leaves out, and half of
the time.
"""
QUICK, SLOW = 0.025, 0.035
"""Seconds of a step without a piece: of quicker ones a long one in EVERY costs who writes less than
a short piece in each of them. Steps are slow from SLOW on.
"""
LEAST = 3
"""Tokens of a piece at least; the first one has FIRST."""
SIZES = sorted({bucket_of(n) for n in range(1, MAX_BATCH + 1)})
"""Of which plans are made."""


class Pace:
    """Learns from steps how long they take. Of steps that write alone the median counts, by how
    many write; the piece of a prompt beside them follows from how long the last one took.

    A piece costs more than its tokens: what is cached of its prompt is read once for it. So where
    steps are slow, each has a short piece. Where they are quick, most only write, and each saves
    some of a `credit`, of which a long piece takes 1: a prompt is read when all of it is, or when
    it takes no more than there is.
    """

    def __init__(self, patience: Patience) -> None:
        """`patience` has learned from each step before `took`."""
        self._patience = patience  # where nothing is written
        self._plain: dict[int, deque[float]] = defaultdict(lambda: deque([], 9))
        self._short, self._long = float(FIRST), float(FIRST)
        self._credit = 1.0
        self._is_slow = False
        self._unknown = 0  # steps since one without a piece

    def piece(self, n_writing: int, pending: Sequence[int]) -> int:
        """How many tokens of prompts the next step may have beside those of `n_writing` answers,
        where so many are `pending` of each that is read, in the order of their turns.
        """
        if not n_writing or not pending:
            return self._patience.most
        if self._is_slow:
            return _fitting(n_writing, self._short) if self._unknown < EVERY else 0
        saved = int(self._credit * self._long)
        if pending[0] <= saved:
            return saved
        return _fitting(n_writing, self._long) if self._credit >= 1 else 0

    def took(self, n_writing: int, n_read: int, seconds: float, n_reading: int = 1) -> None:
        """A step of so many tokens took so long; so many answers' prompts were not yet read."""
        if not n_writing:
            if n_read >= self._patience.most:  # else it is the short end of a prompt
                self._long = _bounded(n_read * LONG / seconds)
            return
        if not n_read:
            self._plain[n_writing].append(seconds)
        self._unknown = self._unknown + 1 if n_read else 0
        usual = self._usual(n_writing)
        long = max(LONG, TIMES * usual)
        if not QUICK < usual < SLOW:
            self._is_slow = usual >= SLOW
        # One prompt has a share of the time; several have as much as as many who write.
        saved = max(1 / EVERY, usual * (n_reading - 1) / n_writing / long)
        self._credit = min(1.0, self._credit + saved)
        if n_read and self._is_slow:
            self._short = _bounded(self._short * min(1.5, max(0.5, SLOWER * usual / seconds)))
        elif n_read:
            self._credit = max(0.0, self._credit - n_read / self._long)
            if 2 * n_read >= self._long:
                self._long = _bounded(self._long * min(2.0, max(0.5, long / seconds)))

    def _usual(self, n_writing: int) -> float:
        """Seconds of a step that only writes; as long as nobody knows, of a quick one."""
        if not self._plain:
            return QUICK
        nearest = min(self._plain, key=lambda n: abs(n - n_writing))
        return median(self._plain[nearest])


def _bounded(piece: float) -> float:
    return min(max(piece, LEAST), MAX_BATCH)


def _fitting(n_writing: int, piece: float) -> int:
    """The most tokens up to `piece` that fill a plan beside those of `n_writing`, or LEAST."""
    most = n_writing + round(piece)
    sizes = [size for size in SIZES if size >= n_writing + LEAST]
    return max((size for size in sizes if size <= most), default=sizes[0]) - n_writing
