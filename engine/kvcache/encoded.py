"""Which cell holds which row of a picture, for layers of cross attention. No device, no tensor.

A picture's rows are written when it enters a sequence, and stand at the position of its token. A
token sees the latest picture before it, or all of several that follow one another without text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import ContextFull
from engine.kvcache.causal import BITS, POSITION, Ints


@dataclass(frozen=True)
class Entering:
    """A picture's rows f32 [R, E], and the position of its token."""

    rows: np.ndarray
    position: int


@dataclass(frozen=True)
class EncodedStep:
    """What one step writes and sees: `rows` f32 [R, E] go to cells `ids` [R]; `spans` [T, 4],
    `cells` [C, 2] and `n_kv` are as in `CacheStep`.
    """

    rows: np.ndarray
    ids: Ints
    spans: Ints
    cells: Ints
    n_kv: int


class EncodedCache:
    """The cells of pictures' rows, of one sequence. Those of pictures that no later token sees are
    given up when room is needed.
    """

    def __init__(self, n_cells: int) -> None:
        self.n_cells = n_cells
        self.cells: Ints = np.zeros((n_cells, 2), np.int32)
        self.cells[:, POSITION] = -1
        self._pictures: list[int] = []

    def start(self, positions: Ints, entering: Sequence[Entering]) -> EncodedStep | None:
        """Take cells for the rows of `entering`, whose tokens are among `positions`; None where no
        picture is seen. Raises `ContextFull` before anything is changed.
        """
        wanted = sum(len(one.rows) for one in entering)
        free = np.flatnonzero(self.cells[:, BITS] == 0)
        known = sorted({*self._pictures, *(one.position for one in entering)})
        if len(free) < wanted:
            first = min(self._group(known, int(p)) for p in positions)
            unseen = (self.cells[:, BITS] != 0) & (self.cells[:, POSITION] < first)
            if len(free) + int(unseen.sum()) < wanted:
                detail = f"free of {self.n_cells} cells for pictures"
                raise ContextFull(wanted, len(free) + int(unseen.sum()), detail)
            self.cells[unseen] = (0, -1)
            free = np.flatnonzero(self.cells[:, BITS] == 0)
        ids = free[:wanted].astype(np.int32)
        self._pictures = known
        if entering:
            places = [np.full(len(one.rows), one.position, np.int32) for one in entering]
            self.cells[ids, POSITION] = np.concatenate(places)
            self.cells[ids, BITS] = 1
        spans = np.zeros((len(positions), 4), np.int32)
        for row, position in enumerate(positions.tolist()):
            first = self._group(known, position)
            spans[row] = (1, first, position, 0) if first <= position else 0
        if not spans.any():
            return None
        rows = np.concatenate([one.rows for one in entering]) if entering else np.zeros((0, 1))
        used = np.flatnonzero(self.cells[:, BITS])
        return EncodedStep(rows, ids, spans, self.cells, int(used[-1]) + 1)

    def remove(self, begin: int, end: int | None = None) -> None:
        """Forget pictures from position `begin` up to `end` (None: all that follow); with an end,
        later ones move down.
        """
        position = self.cells[:, POSITION]
        held = self.cells[:, BITS] != 0
        stop = np.iinfo(np.int32).max if end is None else end
        self.cells[held & (position >= begin) & (position < stop)] = (0, -1)
        self._pictures = [p for p in self._pictures if not begin <= p < stop]
        if end is not None:
            self.cells[held & (position >= end), POSITION] -= end - begin
            self._pictures = [p - (end - begin) * (p >= end) for p in self._pictures]

    def resumable(self, n: int) -> int:
        """The last position up to `n` where all that a token sees is still here."""
        held = set(self.cells[self.cells[:, BITS] != 0, POSITION].tolist())
        for position in (n, *(p for p in reversed(self._pictures) if p < n)):
            before = [p for p in self._pictures if p < position]
            first = self._group(before, position)
            if all(p in held for p in before if p >= first):
                return position
        return 0

    @staticmethod
    def _group(pictures: list[int], position: int) -> int:
        """The first picture that a token at `position` sees; behind it where it sees none."""
        first = position + 1
        for picture in reversed([p for p in pictures if p <= position]):
            if first != position + 1 and picture != first - 1:
                break
            first = picture
        return first
