"""Launches of rms_norm, layer_norm and l2_norm."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    are,
    floats,
    gapless,
    ints,
    readable,
    row_shape,
    row_teams,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.node import Unary
from engine.graph.op import Op
from engine.graph.ops.norm import LayerNorm
from engine.graph.tensor import Tensor


def supports_norm(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows; weights and biases without gaps."""
    op = LayerNorm.of(node)
    plain = are((F32,), *node.src) and gapless(op.weight, op.bias)
    return readable(node, type_of) and plain


def norm(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row. The other norms are layer_norms that have less."""
    op = LayerNorm.of(node)
    x = op.x
    per_group, size, local, defines = row_teams(rows_in(x.shape), traits)
    args: Args = {
        "out": node,
        "x": x,
        "w": op.weight,
        "b": op.bias,
        **row_shape(x.shape),
        **strides("x", x.strides),
        **ints(has_weight=op.weight is not None, has_bias=op.bias is not None),
        **ints(per_group=per_group),
        **floats(eps=op.eps),
    }
    return [Launch("norm", node.op, args, size, local, {**defines, "OP": node.op})]


def supports_reduce(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 rows."""
    return readable(node, type_of) and are(FLOATS, *node.src)


def reduce(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row."""
    x = Unary.of(node).x
    per_group, size, local, defines = row_teams(rows_in(x.shape), traits)
    args: Args = {
        "out": node,
        "x": x,
        **row_shape(x.shape),
        **strides("x", x.strides),
        **ints(per_group=per_group),
        **floats(factor=1 / x.shape[0] if node.op is Op.MEAN else 1),
    }
    defines = {**defines, "X": TYPE_NAMES[x.fmt]}
    return [Launch("reduce", "sum_rows", args, size, local, defines)]
