"""Launches of activations, alone or times a second operand."""

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
from engine.graph.tensor import Tensor


def supports_activation(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 operands."""
    return readable(node, type_of) and operands(node, FLOATS, FLOATS)


def activation(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    gate, up = sources(node)[0], node.src[1]
    shape, (gate_strides, up_strides) = collapse(gate, up or gate)
    n0, n1, n2, rows = row_shape(shape)
    per_item, size, local, defines = cover(shape[0], int(rows), traits)
    args: Args = (
        *(node, gate, up, n0, n1, n2, rows),
        *map(i64, gate_strides),
        i32(up is not None),
        *map(i64, up_strides),
        per_item,
        *(f32(node.attr.get(name, 0.0)) for name in ("alpha", "limit")),
    )
    types = {"A": TYPE_NAMES[gate.fmt], "B": TYPE_NAMES[(up or gate).fmt]}
    defines = {**defines, **types, "OP": f"{node.op}_of"}
    return [Launch("activation", f"each_{node.op}_of", args, size, local, defines)]
