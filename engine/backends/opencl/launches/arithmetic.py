"""Launches of elementwise arithmetic: two operands, or one and scalars."""

from collections.abc import Mapping, Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    are,
    collapse,
    cover,
    extents,
    floats,
    ints,
    readable,
    row_shape,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I32
from engine.graph.node import Unary
from engine.graph.op import Op
from engine.graph.ops.arithmetic import AddId, Binary, Clamp, Scale, Softcap
from engine.graph.tensor import Tensor

WITH_SCALARS: Mapping[Op, type[Unary]] = {
    Op.SCALE: Scale,
    Op.CLAMP: Clamp,
    Op.SOFTCAP: Softcap,
}


def supports_arithmetic(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 operands."""
    return readable(node, type_of) and are(FLOATS, *node.src)


def binary(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements; operands of the same shape are taken as few long rows."""
    op = Binary.of(node)
    a, b = op.a, op.b
    shape, a_strides, b_shape, b_strides = a.shape, a.strides, b.shape, b.strides
    if a.shape == b.shape:
        shape, (a_strides, b_strides) = collapse(a, b)
        b_shape = shape
    per_item, size, local, defines = cover(shape[0], rows_in(shape), traits)
    args: Args = {
        "out": node,
        "a": a,
        "b": b,
        **row_shape(shape),
        **strides("a", a_strides),
        **extents("m", b_shape),
        **strides("b", b_strides),
        **ints(per_item=per_item),
    }
    defines = {**defines, "A": TYPE_NAMES[a.fmt], "B": TYPE_NAMES[b.fmt], "OP": node.op}
    return [Launch("arithmetic", node.op, args, size, local, defines)]


def unary(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One operand; the kernel's scalars are the attributes, in their order, two at most."""
    x = WITH_SCALARS.get(node.op, Unary).of(node).x
    shape, (x_strides,) = collapse(x)
    per_item, size, local, defines = cover(shape[0], rows_in(shape), traits)
    s, t, *_ = (*node.attr.values(), 0.0, 0.0)
    args: Args = {
        "out": node,
        "a": x,
        **row_shape(shape),
        **strides("a", x_strides),
        **ints(per_item=per_item),
        **floats(s=s, t=t),
    }
    defines = {**defines, "A": TYPE_NAMES[x.fmt], "OP": f"{node.op}_of"}
    return [Launch("unary", f"each_{node.op}_of", args, size, local, defines)]


def supports_add_id(node: Tensor, type_of: TypeOf) -> bool:
    """f32 [D, U, T]."""
    op = AddId.of(node)
    return readable(node, type_of) and are((F32,), op.a, op.b) and are((I32,), op.ids)


def add_id(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    op = AddId.of(node)
    a, b, ids = op.a, op.b, op.ids
    rows = rows_in(a.shape)
    per_item, size, local, defines = cover(a.shape[0], rows, traits)
    args: Args = {
        "out": node,
        "a": a,
        "b": b,
        "ids": ids,
        **ints(n0=a.shape[0], n1=a.shape[1], rows=rows, m1=b.shape[1]),
        **strides("a", a.strides[:3]),
        **strides("b", b.strides[:2]),
        **strides("id", ids.strides[:2]),
        **ints(per_item=per_item),
    }
    return [Launch("add_id", "add_id", args, size, local, defines)]
