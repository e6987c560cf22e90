"""Launches of an activation whose result the next product wants in panels."""

from collections.abc import Mapping, Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.quantize import BLOCK, panel_defines
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    aligned,
    are,
    collapse,
    cover,
    floats,
    gapless,
    ints,
    readable,
    row_shape,
    rows_in,
    strides,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.lowered import ActivationQuantize
from engine.graph.op import Op
from engine.graph.ops.activation import Gated, SwigluLimit, Xielu
from engine.graph.tensor import Tensor


def supports_activation(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 operands."""
    return readable(node, type_of) and are(FLOATS, *node.src)


def activation(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Items over elements."""
    op = _NUMBERED.get(node.op, Gated).of(node)
    gate, up = op.gate, op.up
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
        **floats(**_numbers(op)),
    }
    types = {"A": TYPE_NAMES[gate.fmt], "B": TYPE_NAMES[(up or gate).fmt]}
    defines = {**defines, **types, "OP": f"{node.op}_of"}
    return [Launch("activation", f"each_{node.op}_of", args, size, local, defines)]


_NUMBERED: Mapping[Op, type[Gated]] = {Op.SWIGLU_LIMIT: SwigluLimit, Op.XIELU: Xielu}


def _numbers(op: Gated) -> dict[str, float]:
    """The kernel's two or three, by their names there."""
    if isinstance(op, SwigluLimit):
        return {"alpha": op.alpha, "limit": op.limit, "slope": 0.0}
    if isinstance(op, Xielu):
        return {"alpha": op.above, "limit": op.below, "slope": op.slope}
    return {"alpha": 0.0, "limit": 0.0, "slope": 0.0}


IN_PANELS = (Op.SILU, Op.GELU, Op.GELU_ERF, Op.QUICK_GELU)
"""Activations that can be made in panels."""

# Blocks of a row that an item makes where it takes vectors.
_EACH = 16


def supports_activation_quantize(op: ActivationQuantize) -> bool:
    """f32 rows of whole blocks, without gaps."""
    both = (op.gate, op.up)
    return are((F32,), *both) and gapless(*both) and op.gate.shape[0] % BLOCK == 0


def activation_quantize(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """An item some blocks of a row."""
    op = ActivationQuantize.of(node)
    gate, up = op.gate, op.up
    each, blocks = _EACH if traits.items_take_vectors else 1, gate.shape[0] // BLOCK
    rows = rows_in(gate.shape)
    args: Args = {
        "out": node,
        "x": gate,
        "up": up,
        **ints(blocks=blocks, rows=rows, n1=gate.shape[1], n2=gate.shape[2]),
        **strides("x", gate.strides[1:], 1),
        **ints(has_up=up is not None),
        **strides("u", (up or gate).strides[1:], 1),
        **ints(panel=op.panels.rows, each=each),
    }
    size, local = (-(-blocks // each), rows), (1, 1) if traits.items_take_vectors else None
    defines = {"W": vector_width(traits), "ACT": op.act.upper(), **panel_defines(op.panels)}
    defines = {**defines, **aligned(traits, gate, up)}
    return [Launch("activation_quantize", "activation_quantize", args, size, local, defines)]
