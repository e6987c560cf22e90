"""Launches of the norms that lowering chained with sums and with what makes panels."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.quantize import BLOCK, panel_defines
from engine.backends.opencl.launches.sizes import (
    Defines,
    aligned,
    are,
    floats,
    gapless,
    ints,
    items,
    row_shape,
    rows_in,
    rows_per_group,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.lowered import NormChain
from engine.graph.tensor import Tensor


def supports_norm_chain(op: NormChain) -> bool:
    """f32 rows of whole blocks, without gaps."""
    both = (op.x, op.added)
    return are((F32,), *both) and gapless(*both) and op.x.shape[0] % BLOCK == 0


def norm_chain(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row."""
    op = NormChain.of(node)
    x, added, panels = op.x, op.added, op.panels
    rows = rows_in(x.shape)
    team, per_group = team_size(traits), rows_per_group(rows, traits)
    size, local = items(-(-rows // per_group) * team, team)
    outs: Args = {"h": op.total, "q": node} if panels else {"h": node, "q": None}
    args: Args = {
        **outs,
        "x": x,
        "w1": op.weight1,
        "b1": op.bias1,
        "r": added,
        "w2": op.weight2,
        "b2": op.bias2,
        **row_shape(x.shape),
        **strides("x", x.strides[1:], 1),
        **strides("r", (added or x).strides[1:], 1),
        **ints(has_w1=op.weight1 is not None, has_b1=op.bias1 is not None),
        **ints(adds=added is not None),
        **ints(has_w2=op.weight2 is not None, has_b2=op.bias2 is not None),
        **ints(panel=panels.rows if panels else 0, per_group=per_group),
        **floats(eps1=op.eps1, eps2=op.eps2),
    }
    norms: Defines = {"FIRST": int(op.writes), "PANELS": int(panels is not None)}
    norms = {**norms, "NORM1": op.norm1, "NORM2": op.norm2}
    defines = {"W": vector_width(traits), "LOCAL": team, **norms, **panel_defines(panels)}
    total = op.total if panels else node
    weights = (op.weight1, op.bias1, op.weight2, op.bias2)
    defines = {**defines, **aligned(traits, x, added, total, *weights)}
    return [Launch("norm_chain", "norm_chain", args, size, local, defines, packs=True)]
