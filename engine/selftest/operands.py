"""Random operands: leaves with their values, packed, as views and permuted; random blocks of
quantised formats with sane scales.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.gguf import formats
from engine.gguf.formats import F32, FORMATS, I8, I16, I32, I64, UNREADABLE, Format
from engine.graph.arrays import encode
from engine.graph.tensor import Role, Tensor, leaf
from engine.selftest.guarded import Array

Blocks = NDArray[np.uint8]

QUANTIZED = tuple(f for f in FORMATS.values() if f.quantized and f not in UNREADABLE)

# Where a block's halves lie: its scale if not at its start, and the scale of its minima.
_SCALE_AT = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208, "TQ1_0": 52, "TQ2_0": 64}
_MINIMUM_AT = {"Q4_1": 2, "Q5_1": 2, "Q2_K": 82, "Q4_K": 2, "Q5_K": 2}
# 32-block minima are added and of the size that centres q; those of K-quants are subtracted.
_CENTRE = {"Q4_1": -7.5, "Q5_1": -15.5}


def random_blocks(rng: np.random.Generator, fmt: Format, rows: int, k: int) -> Blocks:
    """Rows of any bits, with scales that are numbers: [rows, row bytes]."""
    blocks = rng.integers(0, 256, (rows, k // fmt.block, fmt.bytes), dtype=np.uint8)
    return with_scales(rng, fmt, blocks)


def with_scales(
    rng: np.random.Generator, fmt: Format, blocks: Blocks, scale: float = 0.01
) -> Blocks:
    """Write scales around `scale` into blocks [rows, blocks, bytes]; gives [rows, row bytes]."""

    def scales(n: int, factor: float = 1.0) -> NDArray[np.float64]:
        return rng.uniform(0.5, 1.5, (*blocks.shape[:-1], n)) * (scale * factor)

    if fmt is formats.MXFP4:
        blocks[..., :1] = np.rint(np.log2(scales(1))) + 128
    elif fmt is formats.NVFP4:  # four bits of exponent (bias 7, halved), three of mantissa
        exponents = np.rint(np.log2(scales(4))) + 8
        blocks[..., :4] = exponents * 8 + rng.integers(0, 8, exponents.shape)
    elif fmt is formats.IQ1_M:  # a quarter of it in the highest bits of every 16
        parts = _halves(scales(1)).view("<u2") >> np.array([0, 4, 8, 12]) & 15
        blocks[..., 49::2] = blocks[..., 49::2] & 15 | parts << 4
    else:
        at = _SCALE_AT.get(fmt.name, 0)
        blocks[..., at : at + 2] = _halves(scales(1))
        if fmt.name in _MINIMUM_AT:
            at = _MINIMUM_AT[fmt.name]
            blocks[..., at : at + 2] = _halves(scales(1, _CENTRE.get(fmt.name, 1.0)))
    return blocks.reshape(len(blocks), -1)


def _halves(numbers: NDArray[np.float64]) -> Blocks:
    return numbers.astype("<f2").view(np.uint8)


INTEGERS = (I8, I16, I32, I64)


class Operands:
    """Leaves made one after the other, with the values that `guarded.run_all` takes."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: dict[Tensor, Array] = {}

    def make(
        self, fmt: Format, *shape: int, role: Role = Role.INPUT, spread: float = 1.0
    ) -> Tensor:
        """Normal numbers, whole ones for integers, any blocks with sane scales."""
        if fmt.quantized:
            rows = prod(shape[1:])
            return self._leaf(fmt, shape, random_blocks(self.rng, fmt, rows, shape[0]), role)
        numbers = self.rng.standard_normal(shape[::-1]) * spread
        if fmt in INTEGERS:
            numbers = np.rint(numbers * (1 if fmt == I8 else 100))
        return self.put(fmt, numbers, role)

    def put(self, fmt: Format, numbers: Array, role: Role = Role.INPUT) -> Tensor:
        """A leaf with these values; `numbers` has the reversed shape."""
        return self._leaf(fmt, numbers.shape[::-1], encode(numbers, fmt), role)

    def ids(self, below: int, *shape: int, fmt: Format = I32, distinct: bool = False) -> Tensor:
        """Whole numbers from 0; one in eight is -1 (padding) unless they are distinct."""
        if distinct:
            rows = [self.rng.permutation(below)[: shape[0]] for _ in range(prod(shape[1:]))]
            return self.put(fmt, np.array(rows).reshape(shape[::-1]))
        numbers = self.rng.integers(0, below, shape[::-1])
        return self.put(fmt, np.where(self.rng.random(numbers.shape) < 0.125, -1, numbers))

    def view(self, fmt: Format, *shape: int) -> Tensor:
        """A window into something larger: rows further apart than they are long, an offset."""
        gap = fmt.block if fmt.quantized else 3
        whole = self.make(fmt, shape[0] + 2 * gap, *_grown(shape[1:]))
        start = fmt.row_bytes(gap) + whole.strides[1]
        return whole.view(start, shape, whole.strides[1 : len(shape)] or ())

    def permuted(self, fmt: Format, order: Sequence[int], *shape: int) -> Tensor:
        """A tensor of `shape` that lies with its axes in another order: `x.permute(*order)`."""
        full = (*shape, 1, 1, 1)[:4]
        return self.make(fmt, *(full[axis] for axis in order)).permute(*order)

    def _leaf(self, fmt: Format, shape: Sequence[int], stored: Array, role: Role) -> Tensor:
        tensor = leaf(f"x{len(self.values)}", fmt, shape, role)
        self.values[tensor] = stored
        return tensor


def visible(
    operands: Operands, n_tokens: int, n_cells: int, n_kv: int, window: int = 0
) -> tuple[Tensor, ...]:
    """spans, cells and n_kv of a causal cache: the tokens stand at the end of what is used.

    With a window, they see so many positions, and every seventh cell belongs to nobody.
    """
    cells = np.zeros((n_cells, 2), np.int32)
    cells[:n_kv] = np.stack([np.ones(n_kv), np.arange(n_kv)], axis=1)
    last = np.arange(n_kv - n_tokens, n_kv)
    first = np.zeros(n_tokens)
    if window:
        cells[::7, 0], first = 0, np.maximum(last - window + 1, 0)
    spans = np.stack([np.ones(n_tokens), first, last, last], axis=1)
    return (
        operands.put(I32, spans),
        operands.put(I32, cells),
        operands.put(I32, np.array([n_kv])),
    )


def paged(operands: Operands, tokens: Sequence[int], depth: int) -> tuple[Tensor, ...]:
    """spans, cells and n_kv of sequences that bring so many tokens at the end of `depth` positions
    each: pages of 64 cells by turns, of which the last are not full.
    """
    n, at = len(tokens), np.arange(depth)
    cells = np.zeros((-(-depth // 64) * 64 * n, 2), np.int32)
    spans = []
    for i, count in enumerate(tokens):
        held = (at // 64 * n + i) * 64 + at % 64
        cells[held] = np.stack([np.full(depth, 1 << i), at], 1)
        last = at[depth - count :]
        spans.append(np.stack([np.full(count, 1 << i), 0 * last, last, last], 1))
    return (
        operands.put(I32, np.concatenate(spans)),
        operands.put(I32, cells),
        operands.put(I32, np.array([len(cells)])),
    )


def turned(operands: Operands, n_rot: int, n_tokens: int) -> Tensor:
    """A table for rope: cosines and sines of any angles."""
    angles = operands.rng.uniform(-3, 3, (n_tokens, n_rot // 2))
    return operands.put(F32, np.hstack([np.cos(angles), np.sin(angles)]))


def _grown(shape: Sequence[int]) -> list[int]:
    return [n + 1 if axis == 0 else n for axis, n in enumerate(shape or (1,))]
