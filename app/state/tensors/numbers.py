"""A tensor as rows of numbers, read a piece at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from app.engine import WeightReader
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
