"""Launches of im2col, average pooling and interpolation."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    are,
    cover,
    extents,
    ints,
    longs,
    readable,
    row_shape,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.ops.image import AvgPool2d, Im2col, Interpolate
from engine.graph.tensor import Tensor


def supports_image(node: Tensor, type_of: TypeOf) -> bool:
    """f32, any strides."""
    return readable(node, type_of) and are((F32,), *node.src)


def im2col(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over patches."""
    op = Im2col.of(node)
    x, (n0, ow, oh, _) = op.image, node.shape
    if (op.channels, op.depth) == (x.shape[2], 1):  # of two dimensions
        column, row, channel, image = x.strides
        plane = 0
    else:
        column, row, plane, channel = x.strides
        image = channel * op.channels
    rows = rows_in(node.shape)
    per_item, size, local, defines = cover(n0, rows, traits)
    windows = {"k": op.kernel, "s": op.stride, "p": op.pad, "d": op.dilation}
    args: Args = {
        "out": node,
        "x": x,
        **ints(n0=n0, rows=rows, ow=ow, oh=oh, od=op.out_depth),
        **ints(width=x.shape[0], height=x.shape[1], depth=op.depth),
        **{
            name: value
            for what, (wide, high, deep) in windows.items()
            for name, value in _of_window(what, wide, high, deep).items()
        },
        **longs(to_x=column, to_y=row, to_z=plane, to_channel=channel, to_image=image),
        **ints(per_item=per_item),
    }
    return [Launch("image", "im2col", args, size, local, defines)]


def _of_window(what: str, wide: int, high: int, deep: int) -> Args:
    """Sizes by im2col's names: kw, kh, kd for the kernel, sx, sy, sz for steps and so on."""
    axes = "whd" if what == "k" else "xyz"
    return ints(**dict(zip((what + axis for axis in axes), (wide, high, deep), strict=True)))


def avg_pool_2d(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the means."""
    op = AvgPool2d.of(node)
    x = op.x
    per_item, size, local, defines = cover(node.shape[0], rows_in(node.shape), traits)
    args: Args = {
        "out": node,
        "x": x,
        **row_shape(node.shape),
        **ints(width=x.shape[0], height=x.shape[1]),
        **strides("x", x.strides),
        **ints(size=op.kernel, step=op.stride, pad=op.pad, per_item=per_item),
    }
    return [Launch("image", "avg_pool_2d", args, size, local, defines)]


def interpolate(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over the scaled elements."""
    op = Interpolate.of(node)
    x = op.x
    per_item, size, local, defines = cover(node.shape[0], rows_in(node.shape), traits)
    args: Args = {
        "out": node,
        "x": x,
        **extents("n", node.shape),
        **extents("from", x.shape),
        **strides("x", x.strides),
        **ints(bilinear=op.mode == "bilinear", per_item=per_item),
    }
    return [Launch("image", "interpolate", args, size, local, defines)]
