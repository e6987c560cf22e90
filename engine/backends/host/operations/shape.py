"""Concatenate, slice and pad tensors; bytes are copied as they are stored."""

from dataclasses import replace

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.arrays import raw_array
from engine.graph.ops.shape import Arange, Concat, Set
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


def copy(node: Tensor, out: Operand, x: Operand) -> None:
    """The same elements, packed, in the type of the result."""
    if out.fmt == x.fmt:
        out.raw[...] = x.raw
    else:
        out.store(x.load())


def copy_into(node: Tensor, out: Operand, target: Operand, x: Operand) -> None:
    """The elements of x in linear order, into the places and the type of the target."""
    if out.fmt == x.fmt:
        out.raw[...] = x.raw.reshape(out.raw.shape)
    else:
        out.store(x.load().reshape(node.shape[::-1]))


def set_(node: Tensor, out: Operand, x: Operand, values: Operand) -> None:
    """A copy of x, then the values in a window of it."""
    out.raw[...] = x.raw
    given = Set.of(node)
    window = replace(given.values, strides=given.strides)
    packed = out.raw.reshape(-1).view(np.uint8)  # no copy: x is packed, and so is the result
    raw_array(packed[given.offset :], window)[...] = values.raw


def rows(node: Tensor, out: Operand, x: Operand, ids: Operand) -> None:
    """out[:, i, j, k] = x[:, ids[i, j, k], j, k]; zeros where an id is negative."""
    wanted = ids.load((0,))  # [n3, n2, n]
    k, j, i = np.nonzero(wanted >= 0)
    out.raw[...] = 0
    out.raw[k, j, i] = x.load((k, j, wanted[k, j, i]))


def set_rows(node: Tensor, out: Operand, target: Operand, values: Operand, ids: Operand) -> None:
    """target[:, ids[i, j, k], j, k] = values[:, i, j, k], in place; ids are repeated over j, k."""
    shape = values.raw.shape
    given = ids.load((0,))  # [i3, i2, n]
    wanted = np.tile(given, (*np.floor_divide(shape[:2], given.shape[:2]), 1))
    k, j, i = np.nonzero(wanted >= 0)
    out.store(values.load((k, j, i)), (k, j, wanted[k, j, i]))
