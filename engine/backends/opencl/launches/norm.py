"""Launches of rms_norm, layer_norm and l2_norm."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
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
from engine.graph.ops.norm import LayerNorm
from engine.graph.tensor import Tensor


def supports_norm(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows; weights and biases without gaps."""
    given = LayerNorm.of(node)
    plain = are((F32,), *node.src) and gapless(given.weight, given.bias)
    return readable(node, type_of) and plain


def norm(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row. The other norms are layer_norms that have less."""
    given = LayerNorm.of(node)
    x = given.x
    per_group, size, local, defines = row_teams(rows_in(x.shape), traits)
    args: Args = {
        "out": node,
        "x": x,
        "w": given.weight,
        "b": given.bias,
        **row_shape(x.shape),
        **strides("x", x.strides),
        **ints(has_weight=given.weight is not None, has_bias=given.bias is not None),
        **ints(per_group=per_group),
        **floats(eps=given.eps),
    }
    return [Launch("norm", node.op, args, size, local, {**defines, "OP": node.op})]
