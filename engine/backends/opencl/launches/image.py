"""Launches of im2col, average pooling and interpolation."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Args,
    cover,
    i32,
    i64,
    operands,
    readable,
    row_shape,
    sources,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor


def supports_image(node: Tensor, type_of: TypeOf) -> bool:
    """f32, any strides."""
    return readable(node, type_of) and operands(node, (F32,))


def im2col(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over patches."""
    (x,) = sources(node)
    n0, ow, oh, _ = node.shape
    channels, depth, out_depth = (node.attr[name] for name in ("channels", "depth", "out_depth"))
    if (channels, depth) == (x.shape[2], 1):  # of two dimensions
        steps = (*x.strides[:2], 0, *x.strides[2:])
    else:
        steps = (*x.strides, x.strides[3] * channels)
    rows = node.nelements // n0
    per_item, size, local, defines = cover(n0, rows, traits)
    windows = (node.attr[name] for name in ("kernel", "stride", "pad", "dilation"))
    args: Args = (
        *(node, x),
        *map(i32, (n0, rows, ow, oh, out_depth, *x.shape[:2], depth)),
        *(i32(value) for window in windows for value in window),
        *map(i64, steps),
        per_item,
    )
    return [Launch("image", "im2col", args, size, local, defines)]


def avg_pool_2d(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the means."""
    (x,) = sources(node)
    n0, n1, n2, rows = row_shape(node.shape)
    per_item, size, local, defines = cover(node.shape[0], int(rows), traits)
    args: Args = (
        *(node, x, n0, n1, n2, rows),
        *map(i32, x.shape[:2]),
        *map(i64, x.strides),
        *(i32(node.attr[name]) for name in ("kernel", "stride", "pad")),
        per_item,
    )
    return [Launch("image", "avg_pool_2d", args, size, local, defines)]


def interpolate(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the scaled elements."""
    (x,) = sources(node)
    rows = node.nelements // node.shape[0]
    per_item, size, local, defines = cover(node.shape[0], rows, traits)
    args: Args = (
        *(node, x),
        *map(i32, (*node.shape, *x.shape)),
        *map(i64, x.strides),
        *(i32(node.attr["mode"] == "bilinear"), per_item),
    )
    return [Launch("image", "interpolate", args, size, local, defines)]
