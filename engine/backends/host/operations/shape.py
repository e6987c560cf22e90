"""Concatenate, slice and pad tensors; bytes are copied as they are stored."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.ops.shape import Arange, Concat
from engine.graph.tensor import Tensor


def pad(node: Tensor, out: Operand, x: Operand) -> None:
    """x, then zeros at the end of each dimension. Blocks of zero bytes are zeros, too."""
    out.raw[...] = 0
    out.raw[tuple(map(slice, x.raw.shape))] = x.raw


def concat(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """a, then b."""
    np.concatenate([a.raw, b.raw], axis=3 - Concat.of(node).dim, out=out.raw)


def repeat(node: Tensor, out: Operand, x: Operand) -> None:
    """x tiled to the result's shape."""
    out.raw[...] = np.tile(x.raw, np.floor_divide(out.raw.shape, x.raw.shape))


def arange(node: Tensor, out: Operand) -> None:
    """start + step * i."""
    numbers = Arange.of(node)
    out.store(numbers.start + numbers.step * np.arange(node.shape[0], dtype=np.float64))
