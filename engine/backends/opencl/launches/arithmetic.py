"""Launches of elementwise arithmetic: two operands, or one and scalars."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    Args,
    collapse,
    cover,
    f32,
    i32,
    i64,
    operands,
    readable,
    row_shape,
    sources,
)
from engine.gguf.formats import F32, I32
from engine.graph.tensor import Tensor

SCALARS = ("factor", "cap", "low", "high")
"""Attributes that kernels take as scalars, in this order; an operation has two at most."""


def supports_binary(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 operands."""
    return readable(node, type_of) and operands(node, FLOATS, FLOATS)


def binary(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements; operands of the same shape are taken as few long rows."""
    a, b = sources(node)
    shape, a_strides, b_shape, b_strides = a.shape, a.strides, b.shape, b.strides
    if a.shape == b.shape:
        shape, (a_strides, b_strides) = collapse(a, b)
        b_shape = shape
    n0, n1, n2, rows = row_shape(shape)
    per_item, size, local, defines = cover(shape[0], int(rows), traits)
    args: Args = (
        *(node, a, b, n0, n1, n2, rows),
        *map(i64, a_strides),
        *map(i32, b_shape),
        *map(i64, b_strides),
        per_item,
    )
    defines = {**defines, "A": TYPE_NAMES[a.fmt], "B": TYPE_NAMES[b.fmt], "OP": node.op}
    return [Launch("arithmetic", node.op, args, size, local, defines)]


def supports_unary(node: Tensor, type_of: TypeOf) -> bool:
    """An f32, f16 or bf16 operand."""
    return readable(node, type_of) and operands(node, FLOATS)


def unary(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One operand and up to two scalars."""
    (a,) = sources(node)
    shape, (a_strides,) = collapse(a)
    n0, n1, n2, rows = row_shape(shape)
    per_item, size, local, defines = cover(shape[0], int(rows), traits)
    scalars = (*(node.attr[name] for name in SCALARS if name in node.attr), 0.0, 0.0)
    args: Args = (
        *(node, a, n0, n1, n2, rows),
        *map(i64, a_strides),
        per_item,
        *map(f32, scalars[:2]),
    )
    defines = {**defines, "A": TYPE_NAMES[a.fmt], "OP": f"{node.op}_of"}
    return [Launch("unary", f"each_{node.op}_of", args, size, local, defines)]


def supports_add_id(node: Tensor, type_of: TypeOf) -> bool:
    """f32 [D, U, T]."""
    return readable(node, type_of) and operands(node, (F32,), (F32,), (I32,))


def add_id(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    a, b, ids = sources(node)
    n0, n1, _, rows = row_shape(a.shape)
    per_item, size, local, defines = cover(a.shape[0], int(rows), traits)
    strides = (*a.strides[:3], *b.strides[:2], *ids.strides[:2])
    args: Args = (
        *(node, a, b, ids, n0, n1, rows, i32(b.shape[1])),
        *map(i64, strides),
        per_item,
    )
    return [Launch("add_id", "add_id", args, size, local, defines)]
