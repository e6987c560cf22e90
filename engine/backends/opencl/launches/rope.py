"""Launches of rope."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    Args,
    Defines,
    i32,
    i64,
    items,
    operands,
    readable,
    sources,
    team_size,
    vector_width,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor


def supports_rope(node: Tensor, type_of: TypeOf) -> bool:
    """f32 [D, H, T] with heads without gaps."""
    x, table = sources(node)
    plain = x.strides[0] == 4 and table.strides[0] == 4 and x.shape[3] == 1
    return readable(node, type_of) and operands(node, (F32,), (F32,)) and plain


def rope(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Some heads an item on a CPU, W pairs of a head elsewhere."""
    x, table = sources(node)
    dim, heads, tokens, _ = x.shape
    half_rot, rows, team = table.shape[0] // 2, heads * tokens, team_size(traits)
    width = vector_width(traits)
    pairs, per_item = (
        (half_rot, max(1, traits.tuned.elements // dim)) if traits.is_cpu else (width, 1)
    )
    size, local = items(-(-half_rot // pairs) * -(-rows // per_item), team)
    args: Args = (
        *(node, x, table),
        *map(i32, (dim, heads, rows, half_rot, pairs, per_item)),
        *(i64(x.strides[1]), i64(x.strides[2]), i64(table.strides[1])),
        i32(node.attr["neox"]),
    )
    defines: Defines = {"W": width, "LOCAL": team}
    return [Launch("rope", "rope", args, size, local, defines)]
