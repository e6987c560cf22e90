"""Packed copies and conversions."""

from dataclasses import replace

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.arrays import raw_array
from engine.graph.ops.shape import Set
from engine.graph.tensor import Tensor


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
