"""Statistics over all numbers of a tensor, computed in pieces."""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.state.tensors.numbers import Floats, Numbers, pieces
from engine.gguf.dequantize import dequantize

PIECE = 1 << 19  # numbers at once: the memory this takes, and how soon it stops
BINS = 120
OUTLIERS = 12

OnProgress = Callable[[int, int], bool]
"""Takes how much is done of how much; returns whether to go on."""


class Outlier(NamedTuple):
    """A number far from zero, and its row and column."""

    value: float
    row: int
    column: int


@dataclass
class Statistics:
    """Statistics of the finite numbers, and counts of the others. `deviation` is that of all (not
    of a sample); `norms` are the rows' Euclidean norms, `counts` [BINS] lie between `edges`.
    """

    size: int = 0
    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0
    absolute: float = 0.0
    squares: float = 0.0
    zeros: int = 0
    nan: int = 0
    inf: int = 0
    outliers: list[Outlier] = field(default_factory=list)
    norms: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))

    @property
    def finite(self) -> int:
        return self.size - self.nan - self.inf

    @property
    def mean(self) -> float:
        return self.total / self.finite if self.finite else np.nan

    @property
    def rms(self) -> float:
        return float(np.sqrt(self.squares / self.finite)) if self.finite else np.nan

    @property
    def deviation(self) -> float:
        if not self.finite:
            return np.nan
        return float(np.sqrt(max(0.0, self.squares / self.finite - self.mean**2)))

    @property
    def norm(self) -> float:
        """Euclidean, of all."""
        return float(np.sqrt(self.squares))


def measured(
    numbers: Numbers, on_progress: OnProgress = lambda done, total: True
) -> Statistics | None:
    """Two passes: sums and extremes, then how the numbers are spread. None where it was stopped."""
    found = Statistics(size=numbers.size, norms=np.zeros(numbers.rows, np.float32))
    runs, columns = pieces(numbers, PIECE), range(numbers.columns)
    for i, rows in enumerate(runs):
        _add(found, rows, numbers.read(rows, columns))
        if not on_progress(i + 1, 2 * len(runs)):
            return None
    if found.finite:
        span = (found.low, found.high) if found.high > found.low else (found.low, found.low + 1)
        found.counts, found.edges = np.zeros(BINS, np.int64), np.linspace(*span, BINS + 1)
    for i, rows in enumerate(runs):
        values = numbers.read(rows, columns)
        if found.finite:
            finite = values[np.isfinite(values)]
            found.counts += np.histogram(finite, BINS, (found.edges[0], found.edges[-1]))[0]
        if not on_progress(len(runs) + i + 1, 2 * len(runs)):
            return None
    return found


def _add(found: Statistics, rows: range, values: Floats) -> None:
    """One piece more."""
    wide = values.astype(np.float64)
    bad = ~np.isfinite(wide)
    if bad.any():
        found.nan += int(np.isnan(wide).sum())
        found.inf += int(np.isinf(wide).sum())
        wide[bad] = 0.0
    squares = np.einsum("ij,ij->i", wide, wide)
    found.norms[rows.start : rows.stop] = np.sqrt(squares)
    found.squares += float(squares.sum())
    found.total += float(wide.sum())
    sizes = np.abs(wide)
    found.absolute += float(sizes.sum())
    found.zeros += int((values == 0).sum())
    kept = wide if not bad.any() else wide[~bad]
    if kept.size:
        found.low, found.high = min(found.low, kept.min()), max(found.high, kept.max())
    _add_outliers(found, rows, wide, sizes, bad)


def _add_outliers(
    found: Statistics,
    rows: range,
    wide: NDArray[np.float64],
    sizes: NDArray[np.float64],
    bad: NDArray[np.bool_],
) -> None:
    full = len(found.outliers) == OUTLIERS
    least = abs(found.outliers[-1].value) if full else -1.0
    farther = np.flatnonzero(sizes > least)
    if farther.size > OUTLIERS:
        best = np.argpartition(sizes.reshape(-1)[farther], -OUTLIERS)[-OUTLIERS:]
        farther = farther[best]
    for at in farther:
        row, column = divmod(int(at), wide.shape[1])
        if not bad[row, column]:
            found.outliers.append(Outlier(float(wide[row, column]), rows.start + row, column))
    found.outliers.sort(key=lambda o: (-abs(o.value), o.row, o.column))
    del found.outliers[OUTLIERS:]


@dataclass(frozen=True)
class StoredBlock:
    """A block of a row: its elements from `first` on, the half floats among its fields in order
    (scales, minima), the least and largest number it stands for, and all its bytes.
    """

    row: int
    first: int
    scales: tuple[float, ...]
    low: float
    high: float
    bytes: str


def stored_blocks(numbers: Numbers, row: int) -> list[StoredBlock]:
    """All blocks of a row. There are some only where the type has blocks."""
    fmt, read = numbers.fmt, numbers.blocks
    if fmt is None or read is None or not fmt.quantized:
        return []
    blocks = read(range(row, row + 1)).reshape(-1, fmt.bytes)
    values = dequantize(blocks, fmt)
    halves = _halves(fmt.fields)
    return [
        StoredBlock(
            row,
            i * fmt.block,
            tuple(float(block[at : at + 2].view("<f2")[0]) for at in halves),
            float(values[i].min()),
            float(values[i].max()),
            block.tobytes().hex(" "),
        )
        for i, block in enumerate(blocks)
    ]


def _halves(fields: str) -> list[int]:
    """Where in a block half floats begin."""
    found: list[int] = []
    at = 0
    for count, code in re.findall(r"(\d*)(\w)", fields):
        n = int(count or 1)
        width = struct.calcsize("=" + code)
        if code == "e":
            found += range(at, at + n * width, width)
        at += n * width
    return found


@dataclass(frozen=True)
class Loss:
    """The error of a tensor against the same tensor in another file: `worst` is the largest
    difference, at `row` and `column`; `nmse` the squared differences over the other's squares.
    """

    type: str
    rmse: float
    nmse: float
    worst: float
    row: int
    column: int


def loss(
    numbers: Numbers, exact: Numbers, on_progress: OnProgress = lambda done, total: True
) -> Loss | None:
    """How far the numbers are from the exact ones, which have the same shape. None where it was
    stopped.
    """
    squares = scale = worst = 0.0
    place = (0, 0)
    runs, columns = pieces(numbers, PIECE), range(numbers.columns)
    for i, rows in enumerate(runs):
        other = exact.read(rows, columns).astype(np.float64)
        difference = np.abs(numbers.read(rows, columns) - other)
        squares += float((difference**2).sum())
        scale += float((other**2).sum())
        at = int(difference.argmax())
        if difference.reshape(-1)[at] > worst:
            worst = float(difference.reshape(-1)[at])
            row, column = divmod(at, len(columns))
            place = (rows.start + row, column)
        if not on_progress(i + 1, len(runs)):
            return None
    rmse = float(np.sqrt(squares / max(1, numbers.size)))
    nmse = squares / scale if scale else float(squares > 0)
    return Loss(exact.type, rmse, nmse, worst, *place)
