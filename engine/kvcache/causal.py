"""Which cell of the KV cache holds which token, and who sees it. No device, no tensor.

Cells are shared by all sequences. A cell holds the bits of the sequences in it and one position;
a free cell has no bit. A sequence takes whole pages of cells as long as there are any, so that it
does not lie scattered among others; then any cell that is free.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import ContextFull, NotSupported

Ints = NDArray[np.int32]
Cells = Ints | range
"""Numbers of cells; those of one page that follow each other are a range, which takes no NumPy."""
BITS, POSITION = 0, 1
PAGE = 64
"""Cells of one page: a free one is taken by one sequence."""
MAX_SEQUENCES = 31
"""Bits of a cell, its sign left alone."""


class CacheStep(NamedTuple):
    """Cells that one step writes and sees: `ids` [T] cells written, `spans` [T, 4] as attention
    wants them, `cells` [C, 2] (bits, position) of the whole cache, `n_kv` cells in use from the
    start.
    """

    ids: Ints
    spans: Ints
    cells: Ints
    n_kv: int

    def padded(self, n: int) -> "CacheStep":
        """With tokens behind, n in all, that are written nowhere and see nothing."""
        if len(self.ids) == n:
            return self
        ids, spans = np.full(n, -1, np.int32), np.zeros((n, 4), np.int32)
        ids[: len(self.ids)] = self.ids
        spans[: len(self.spans)] = self.spans
        return self._replace(ids=ids, spans=spans)


class CausalCache:
    """The cells of full attention, or where a token sees the last `window` ones or its `chunk`.

    `window` counts visible tokens, the token itself included; a token at p sees its chunk from
    floor(p / chunk) * chunk on. Cells that nobody sees any more are given up only when room is
    needed, so that a prompt can often be resumed further back. Where keys are not `movable`, tokens
    stay at the positions that they were computed at; where it is not `ahead`, none sees those
    behind it, whatever `start` is given.
    """

    def __init__(
        self,
        n_cells: int,
        window: int | None = None,
        chunk: int | None = None,
        movable: bool = True,
        ahead: bool = True,
    ) -> None:
        self.n_cells = n_cells
        self.window = window
        self.chunk = chunk
        self.movable = movable
        self.ahead = ahead
        self.cells: Ints = np.zeros((n_cells, 2), np.int32)
        self.cells[:, POSITION] = -1
        self.n_kv = 0
        """One more than the highest cell in use."""
        self._n_used = 0
        self._used: Ints = np.zeros(-(-n_cells // PAGE), np.int32)  # cells of each page
        self._tails: dict[int, int] = {}  # the cell behind the one that a sequence took last

    def start(self, positions: Ints, sequences: Ints | int, ends: Ints | None = None) -> CacheStep:
        """Take a cell for each of `positions` [T], each of the sequence in `sequences` [T]. Those
        of one sequence follow one another and rise. Raises `ContextFull`.

        `ends` [T] are the last positions that each sees, where some see further than to themselves:
        up to the end of a group whose members all see each other, all of it in this step.
        """
        n = len(positions)
        owners = owners_of(sequences, n)
        parts = list(parts_of(owners))
        if self.n_free < n and (self.window or self.chunk):
            self._slide({sequence: int(positions[begin]) for sequence, begin, _ in parts})
        if self.n_free < n:
            raise ContextFull(n, self.n_free, f"free of {self.n_cells} cells of the KV cache")
        ids = np.empty(n, np.int32)
        for sequence, begin, end in parts:
            mine = self._free_cells(sequence, end - begin)
            ids[begin:end] = mine
            self._take(mine, positions[begin:end], sequence)
        return CacheStep(ids, self._spans(positions, owners, ends), self.cells, self.n_kv)

    def _take(self, cells: Cells, positions: Ints, sequence: int) -> None:
        """Write a sequence's next positions into free cells."""
        if isinstance(cells, range):  # of one page
            at: Ints | slice = slice(cells.start, cells.stop)
            self._used[cells.start // PAGE] += len(cells)
            highest = cells[-1]
        else:
            at = cells
            np.add.at(self._used, cells // PAGE, 1)
            highest = int(cells.max())
        # First the positions: `remove` finds cells with a bit by these.
        self.cells[at, POSITION] = positions
        self.cells[at, BITS] = 1 << sequence
        self._n_used += len(cells)
        self._tails[sequence] = int(cells[-1]) + 1
        self.n_kv = max(self.n_kv, highest + 1)

    def remove(self, sequence: int, begin: int, end: int | None = None) -> Ints | None:
        """Forget the positions from `begin` up to `end` (None: all that follow).

        With an end, later tokens move down by end - begin; returned is how far each cell's K must
        be rotated [C], or None where nothing moves. Raises `NotSupported`, before anything is
        changed, where keys are not `movable`, where that would take them into other chunks, as
        which they were not computed, or where another sequence shares them.
        """
        mine = self._of(sequence)
        position = self.cells[:, POSITION]
        later = mine & (position >= end) if end is not None else np.zeros_like(mine)
        if self.chunk is not None and later.any():
            raise NotSupported("moving tokens from chunk to chunk")
        if not self.movable and later.any():
            raise NotSupported("moving tokens to positions that were learned")
        if (self.cells[later, BITS] != 1 << sequence).any():
            raise NotSupported("moving tokens that another sequence shares")
        gone = mine & (position >= begin) & ~later
        self._release(gone, sequence)
        if end is None or not later.any():
            return None
        shift = np.where(later, begin - end, 0).astype(np.int32)
        self.cells[:, POSITION] += shift
        return shift

    def drop(self, sequence: int, cells: Ints) -> None:
        """Free the cells of the tokens that a sequence took last, which no other shares. Unlike
        `remove` this walks no other cells.
        """
        self.cells[cells, BITS] = 0
        self.cells[cells, POSITION] = -1
        np.subtract.at(self._used, cells // PAGE, 1)
        self._n_used -= len(cells)
        self._tails[sequence] = int(cells[0])
        while self.n_kv and not self.cells[self.n_kv - 1, BITS]:
            self.n_kv -= 1

    def share(self, sequence: int, source: int, end: int) -> None:
        """Let an empty sequence see the source's tokens before position `end` as its own: the same
        cells, of which none is written. `remove` undoes it.
        """
        shared = self._of(source) & (self.cells[:, POSITION] < end)
        self.cells[shared, BITS] |= 1 << sequence

    @property
    def n_free(self) -> int:
        """Cells that no sequence holds."""
        return self.n_cells - self._n_used

    def cells_of(self, sequence: int, begin: int, end: int) -> Ints:
        """The cells of a sequence's positions from `begin` up to `end` that are still here, in
        order.
        """
        position = self.cells[:, POSITION]
        mine = np.flatnonzero(self._of(sequence) & (position >= begin) & (position < end))
        return mine[np.argsort(position[mine], kind="stable")].astype(np.int32)

    def resumable(self, sequence: int, n: int) -> int:
        """The last position up to `n` where a sequence's next token may stand: all that it sees is
        still here. What lies from there on is removed first by the caller.
        """
        positions = np.arange(n + 1, dtype=np.int32)
        held = np.zeros(n + 1, np.bool_)
        mine = self.cells[self._of(sequence), POSITION]
        held[mine[mine <= n]] = True
        missing = np.concatenate([[0], np.cumsum(~held)])  # of the positions before each
        good = missing[positions] == missing[self._first(positions)]
        return int(positions[good][-1])

    def clear(self) -> None:
        """Forget everything."""
        self.cells[:, BITS] = 0
        self.cells[:, POSITION] = -1
        self.n_kv = self._n_used = 0
        self._used[:] = 0
        self._tails.clear()

    def _free_cells(self, sequence: int, n: int) -> Cells:
        """The cells that a sequence takes next, of which there are enough: what is left of its
        page, then whole pages, then any, of its own pages first.
        """
        tail = self._tail(sequence)
        page = self.cells[tail : -(-tail // PAGE) * PAGE, BITS]
        if n <= len(page) and not np.count_nonzero(page[:n]):
            return range(tail, tail + n)
        n_rest = len(page) if not page.any() else int((page != 0).argmax())
        pages = np.flatnonzero(self._used == 0)[: -(-(n - n_rest) // PAGE)].astype(np.int32)
        whole = (pages[:, None] * PAGE + np.arange(PAGE, dtype=np.int32)).reshape(-1)
        rest = np.arange(tail, tail + n_rest, dtype=np.int32)
        chosen: Ints = np.concatenate([rest, whole[whole < self.n_cells]])[:n]
        if len(chosen) < n:
            is_free = self.cells[:, BITS] == 0
            is_free[chosen] = False
            others = np.flatnonzero(is_free)
            own = np.bincount(np.flatnonzero(self._of(sequence)) // PAGE, minlength=len(self._used))
            order = np.argsort(own[others // PAGE] == 0, kind="stable")
            more = others[order][: n - len(chosen)].astype(np.int32)
            chosen = np.concatenate([chosen, more])
        return chosen

    def _tail(self, sequence: int) -> int:
        """The cell behind the sequence's last, which may be its next; 0 where there is none."""
        if sequence not in self._tails:
            mine = np.flatnonzero(self.cells[:, BITS] == 1 << sequence)
            last = mine[self.cells[mine, POSITION].argmax()] if mine.size else -1
            self._tails[sequence] = int(last) + 1
        return self._tails[sequence]

    def _release(self, cells: NDArray[np.bool_], sequence: int) -> None:
        """Clear the sequence's bit in these cells; a cell without any bit is free."""
        self.cells[cells, BITS] &= ~(1 << sequence)
        self.cells[self.cells[:, BITS] == 0, POSITION] = -1
        used = np.flatnonzero(self.cells[:, BITS])
        self._n_used = used.size
        self._used = np.bincount(used // PAGE, minlength=len(self._used)).astype(np.int32)
        self._tails.pop(sequence, None)
        self.n_kv = int(used[-1]) + 1 if used.size else 0

    def _of(self, sequence: int) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = (self.cells[:, BITS] & (1 << sequence)) != 0
        return held

    def _slide(self, firsts: Mapping[int, int]) -> None:
        """Free the cells that no sequence will see again: these continue at their `firsts`, any
        other behind its last position.
        """
        for sequence in range(MAX_SEQUENCES):
            mine = self._of(sequence)
            if mine.any():
                position = self.cells[:, POSITION]
                following = firsts.get(sequence, int(position[mine].max()) + 1)
                seen = self.first_seen(following)
                self._release(mine & (position < seen), sequence)

    def _first(self, positions: Ints) -> Ints:
        """The first position that a token at each of `positions` sees."""
        first = np.zeros_like(positions)
        if self.window is not None:
            first = np.maximum(first, positions - self.window + 1)
        return first if self.chunk is None else positions - positions % self.chunk

    def first_seen(self, position: int) -> int:
        """The first position that a token at `position` sees."""
        return int(self._first(np.array([position], np.int32))[0])

    def _spans(self, positions: Ints, owners: Ints, ends: Ints | None) -> Ints:
        spans = np.zeros((len(positions), 4), np.int32)
        spans[:, 0] = 1 << owners
        if self.window is not None or self.chunk is not None:
            spans[:, 1] = self._first(positions)
        spans[:, 2] = ends if ends is not None and self.ahead else positions
        spans[:, 3] = positions
        return spans


def owners_of(sequences: Ints | int, n: int) -> Ints:
    """Each token's sequence [n], where one may be all tokens'."""
    return np.full(n, sequences, np.int32) if isinstance(sequences, int) else sequences


def parts_of(owners: Ints) -> Iterator[tuple[int, int, int]]:
    """(sequence, begin, end) of each run of one sequence."""
    if len(owners) == 1:  # a token of an answer alone: the usual case, and quick
        yield int(owners[0]), 0, 1
        return
    cuts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
    for begin, end in zip(cuts, [*cuts[1:], len(owners)], strict=True):
        yield int(owners[begin]), begin, end
