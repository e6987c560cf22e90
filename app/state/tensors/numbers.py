"""A tensor as rows of numbers, read a piece at a time; the two dimensions that are shown, and the
indices in the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from app.engine import WeightReader
from app.language import tr
from engine.gguf.formats import Format

Floats = NDArray[np.float32]
Read = Callable[[range, range], Floats]


@dataclass(frozen=True)
class Numbers:
    """`dims` are ggml's, the fastest first; `read` gives the floats of rows and columns of all
    planes, one behind the other, from any thread. Of what is stored in a file `fmt` is the type,
    and `blocks` reads the bytes of rows.
    """

    name: str
    dims: tuple[int, ...]
    type: str
    read: Read
    fmt: Format | None = None
    blocks: Callable[[range], NDArray[np.uint8]] | None = None
    where: str = ""

    @property
    def columns(self) -> int:
        return self.dims[0]

    @property
    def rows(self) -> int:
        """The number of rows over all planes."""
        return prod(self.dims[1:])

    @property
    def size(self) -> int:
        return prod(self.dims)


def weight(file: WeightReader, name: str) -> Numbers:
    """A tensor of a model's file."""
    info = file.tensors[name]
    return Numbers(
        name,
        info.shape[: max(info.n_dims, 1)],
        info.fmt.name,
        partial(file.numbers, name),
        info.fmt,
        partial(file.blocks, name),
    )


def computed(name: str, values: Floats, type: str, where: str) -> Numbers:
    """Numbers at hand, in NumPy's order of dimensions."""
    rows = values.reshape(-1, values.shape[-1])

    def read(down: range, across: range) -> Floats:
        return rows[down.start : down.stop : down.step, across.start : across.stop : across.step]

    return Numbers(name, tuple(values.shape[::-1]), type, read, where=where)


def pieces(numbers: Numbers, size: int) -> Sequence[range]:
    """All rows, in runs of about `size` numbers."""
    step = max(1, size // numbers.columns)
    return [range(i, min(i + step, numbers.rows)) for i in range(0, numbers.rows, step)]


@dataclass(frozen=True)
class ShownAxes:
    """`columns` and `rows` are two dimensions, counted from the fastest; `at` has a place for each
    dimension, of which those of these two do not matter.
    """

    columns: int = 0
    rows: int = 1
    at: tuple[int, ...] = ()

    def others(self, n_dims: int) -> list[int]:
        """The dimensions that are not shown."""
        return [dim for dim in range(n_dims) if dim not in (self.columns, self.rows)]

    def with_columns(self, dim: int) -> "ShownAxes":
        """That dimension across; where it was down, the other one is."""
        rows = self.columns if dim == self.rows else self.rows
        return ShownAxes(dim, rows, self.at)

    def with_rows(self, dim: int) -> "ShownAxes":
        """That dimension down; where it was across, the other one is."""
        columns = self.rows if dim == self.columns else self.columns
        return ShownAxes(columns, dim, self.at)

    def with_place(self, dim: int, place: int) -> "ShownAxes":
        """Another place of a dimension that is not shown."""
        at = list(self.at)
        at[dim] = place
        return ShownAxes(self.columns, self.rows, tuple(at))


def usual_axes(dims: tuple[int, ...], row: int = 0) -> ShownAxes:
    """Dimension 0 across and 1 down, where that row of the whole tensor is."""
    places = [0]
    for size in dims[1:]:
        places.append(row % size)
        row //= size
    return ShownAxes(at=tuple(places))


def sliced(numbers: Numbers, axes: ShownAxes) -> Numbers:
    """The two dimensions of `axes`, at its places of the others. A tensor of one dimension is a
    row. Reads no more of the tensor than what it has to give.
    """
    dims = (*numbers.dims, 1)
    strides = [prod(dims[1:dim]) for dim in range(len(dims))]  # in rows of the whole tensor
    shown = (axes.columns, axes.rows)
    base = sum(axes.at[d] * strides[d] for d in axes.others(len(numbers.dims)) if d)

    def along(dim: int, places: range, first: int = base) -> range:
        stride = strides[dim]
        return range(
            first + places.start * stride, first + places.stop * stride, places.step * stride
        )

    def read(rows: range, columns: range) -> Floats:
        if axes.columns == 0:
            return numbers.read(along(axes.rows, rows), columns)
        if axes.rows == 0:
            return numbers.read(along(axes.columns, columns), rows).T
        one = range(axes.at[0], axes.at[0] + 1)
        firsts = along(axes.rows, rows)
        found = [numbers.read(along(axes.columns, columns, n), one)[:, 0] for n in firsts]
        return np.stack(found) if found else np.zeros((0, len(columns)), np.float32)

    places = [
        tr("dimension {d} at {at}", d=d, at=axes.at[d]) for d in axes.others(len(numbers.dims))
    ]
    where = ", ".join([*filter(None, [numbers.where]), *places])
    return Numbers(numbers.name, (dims[shown[0]], dims[shown[1]]), numbers.type, read, where=where)
