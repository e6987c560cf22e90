"""Convolution, pooling and scaling of planes: dimension 0 is the width, dimension 1 the height."""

from dataclasses import KW_ONLY, dataclass
from math import prod
from typing import Literal

from engine.errors import ShapeError
from engine.gguf.formats import F32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.ops.copy import contiguous
from engine.graph.ops.matmul import matmul
from engine.graph.tensor import Tensor

Pair = tuple[int, int]
Triple = tuple[int, int, int]
Mode = Literal["nearest", "bilinear"]


@dataclass(frozen=True)
class Im2col(Arguments):
    """The windows of an image whose planes are `depth` deep, by channels, by images."""

    image: Tensor
    _: KW_ONLY
    kernel: Triple
    channels: int
    depth: int
    out_depth: int
    stride: Triple
    pad: Triple
    dilation: Triple


@dataclass(frozen=True)
class AvgPool2d(Arguments):
    """The means of kernel x kernel windows."""

    x: Tensor
    _: KW_ONLY
    kernel: int
    stride: int
    pad: int


@dataclass(frozen=True)
class Interpolate(Arguments):
    """x scaled to the result's shape."""

    x: Tensor
    _: KW_ONLY
    mode: Mode


def im2col(
    kernel: Tensor,
    image: Tensor,
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """The patches a kernel sees: f32 [KW*KH*IC, OW, OH, N], kw fastest, then kh, then the channel.

    `kernel` [KW, KH, IC, ...] only gives its size; image [W, H, IC, N] f32. Out of the image is 0.
    """
    if kernel.shape[2] != image.shape[2]:
        raise ShapeError("im2col", "channels differ", kernel.shape, image.shape)
    kw, kh, channels, _ = kernel.shape
    steps, pads, gaps = (*stride, 1), (*pad, 0), (*dilation, 1)
    return _patches(image, (kw, kh, 1), channels, 1, steps, pads, gaps)


def im2col_3d(
    kernel: Tensor,
    image: Tensor,
    channels: int,
    stride: Triple = (1, 1, 1),
    pad: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
) -> Tensor:
    """f32 [KW*KH*KD*IC, OW, OH, OD*N], kw fastest, then kh, kd, the channel.

    kernel [KW, KH, KD, IC*OC] only gives its size; image [W, H, D, IC*N] f32, channels first.
    """
    if channels < 1 or kernel.shape[3] % channels or image.shape[3] % channels:
        raise ShapeError("im2col", f"no multiples of {channels}", kernel.shape, image.shape)
    kw, kh, kd, _ = kernel.shape
    return _patches(image, (kw, kh, kd), channels, image.shape[2], stride, pad, dilation)


def conv_2d(
    kernel: Tensor,
    image: Tensor,
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """Cross-correlation: f32 [OW, OH, OC, N] of kernel [KW, KH, IC, OC] and image [W, H, IC, N]."""
    patches = im2col(kernel, image, stride, pad, dilation)
    k, ow, oh, n = patches.shape
    out = matmul(kernel.reshape(k, kernel.shape[3]), patches.reshape(k, ow * oh, n))
    return contiguous(out.permute(1, 0, 2, 3), ow, oh, kernel.shape[3], n)


def conv_3d(
    kernel: Tensor,
    image: Tensor,
    channels: int,
    stride: Triple = (1, 1, 1),
    pad: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
) -> Tensor:
    """Cross-correlation in three dimensions: f32 [OC, OW*OH*OD*N], one column a window.

    kernel [KW, KH, KD, IC*OC], image [W, H, D, IC*N], with IC = `channels`.
    """
    patches = im2col_3d(kernel, image, channels, stride, pad, dilation)
    k = patches.shape[0]
    return matmul(kernel.reshape(k, -1), patches.reshape(k, -1))


def avg_pool_2d(x: Tensor, kernel: int, stride: int, pad: int = 0) -> Tensor:
    """The mean of each kernel x kernel window of f32 planes; padding counts as zeros."""
    plane, window, steps = (x.shape[0], x.shape[1], 1), (kernel, kernel, 1), (stride, stride, 1)
    ow, oh, _ = _windows("avg_pool_2d", x, plane, window, steps, (pad, pad, 0), (1, 1, 1))
    arguments = AvgPool2d(x, kernel=kernel, stride=stride, pad=pad)
    return node(Op.AVG_POOL_2D, F32, (ow, oh, *x.shape[2:]), arguments)


def interpolate(x: Tensor, shape: tuple[int, int, int, int], mode: Mode = "nearest") -> Tensor:
    """f32 x scaled to `shape`.

    `nearest` takes element floor(i * in / out) in each dimension; `bilinear` blends in dimensions 0
    and 1 between half-pixel centres, edges clamped, and takes the nearest in the others.
    """
    if x.fmt != F32 or mode not in ("nearest", "bilinear") or min(shape) < 1:
        problem = f"needs f32, a known mode and a size, not {x.fmt}, {mode}"
        raise ShapeError("interpolate", problem, x.shape, shape)
    return node(Op.INTERPOLATE, F32, shape, Interpolate(x, mode=mode))


def _patches(
    image: Tensor,
    kernel: Triple,
    channels: int,
    depth: int,
    stride: Triple,
    pad: Triple,
    dilation: Triple,
) -> Tensor:
    """Planes of the image go over the depth first, then the channels, then the images."""
    size = (image.shape[0], image.shape[1], depth)
    ow, oh, od = _windows("im2col", image, size, kernel, stride, pad, dilation)
    images = image.shape[2] * image.shape[3] // (channels * depth)
    shape = (prod(kernel) * channels, ow, oh, od * images)
    arguments = Im2col(
        image,
        kernel=kernel,
        channels=channels,
        depth=depth,
        out_depth=od,
        stride=stride,
        pad=pad,
        dilation=dilation,
    )
    return node(Op.IM2COL, F32, shape, arguments)


def _windows(
    op: str,
    image: Tensor,
    size: Triple,
    kernel: Triple,
    stride: Triple,
    pad: Triple,
    dilation: Triple,
) -> Triple:
    """How many windows fit in each direction: (in + 2p - d(k-1) - 1) // s + 1."""
    if image.fmt != F32:
        raise ShapeError(op, f"needs an image in F32, not {image.fmt}", image.shape, kernel)
    if min(*kernel, *stride, *dilation) < 1 or min(pad) < 0:
        steps = f"steps {stride}, padding {pad} and dilation {dilation} cannot be"
        raise ShapeError(op, steps, image.shape, kernel)
    w, h, d = (
        (n + 2 * p - g * (k - 1) - 1) // s + 1
        for n, k, s, p, g in zip(size, kernel, stride, pad, dilation, strict=True)
    )
    if min(w, h, d) < 1:
        raise ShapeError(op, "the window is larger than the image", image.shape, kernel)
    return w, h, d
