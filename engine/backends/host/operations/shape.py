"""Concatenate, slice and pad tensors, copying bytes as they are stored; patches of a convolution,
pooling and scaling of planes. Axes are reversed: the width is last.
"""

from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from engine.backends.host.operand import Operand
from engine.graph.arrays import raw_array
from engine.graph.ops.image import AvgPool2d, Im2col, Interpolate
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
    op = Set.of(node)
    window = replace(op.values, strides=op.strides)
    packed = out.raw.reshape(-1).view(np.uint8)  # no copy: x is packed, and so is the result
    raw_array(packed[op.offset :], window)[...] = values.raw


def rows(node: Tensor, out: Operand, x: Operand, ids: Operand) -> None:
    """out[:, i, j, k] = x[:, ids[i, j, k], j, k]; zeros where an id is negative."""
    wanted = ids.load((0,))  # [n3, n2, n]
    k, j, i = np.nonzero(wanted >= 0)
    out.raw[...] = 0
    out.raw[k, j, i] = x.load((k, j, wanted[k, j, i]))


def set_rows(node: Tensor, out: Operand, target: Operand, values: Operand, ids: Operand) -> None:
    """target[:, ids[i, j, k], j, k] = values[:, i, j, k], in place; ids are repeated over j, k."""
    shape = values.raw.shape
    chosen = ids.load((0,))  # [i3, i2, n]
    wanted = np.tile(chosen, (*np.floor_divide(shape[:2], chosen.shape[:2]), 1))
    k, j, i = np.nonzero(wanted >= 0)
    out.store(values.load((k, j, i)), (k, j, wanted[k, j, i]))


def im2col(node: Tensor, out: Operand, image: Operand) -> None:
    """Every window's elements, zeros outside of the image."""
    op = Im2col.of(node)
    (kw, kh, kd), (sw, sh, sd) = op.kernel, op.stride
    (pw, ph, pd), (dw, dh, dd) = op.pad, op.dilation
    height, width = image.raw.shape[2:]
    x = image.load().reshape(-1, op.channels, op.depth, height, width)
    x = np.pad(x, ((0, 0), (0, 0), (pd, pd), (ph, ph), (pw, pw)))
    spans = (dd * (kd - 1) + 1, dh * (kh - 1) + 1, dw * (kw - 1) + 1)
    windows = sliding_window_view(x, spans, axis=(2, 3, 4))
    windows = windows[:, :, ::sd, ::sh, ::sw, ::dd, ::dh, ::dw]  # [N, IC, OD, OH, OW, KD, KH, KW]
    out.store(windows.transpose(0, 2, 3, 4, 1, 5, 6, 7).reshape(out.raw.shape))


def avg_pool_2d(node: Tensor, out: Operand, x: Operand) -> None:
    """The sum of each window divided by all of its area."""
    op = AvgPool2d.of(node)
    kernel, stride, pad = op.kernel, op.stride, op.pad
    padded = np.pad(x.load(), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    out.store(windows.mean(axis=(-2, -1), dtype=np.float64))


def interpolate(node: Tensor, out: Operand, x: Operand) -> None:
    """The nearest element; or in the last two axes a blend of two, between half-pixel centres."""
    values, mode = x.load(), Interpolate.of(node).mode
    for axis, size in enumerate(out.raw.shape):
        before = values.shape[axis]
        if axis < 2 or mode == "nearest":
            values = values.take(np.arange(size) * before // size, axis)
            continue
        place = (np.arange(size) + 0.5) * before / size - 0.5
        low = np.floor(place).astype(int)
        first, second = (values.take(i.clip(0, before - 1), axis) for i in (low, low + 1))
        part = (place - low).reshape(-1, *(1,) * (3 - axis))
        values = first + (second - first) * part
    out.store(values)
