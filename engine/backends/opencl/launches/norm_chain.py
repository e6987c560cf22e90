"""Launches of the norms that fuse.py chained: norm and add, norm and quantise, or both."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.quantize import BLOCK, panel_defines
from engine.backends.opencl.launches.sizes import (
    Args,
    Defines,
    f32,
    i32,
    i64,
    items,
    row_shape,
    rows_per_group,
    team_size,
    vector_width,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor


def supports_norm_chain(node: Tensor, type_of: TypeOf) -> bool:
    """f32 rows of whole blocks, without gaps."""
    x, _, added, *_ = node.src
    rows = [t for t in (x, added) if t is not None]
    return all(t.fmt is F32 and t.strides[0] == 4 and t.shape[0] % BLOCK == 0 for t in rows)


def norm_chain(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A team of items a row. Sources: x, weight, what is added, second weight, the sum's place."""
    x, w1, added, w2, total = node.src
    assert x is not None
    panel = node.attr.get("panel", 0)
    n0, n1, n2, rows = row_shape(x.shape)
    team, per_group = team_size(traits), rows_per_group(int(rows), traits)
    size, local = items(-(-int(rows) // per_group) * team, team)
    outs = (total, node) if panel else (node, None)
    flags = (added is not None, panel > 0, w1 is not None, w2 is not None, panel, per_group)
    args: Args = (
        *(*outs, x, w1, added, w2, n0, n1, n2, rows),
        *map(i64, (*x.strides[1:], *(added or x).strides[1:])),
        *map(i32, flags),
        *map(f32, (node.attr["eps1"], node.attr["eps2"])),
    )
    defines: Defines = {"W": vector_width(traits), "LOCAL": team, **panel_defines(node)}
    return [Launch("norm_chain", "norm_chain", args, size, local, defines)]
