"""Launches of sum_rows and mean."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    FLOATS,
    TYPE_NAMES,
    Args,
    f32,
    i64,
    operands,
    readable,
    row_shape,
    row_teams,
    sources,
)
from engine.graph.op import Op
from engine.graph.tensor import Tensor


def supports_reduce(node: Tensor, type_of: TypeOf) -> bool:
    """f32, f16 and bf16 rows."""
    return readable(node, type_of) and operands(node, FLOATS)


def reduce(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A team of items a row."""
    (x,) = sources(node)
    n0, n1, n2, rows = row_shape(x.shape)
    per_group, size, local, defines = row_teams(int(rows), traits)
    factor = 1 / x.shape[0] if node.op is Op.MEAN else 1
    args: Args = (
        *(node, x, n0, n1, n2, rows),
        *map(i64, x.strides),
        *(per_group, f32(factor)),
    )
    defines = {**defines, "X": TYPE_NAMES[x.fmt]}
    return [Launch("reduce", "sum_rows", args, size, local, defines)]
