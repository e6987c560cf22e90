"""Launches of add, sub, mul, div, scale and softcap."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
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
from engine.gguf.formats import F16, F32
from engine.graph.op import Op
from engine.graph.tensor import Tensor

FLOATS = (F32, F16)


def supports_binary(node: Tensor, type_of: TypeOf) -> bool:
    """f32 and f16 operands."""
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
    defines = {**defines, "A": TYPE_NAMES[a.fmt], "B": TYPE_NAMES[b.fmt]}
    return [Launch("arithmetic", node.op, args, size, local, defines)]


def supports_unary(node: Tensor, type_of: TypeOf) -> bool:
    """An f32 or f16 operand."""
    return readable(node, type_of) and operands(node, FLOATS)


def unary(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """scale and softcap: one operand and a scalar."""
    (a,) = sources(node)
    shape, (a_strides,) = collapse(a)
    n0, n1, n2, rows = row_shape(shape)
    per_item, size, local, defines = cover(shape[0], int(rows), traits)
    scalar = node.attr["factor" if node.op == Op.SCALE else "cap"]
    args: Args = (node, a, n0, n1, n2, rows, *map(i64, a_strides), per_item, f32(scalar))
    defines = {**defines, "A": TYPE_NAMES[a.fmt], "B": "f32"}
    return [Launch("arithmetic", node.op, args, size, local, defines)]
