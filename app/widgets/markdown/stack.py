"""Blocks below each other, of which only those near the viewport are kept laid out."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from time import perf_counter

from app.widgets.markdown.laid import BlockRun, Laid
from app.widgets.markdown.parse import TextBlock

AT_ONCE = 50  # blocks, or about as many letters, that are measured whatever that takes
LETTERS_AT_ONCE = 4000
CELL_LETTERS = 25  # that take as long to lay out as an empty cell of a table
FORMULA_LETTERS = 100  # likewise as a formula
CODE = 3  # letters that take as long as one of code, which has its colours
RUN = 256  # blocks that move together where one above has another height
KEPT = 300  # documents that stay
NEAR = 2000  # pixels


class Stack:
    """`laid` is one for each block. A height is a guess until somebody looks, or until
    `measure_more` comes to it; places below follow. `codes` are the rows where code begins.
    """

    def __init__(self) -> None:
        self.laid: list[Laid] = []
        self.codes: list[int] = []
        self._runs: list[BlockRun] = []
        self.width = 0
        self._guessed = 0  # before this one all are measured
        self._recent: OrderedDict[Laid, None] = OrderedDict()

    @property
    def height(self) -> int:
        return self.laid[-1].bottom if self.laid else 0

    @property
    def complete(self) -> bool:
        """True if all heights are exact."""
        while self._guessed < len(self.laid) and self.laid[self._guessed].exact:
            self._guessed += 1
        return self._guessed == len(self.laid)

    def put(self, first: int, blocks: Sequence[TextBlock]) -> None:
        """Replace the blocks from index `first` on."""
        for gone in self.laid[first:]:
            self._recent.pop(gone, None)
        del self.laid[first:]
        self._guessed = min(self._guessed, first)
        del self.codes[bisect_left(self.codes, first) :]
        above = self.laid[-1] if self.laid else None
        for row, block in enumerate(blocks, first):
            if row // RUN == len(self._runs):
                self._runs.append(BlockRun())
            above = Laid(block, above, self.width, self._runs[row // RUN])
            self.laid.append(above)
            if block.kind == "code" and block.joint is None:
                self.codes.append(row)
        del self._runs[-(-len(self.laid) // RUN) :]
        self._stack(first, len(self.laid))

    def taken(self) -> list[Laid]:
        """Become empty, and return what was laid out."""
        laid, self.laid = self.laid, []
        self._recent.clear()
        return laid

    def renew(self, rows: Iterable[int]) -> None:
        """Lay these out again, as they look now."""
        again = sorted(rows)
        for row in again:
            laid = self.laid[row]
            laid.release()
            laid.exact = False
        self._guessed = min([self._guessed, *again])

    def extend(self, row: int, block: TextBlock) -> bool:
        """Extend a block by what its text has grown by; False where it must be laid out anew."""
        grown = self.laid[row].extend(block)
        if grown:
            self._stack(row, row + 1)
        return grown

    def set_width(self, width: int) -> None:
        """Lay all out for another width."""
        self.width, self._guessed = width, 0
        for laid in self.laid:
            laid.lay(width)
        self._stack(0, len(self.laid))

    def release(self) -> None:
        """Forget all documents; heights stay."""
        for laid in self.laid:
            laid.release()
        self._recent.clear()

    def measure(self, rows: Iterable[int]) -> bool:
        """Make the heights of some exact, and keep their documents; whether places have changed."""
        moved: list[int] = []
        for row in rows:
            laid = self.laid[row]
            if laid.measure():
                moved.append(row)
            self._recent[laid] = None
            self._recent.move_to_end(laid)
        while len(self._recent) > KEPT:
            self._recent.popitem(last=False)[0].release()
        if moved:
            self._stack(min(moved), max(moved) + 1)
        return bool(moved)

    def measure_more(self, seconds: float, least: int = AT_ONCE) -> int:
        """Measure the next ones for a while, and at least so many; the y from which on something
        has moved.
        """
        rows: list[int] = []
        began = perf_counter()
        left, moved = LETTERS_AT_ONCE, self.height
        while not self.complete and (
            (len(rows) < least and left > 0) or perf_counter() - began < seconds
        ):
            row = self._guessed
            rows.append(row)
            laid = self.laid[row]
            if laid.measure() or laid.block.kind == "code":  # gives the pieces below their colours
                moved = min(moved, laid.top)
            left -= laid.length * (CODE if laid.block.kind == "code" else 1)
            left -= CELL_LETTERS * sum(map(len, laid.block.rows))
            left -= FORMULA_LETTERS * len(laid.formulas)
            if len(rows) > KEPT:
                self.laid[rows[-KEPT]].release()
        if rows:
            self.measure(rows[-KEPT:])
            self._stack(rows[0], rows[-1] + 1)
        return moved

    def row_at(self, y: float) -> int:
        """The index of the block at y, or of the nearest one; there must be one."""
        return min(bisect_right(self.laid, y, key=_bottom), len(self.laid) - 1)

    def rows_in(self, top: float, bottom: float) -> range:
        """The blocks that are between two y, at least in part."""
        return range(
            bisect_left(self.laid, top, key=_bottom), bisect_right(self.laid, bottom, key=_top)
        )

    def code_rows(self, first: int) -> range:
        """The blocks of the code that begins at `first`."""
        last = first
        while self.laid[last].block.more and last + 1 < len(self.laid):
            last += 1
        return range(first, last + 1)

    def code_of(self, row: int) -> int:
        """The first block of the code that has this one."""
        return self.codes[max(bisect_right(self.codes, row) - 1, 0)] if self.codes else row

    def _stack(self, first: int, last: int) -> None:
        """Move the blocks from `first` to before `last`, whose heights changed, and those below."""
        begins = first // RUN
        for row in range(begins * RUN, min(-(-last // RUN) * RUN, len(self.laid))):
            laid, above = self.laid[row], self.laid[row - 1]
            laid.below = laid.gap + (above.below + above.height if row % RUN else 0)
        for at in range(max(begins, 1), len(self._runs)):
            ended = self.laid[at * RUN - 1]
            self._runs[at].top = ended.bottom


def _top(laid: Laid) -> int:
    return laid.top


def _bottom(laid: Laid) -> int:
    return laid.bottom
