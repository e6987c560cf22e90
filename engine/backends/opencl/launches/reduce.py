"""Launches of sum_rows and mean."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    are,
    floats,
    ints,
    readable,
    row_shape,
    row_teams,
    rows_in,
    strides,
)
from engine.device.backend import TypeOf
from engine.graph.node import Unary
from engine.graph.op import Op
from engine.graph.tensor import Tensor


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
