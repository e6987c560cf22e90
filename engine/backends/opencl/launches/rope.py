"""Launches of rope."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Defines,
    are,
    gapless,
    ints,
    items,
    readable,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32
from engine.graph.ops.rope import Rope
from engine.graph.tensor import Tensor


def supports_rope(node: Tensor, type_of: TypeOf) -> bool:
    """f32 [D, H, T] with heads without gaps."""
    given = Rope.of(node)
    plain = are((F32,), given.x, given.table) and gapless(given.x, given.table)
    return readable(node, type_of) and plain and given.x.shape[3] == 1


def rope(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Some heads an item that takes vectors, W pairs of a head elsewhere."""
    given = Rope.of(node)
    x, table = given.x, given.table
    dim, heads, tokens, _ = x.shape
    half_rot, rows, team = table.shape[0] // 2, heads * tokens, team_size(traits)
    width = vector_width(traits)
    if traits.items_take_vectors:
        pairs, per_item = half_rot, max(1, traits.tuned.elements // dim)
    else:
        pairs, per_item = width, 1
    size, local = items(-(-half_rot // pairs) * -(-rows // per_item), team)
    args: Args = {
        "out": node,
        "x": x,
        "table": table,
        **ints(dim=dim, heads=heads, rows=rows, half_rot=half_rot, pairs=pairs, per_item=per_item),
        **strides("x", x.strides[1:3], 1),
        **strides("t", table.strides[1:2], 1),
        **ints(neox=given.neox),
    }
    defines: Defines = {"W": width, "LOCAL": team}
    return [Launch("rope", "rope", args, size, local, defines)]
