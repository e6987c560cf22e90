"""Convolution's patches, pooling and scaling of planes; axes are reversed, the width is last."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from engine.backends.host.operand import Operand
from engine.graph.ops.image import AvgPool2d, Im2col, Interpolate
from engine.graph.tensor import Tensor


def im2col(node: Tensor, out: Operand, image: Operand) -> None:
    """Every window's elements, zeros outside of the image."""
    given = Im2col.of(node)
    (kw, kh, kd), (sw, sh, sd) = given.kernel, given.stride
    (pw, ph, pd), (dw, dh, dd) = given.pad, given.dilation
    height, width = image.raw.shape[2:]
    x = image.load().reshape(-1, given.channels, given.depth, height, width)
    x = np.pad(x, ((0, 0), (0, 0), (pd, pd), (ph, ph), (pw, pw)))
    spans = (dd * (kd - 1) + 1, dh * (kh - 1) + 1, dw * (kw - 1) + 1)
    windows = sliding_window_view(x, spans, axis=(2, 3, 4))
    windows = windows[:, :, ::sd, ::sh, ::sw, ::dd, ::dh, ::dw]  # [N, IC, OD, OH, OW, KD, KH, KW]
    out.store(windows.transpose(0, 2, 3, 4, 1, 5, 6, 7).reshape(out.raw.shape))


def avg_pool_2d(node: Tensor, out: Operand, x: Operand) -> None:
    """The sum of each window divided by all of its area."""
    given = AvgPool2d.of(node)
    kernel, stride, pad = given.kernel, given.stride, given.pad
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
