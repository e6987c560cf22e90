"""What a heat map shows: a grid of numbers that is read piece by piece."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from app.language import tr
from app.widgets.plots.colours import Floats

MOST_READ = 1 << 22  # numbers that are read to show the largest of each block


def number_text(value: float) -> str:
    """Four figures, as short as they can be written."""
    return f"{value:.4g}"


@dataclass(frozen=True)
class CellGrid:
    """`read(rows, columns)` gives the floats [len(rows), len(columns)] of two ranges with steps.

    Where it takes longer than a frame `slow` says so, and it is called in a thread. Names are for
    axes and tips.
    """

    shape: tuple[int, int]
    read: Callable[[range, range], Floats]
    row_title: str = tr("row")
    column_title: str = tr("column")
    row_name: Callable[[int], str] = str
    column_name: Callable[[int], str] = str
    text: Callable[[float], str] = number_text
    slow: bool = False

    def describe(self, row: int, column: int, value: float) -> str:
        """A cell in words."""
        return (
            f"{self.row_title} {self.row_name(row)}, "
            f"{self.column_title} {self.column_name(column)}: {self.text(value)}"
        )


def grid_of(array: ArrayLike, **names: object) -> CellGrid:
    """Those of an array [rows, columns]; `names` are further fields of CellGrid."""
    values = np.asarray(array, dtype=np.float32)
    if values.ndim != 2:
        raise ValueError(f"a heat map shows an array of two dimensions, not of {values.ndim}")

    def read(rows: range, columns: range) -> Floats:
        return values[
            rows.start : rows.stop : rows.step, columns.start : columns.stop : columns.step
        ]

    return CellGrid((values.shape[0], values.shape[1]), read, **names)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Seen:
    """A piece of the grid as it is drawn: each value stands for `steps` rows and columns."""

    rows: range
    columns: range
    values: Floats
    largest: bool  # of the cells it stands for; else the first of them

    @property
    def steps(self) -> tuple[int, int]:
        return self.rows.step, self.columns.step

    @property
    def sampled(self) -> str:
        """What a drawn cell stands for, where that is not one number."""
        down, across = self.steps
        if (down, across) == (1, 1):
            return ""
        kind = tr("the largest of") if self.largest else tr("one of")
        return tr(
            "each point is {kind} {down} × {across} numbers", kind=kind, down=down, across=across
        )


def seen_piece(cells: CellGrid, rows: range, columns: range, most: tuple[int, int]) -> Seen:
    """At most about `most` values for two ranges. Few enough numbers are all read, and the one of
    the largest magnitude of each block kept; of more, one in each block is read.
    """
    down, across = (max(1, ceil(len(r) / m)) for r, m in zip((rows, columns), most, strict=True))
    low_row, low_column = rows.start - rows.start % down, columns.start - columns.start % across
    by_row = range(low_row, min(rows.stop, cells.shape[0]), down)
    by_column = range(low_column, min(columns.stop, cells.shape[1]), across)
    if (down, across) == (1, 1) or len(rows) * len(columns) > MOST_READ:
        return Seen(by_row, by_column, cells.read(by_row, by_column), False)
    whole = cells.read(range(low_row, by_row.stop), range(low_column, by_column.stop))
    return Seen(by_row, by_column, _largest(whole, down, across), True)


def _largest(values: Floats, down: int, across: int) -> Floats:
    """Of each block the number farthest from zero; NaN where there is one."""
    pad = (-values.shape[0] % down, -values.shape[1] % across)
    padded = np.pad(values, ((0, pad[0]), (0, pad[1])), mode="edge")
    shape = (padded.shape[0] // down, down, padded.shape[1] // across, across)
    blocks = padded.reshape(shape)
    high, low = blocks.max(axis=(1, 3)), blocks.min(axis=(1, 3))
    largest: Floats = np.where(np.abs(high) >= np.abs(low), high, low)
    return np.where(np.isnan(high), high, largest)
