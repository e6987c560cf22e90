"""Row tiles made by kernels are, bit by bit, those that NumPy makes."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from engine.backends.base import Bytes, Component, Location, Owner, Upload
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.tiles import layouts
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.gguf.formats import Format
from engine.graph.tensor import Shape

FORMATS = list(SCHEMES)
GUARD = 256
POISON = 0xA5


def random_bytes(fmt: Format, shape: Shape) -> Bytes:
    """Blocks of anything: what packs them moves bits and looks at none."""
    rows = shape[1] * shape[2]
    return np.random.default_rng(1).integers(0, 256, (rows, fmt.row_bytes(shape[0])), np.uint8)


def expected(fmt: Format, shape: Shape, blocks: Bytes) -> Bytes:
    """The tiles that NumPy makes."""
    return np.concatenate([piece for _, piece in layouts.pieces(fmt, shape, blocks)])


@contextmanager
def poisoned(backend: OpenCLBackend, fmt: Format, shape: Shape) -> Iterator[Location]:
    """Room for a weight's tiles between guards, no byte of it zero."""
    kind = backend.buffer_type(fmt, shape, matmul_only=True)
    size = layouts.nbytes(kind.layout, fmt, shape)
    buffer = backend.allocate(kind, size + 2 * GUARD, Owner(Component.WEIGHTS), zeros=False)
    buffer.write(0, np.full(size + 2 * GUARD, POISON, np.uint8))
    yield Location(buffer, GUARD)
    buffer.free()


def check(at: Location, tiles: Bytes) -> None:
    whole = at.buffer.read(0, tiles.size + 2 * GUARD)
    np.testing.assert_array_equal(whole[GUARD:-GUARD], tiles)
    assert (whole[:GUARD] == POISON).all()
    assert (whole[-GUARD:] == POISON).all()


def wide(fmt: Format, rows: int, matrices: int = 1) -> Shape:
    """Of some records, more than an item packs where they are small."""
    return (max(fmt.block, 32) * 3, rows, matrices, 1)


def test_tiles_are_those_of_numpy(either: OpenCLBackend) -> None:
    """All formats in one upload: whole tiles, a tail, several matrices."""
    for fmt in FORMATS:
        for shape in (wide(fmt, 33), wide(fmt, 40, 2)):
            blocks = random_bytes(fmt, shape)
            with poisoned(either, fmt, shape) as at:
                sizes = list(either.upload([Upload(at, fmt, shape, blocks)]))
                assert sum(sizes) == blocks.size, fmt
                check(at, expected(fmt, shape, blocks))
