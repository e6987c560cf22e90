"""Launches of activations, alone or times a second operand."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    are,
    collapse,
    cover,
    floats,
    ints,
    readable,
    row_shape,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.graph.op import Op
from engine.graph.ops.activation import Gated, SwigluLimit
from engine.graph.tensor import Tensor


def supports_activation(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 operands."""
    return readable(node, type_of) and are(FLOATS, *node.src)


def activation(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    given = SwigluLimit.of(node) if node.op is Op.SWIGLU_LIMIT else Gated.of(node)
    gate, up = given.gate, given.up
    bounds = (given.alpha, given.limit) if isinstance(given, SwigluLimit) else (0.0, 0.0)
    shape, (gate_strides, up_strides) = collapse(gate, up or gate)
    per_item, size, local, defines = cover(shape[0], rows_in(shape), traits)
    args: Args = {
        "out": node,
        "x": gate,
        "up": up,
        **row_shape(shape),
        **strides("x", gate_strides),
        **ints(has_up=up is not None),
        **strides("u", up_strides),
        **ints(per_item=per_item),
        **floats(alpha=bounds[0], limit=bounds[1]),
    }
    types = {"A": TYPE_NAMES[gate.fmt], "B": TYPE_NAMES[(up or gate).fmt]}
    defines = {**defines, **types, "OP": f"{node.op}_of"}
    return [Launch("activation", f"each_{node.op}_of", args, size, local, defines)]
