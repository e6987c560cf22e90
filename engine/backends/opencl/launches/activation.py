"""Launches of silu and gelu, alone or times a second operand."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Args,
    collapse,
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


def supports_activation(node: Tensor, type_of: TypeOf) -> bool:
    """f32 operands."""
    return readable(node, type_of) and operands(node, (F32,), (F32,))


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
    )
    return [Launch("activation", node.op, args, size, local, defines)]
