"""Launches of rope."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import (
    LOCAL,
    Args,
    i32,
    i64,
    items,
    operands,
    readable,
    sources,
    vector_width,
)
from engine.gguf.formats import F32
from engine.graph.tensor import Tensor

CPU_LOCAL = 16


def supports_rope(node: Tensor, type_of: TypeOf) -> bool:
    """f32 [D, H, T] with heads without gaps."""
    x, table = sources(node)
    plain = x.strides[0] == 4 and table.strides[0] == 4 and x.shape[3] == 1
    return readable(node, type_of) and operands(node, (F32,), (F32,)) and plain


def rope(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A head of a token an item on a CPU, W pairs an item elsewhere."""
    x, table = sources(node)
    dim, heads, tokens, _ = x.shape
    half_rot, width = table.shape[0] // 2, vector_width(traits)
    per_item = half_rot if traits.is_cpu else width
    parts = -(-half_rot // per_item)
    size, local = items(heads * tokens * parts, CPU_LOCAL if traits.is_cpu else LOCAL)
    args: Args = (
        *(node, x, table),
        *map(i32, (dim, heads, heads * tokens, half_rot, per_item)),
        *(i64(x.strides[1]), i64(x.strides[2]), i64(table.strides[1])),
        i32(node.attr["neox"]),
    )
    return [Launch("rope", "rope", args, size, local, {"W": width})]
