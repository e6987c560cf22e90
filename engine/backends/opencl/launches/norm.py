"""Launches of rms_norm."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Args,
    Defines,
    f32,
    i32,
    i64,
    items,
    operands,
    readable,
    row_shape,
    rows_per_group,
    sources,
    team_size,
    vector_width,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor


def supports_rms_norm(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows without gaps."""
    x, *_ = sources(node)
    return readable(node, type_of) and operands(node, (F32,), (F32,)) and x.strides[0] == 4


def rms_norm(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A team of items a row."""
    x, weight = sources(node)[0], node.src[1]
    n0, n1, n2, rows = row_shape(x.shape)
    team, per_group = team_size(traits), rows_per_group(int(rows), traits)
    size, local = items(-(-int(rows) // per_group) * team, team)
    args: Args = (
        *(node, x, weight, n0, n1, n2, rows),
        *map(i64, x.strides[1:]),
        *(i32(weight is not None), i32(per_group), f32(node.attr["eps"])),
    )
    defines: Defines = {"W": vector_width(traits), "LOCAL": team}
    return [Launch("norm", "rms_norm", args, size, local, defines)]
