"""Which cell holds which row of a picture, for layers of cross attention. No device, no tensor.

A picture's rows are written when it enters a sequence, and stand at the position of its token. A
token sees the latest picture before it, or all of several that follow one another without text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import ContextFull, NotSupported
from engine.kvcache.causal import BITS, POSITION, Ints


@dataclass(frozen=True)
class Entering:
    """A picture's rows f32 [R, E], and the position of its token."""

    rows: np.ndarray
    position: int


@dataclass(frozen=True)
class EncodedStep:
    """Cells that one step writes and sees: `rows` f32 [R, E] go to cells `ids` [R]; `spans` [T, 4],
    `cells` [C, 2] and `n_kv` are as in `CacheStep`.
    """

    rows: np.ndarray
    ids: Ints
    spans: Ints
    cells: Ints
    n_kv: int


class EncodedCache:
    """The cells of pictures' rows, shared by all sequences as those of tokens are. Those of
    pictures that no later token of a sequence sees are given up when room is needed.
    """

    def __init__(self, n_cells: int) -> None:
        self.n_cells = n_cells
        self.cells: Ints = np.zeros((n_cells, 2), np.int32)
        self.cells[:, POSITION] = -1
        self._pictures: dict[int, list[int]] = {}
        """Positions of each sequence's pictures, also of those that were given up."""

    @property
    def n_room(self) -> int:
        """Cells that are free, or of pictures that no token behind the last one sees."""
        return int(np.count_nonzero(self._bits_seen({}) == 0))

    def start(
        self, positions: Ints, owners: Ints, entering: Sequence[Entering]
    ) -> EncodedStep | None:
        """Take cells for the rows of `entering`, whose tokens are among `positions` [T] of the
        sequences `owners` [T], all of one where any enter; None where no picture is seen. Raises
        `ContextFull` before anything is changed.
        """
        wanted = sum(len(one.rows) for one in entering)
        own = int(owners[0])
        known = {one: self._pictures.get(one, []) for one in np.unique(owners).tolist()}
        if entering:
            known[own] = sorted({*known[own], *(one.position for one in entering)})
        firsts = [
            self._group(known[one], position)
            for one, position in zip(owners.tolist(), positions.tolist(), strict=True)
        ]
        free = np.flatnonzero(self.cells[:, BITS] == 0)
        if len(free) < wanted:
            least: dict[int, int] = {}
            for one, first in zip(owners.tolist(), firsts, strict=True):
                least[one] = min(first, least.get(one, first))
            bits = self._bits_seen(least)
            free = np.flatnonzero(bits == 0)
            if len(free) < wanted:
                detail = f"free of {self.n_cells} cells for pictures"
                raise ContextFull(wanted, len(free), detail)
            self.cells[:, BITS] = bits
            self.cells[free, POSITION] = -1
        ids = free[:wanted].astype(np.int32)
        self._pictures |= known
        if entering:
            places = [np.full(len(one.rows), one.position, np.int32) for one in entering]
            self.cells[ids, POSITION] = np.concatenate(places)
            self.cells[ids, BITS] = 1 << own
        spans = np.zeros((len(positions), 4), np.int32)
        for row, (first, position) in enumerate(zip(firsts, positions.tolist(), strict=True)):
            if first <= position:
                spans[row] = (1 << int(owners[row]), first, position, 0)
        if not spans.any():
            return None
        rows = np.concatenate([one.rows for one in entering]) if entering else np.zeros((0, 1))
        used = np.flatnonzero(self.cells[:, BITS])
        return EncodedStep(rows, ids, spans, self.cells, int(used[-1]) + 1)

    def place(self, sequence: int, positions: Sequence[int], pictures: Sequence[int]) -> Ints:
        """Take cells for rows of a sequence's pictures, which are filled from elsewhere: in order
        the `positions` of the rows, and of all its `pictures`. Raises `ContextFull`.
        """
        free = np.flatnonzero(self.cells[:, BITS] == 0)
        if len(free) < len(positions):
            detail = f"free of {self.n_cells} cells for pictures"
            raise ContextFull(len(positions), len(free), detail)
        ids = free[: len(positions)].astype(np.int32)
        self.cells[ids, POSITION] = positions
        self.cells[ids, BITS] = 1 << sequence
        if pictures:
            self._pictures[sequence] = list(pictures)
        return ids

    def held(self, sequence: int) -> tuple[Ints, list[int]]:
        """The cells of a sequence's rows, in the order of their positions, and the positions of all
        its pictures.
        """
        mine = np.flatnonzero(self._of(sequence))
        order = np.argsort(self.cells[mine, POSITION], kind="stable")
        return mine[order].astype(np.int32), self._pictures.get(sequence, [])

    def remove(self, sequence: int, begin: int, end: int | None = None) -> None:
        """Forget a sequence's pictures from position `begin` up to `end` (None: all that follow);
        with an end, later ones move down. Raises `NotSupported`, before anything is changed, where
        another sequence shares one of these.
        """
        mine = self._of(sequence)
        position = self.cells[:, POSITION]
        stop = np.iinfo(np.int32).max if end is None else end
        later = mine & (position >= stop)
        if (self.cells[later, BITS] != 1 << sequence).any():
            raise NotSupported("moving pictures that another sequence shares")
        self._release(mine & (position >= begin) & (position < stop), sequence)
        moved = 0 if end is None else end - begin
        self.cells[later, POSITION] -= moved
        kept = [p for p in self._pictures.pop(sequence, []) if not begin <= p < stop]
        if kept:
            self._pictures[sequence] = [p - moved * (p >= stop) for p in kept]

    def share(self, sequence: int, source: int, end: int) -> None:
        """Let an empty sequence see the source's pictures before position `end` as its own: the
        same cells, of which none is written. `remove` undoes it.
        """
        shared = self._of(source) & (self.cells[:, POSITION] < end)
        self.cells[shared, BITS] |= 1 << sequence
        self._pictures[sequence] = [p for p in self._pictures.get(source, []) if p < end]

    def resumable(self, sequence: int, n: int) -> int:
        """The last position up to `n` where all that a token of a sequence sees is still here."""
        held = set(self.cells[self._of(sequence), POSITION].tolist())
        pictures = self._pictures.get(sequence, [])
        for position in (n, *(p for p in reversed(pictures) if p < n)):
            before = [p for p in pictures if p < position]
            first = self._group(before, position)
            if all(p in held for p in before if p >= first):
                return position
        return 0

    def clear(self) -> None:
        """Forget everything."""
        self.cells[:] = (0, -1)
        self._pictures.clear()

    def _of(self, sequence: int) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = (self.cells[:, BITS] & (1 << sequence)) != 0
        return held

    def _release(self, cells: NDArray[np.bool_], sequence: int) -> None:
        self.cells[cells, BITS] &= ~(1 << sequence)
        self.cells[self.cells[:, BITS] == 0, POSITION] = -1

    def _bits_seen(self, firsts: Mapping[int, int]) -> Ints:
        """The cells' bits without those of pictures that are seen no more: these sequences see them
        from `firsts` on, any other as behind its last picture.
        """
        bits: Ints = self.cells[:, BITS].copy()
        for sequence, pictures in self._pictures.items():
            if pictures:
                first = firsts.get(sequence, self._group(pictures, pictures[-1] + 1))
                bits[self._of(sequence) & (self.cells[:, POSITION] < first)] &= ~(1 << sequence)
        return bits

    @staticmethod
    def _group(pictures: list[int], position: int) -> int:
        """The first picture that a token at `position` sees; behind it where it sees none."""
        first = position + 1
        for picture in reversed([p for p in pictures if p <= position]):
            if first != position + 1 and picture != first - 1:
                break
            first = picture
        return first
