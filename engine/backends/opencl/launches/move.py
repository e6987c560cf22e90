"""The launch that moves elements between tensors: what copies, joins and repeats are made of."""

from collections.abc import Sequence
from dataclasses import replace

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    BLOCK_WIDTH,
    FLOATS,
    ROW_NAMES,
    TYPE_NAMES,
    Defines,
    collapse,
    cover,
    extents,
    gapless,
    ints,
    items,
    longs,
    readable,
    row_shape,
    rows_in,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I8, I16, I32, I64, Format
from engine.graph.node import Unary
from engine.graph.op import Op
from engine.graph.ops.copy import CopyInto
from engine.graph.tensor import Tensor


def supports_copy(node: Tensor, type_of: TypeOf) -> bool:
    """Plain types among themselves, any type to itself; f32 rows to blocks, blocks to floats."""
    target, x = alike(node, _copied(node))
    to_blocks = x.fmt == F32 and gapless(x) and node.fmt in BLOCK_NAMES
    from_blocks = x.fmt in ROW_NAMES and node.fmt in FLOATS and gapless(node)
    rows = (to_blocks or from_blocks) and target.shape == x.shape
    return readable(node, type_of) and (converts(x.fmt, node.fmt) or rows)


def copy(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Into a tensor of its own, or one that is given: items over elements, or blocks to write."""
    x = _copied(node)
    if converts(x.fmt, node.fmt):
        return [move(node, x, traits)]
    return [_blocks(*alike(node, x), traits)]


def _copied(node: Tensor) -> Tensor:
    return CopyInto.of(node).x if node.op is Op.COPY_INTO else Unary.of(node).x


def _blocks(target: Tensor, x: Tensor, traits: DeviceTraits) -> Launch:
    block, width = target.fmt.block, BLOCK_WIDTH if x.fmt.quantized else 0
    n0, rows = x.shape[0] // block, rows_in(x.shape)
    per_item, size, local, defines = cover(n0, rows, traits, block, width)
    args: Args = {
        "out": target,
        "x": x,
        **row_shape((n0, *x.shape[1:])),
        **strides("out", target.strides[1:], 1),
        **strides("x", x.strides[1:], 1),
        **ints(per_item=per_item),
    }
    if x.fmt.quantized:
        kernel, names = "from_blocks", {"FROM": ROW_NAMES[x.fmt], "Y": TYPE_NAMES[target.fmt]}
    else:
        kernel, names = "to_blocks", {"B": BLOCK_NAMES[target.fmt]}
    return Launch("copy", kernel, args, size, local, {**defines, **names})


INTEGERS = {I8: "i8", I16: "i16", I32: "i32", I64: "i64"}
PLAIN_NAMES = {**TYPE_NAMES, **INTEGERS}
"""The kernels' word for an element type between which they convert."""

BITS = {1: ("u8", "uchar"), 2: ("u16", "ushort"), 4: ("u32", "uint"), 8: ("u64", "ulong")}
"""By bytes: their word for an element that keeps its bits, and OpenCL C's."""


def converts(source: Format, target: Format) -> bool:
    """True if elements of one type can be moved into another: always, if it is the same."""
    return source == target or (source in PLAIN_NAMES and target in PLAIN_NAMES)


def move(target: Tensor, x: Tensor, traits: DeviceTraits) -> Launch:
    """Into `target`'s place, in order; a source of other dimensions than it tiles into it.

    With as many elements but not the same shape, in linear order.
    """
    target, x = as_stored(target), as_stored(x)
    if target.nelements == x.nelements:
        target, x = alike(target, x)
        if target.shape != x.shape:
            return _linear(target, x, traits)
    shape, m = target.shape, x.shape
    target_strides, x_strides = target.strides, x.strides
    if shape == m:
        shape, (target_strides, x_strides) = collapse(target, x)
        m = shape
    per_item, size, local, defines = cover(shape[0], rows_in(shape), traits)
    args: Args = {
        "out": target,
        "x": x,
        **row_shape(shape),
        **strides("out", target_strides),
        **extents("m", m),
        **strides("x", x_strides),
        **ints(per_item=per_item),
    }
    return Launch("move", "move", args, size, local, {**defines, **_types(target, x)})


def as_stored(tensor: Tensor) -> Tensor:
    """Blocks as their bytes; anything else as it is."""
    if not tensor.fmt.quantized:
        return tensor
    shape = (tensor.fmt.row_bytes(tensor.shape[0]), *tensor.shape[1:])
    strides = (1, *tensor.strides[1:])
    return replace(tensor, fmt=I8, shape=shape, strides=strides, root=tensor.storage)


def alike(target: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one shape, in linear order, if one of them is packed."""
    if target.shape == x.shape:
        return target, x
    if x.is_contiguous:
        return target, x.reshape(*target.shape)
    return (target.reshape(*x.shape) if target.is_contiguous else target), x


def _linear(target: Tensor, x: Tensor, traits: DeviceTraits) -> Launch:
    each = traits.tuned.elements if traits.items_take_vectors else 1
    size, local = items(-(-x.nelements // each), team_size(traits))
    args: Args = {
        "out": target,
        "x": x,
        **longs(count=x.nelements),
        **extents("n", target.shape[:3]),
        **strides("out", target.strides),
        **extents("m", x.shape[:3]),
        **strides("x", x.strides),
        **ints(each=each),
    }
    defines: Defines = {"W": vector_width(traits), "LOCAL": team_size(traits)}
    return Launch("move", "linear", args, size, local, {**defines, **_types(target, x)})


def _types(target: Tensor, x: Tensor) -> Defines:
    if target.fmt == x.fmt:
        name, kind = BITS[x.fmt.bytes]
        return {"X": name, "Y": name, "R": kind}
    kind = "long" if target.fmt in INTEGERS and x.fmt in INTEGERS else "float"
    return {"X": PLAIN_NAMES[x.fmt], "Y": PLAIN_NAMES[target.fmt], "R": kind}
