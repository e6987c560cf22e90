"""Launches of fused attention and of softmax."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.attention_split import split_of
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.quantize import panel_defines
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    TYPE_NAMES,
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
from engine.gguf.formats import F16, F32, I32
from engine.graph.tensor import Tensor

KV_NAMES = {F16: TYPE_NAMES[F16], F32: TYPE_NAMES[F32], **BLOCK_NAMES}

CPU_WIDTH = 16
"""A CPU's kernel is written in vectors of 16."""

GPU_TEAM = 64
"""Items of a group: few enough that a head's channels keep them busy."""


def supports_attention(node: Tensor, type_of: TypeOf) -> bool:
    """f32 queries over a cache of f16, f32 or blocks, heads without gaps."""
    q, k, v, spans, cells, *_ = sources(node)
    types = ((F32,), KV_NAMES, (k.fmt,), (I32,), (I32,), (I32,), (F32,))
    plain = all(t.strides[0] == t.fmt.bytes for t in (q, k, v)) and q.shape[3] == 1
    packed = spans.is_contiguous and cells.is_contiguous
    return readable(node, type_of) and operands(node, *types) and plain and packed


def attention(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A group a tile of queries and chunk of cells; or the merge that `split_attention` made.

    `panel` in the node's attributes: its last source is written too, in 12 bits.
    """
    panel = node.attr.get("panel", 0)
    in_12_bits = node.src[-1] if panel else None
    if len(node.src) < 6:
        return [_merge(node, in_12_bits, traits)]
    q, k, v, spans, cells, n_kv = sources(node)[:6]
    sinks = node.src[6]
    dim, heads, tokens, _ = q.shape
    kv_heads, capacity = k.shape[1:3]
    split, chunks = split_of(node, traits), node.shape[3]
    team = min(GPU_TEAM, team_size(traits))
    size, local = items(-(-split.tiles * kv_heads // split.each) * chunks * team, team)
    sizes = (dim, v.shape[0], kv_heads, heads // kv_heads, tokens, capacity, chunks, split.each)
    args: Args = (
        *(node, in_12_bits, q, k, v, spans, cells, n_kv, sinks),
        *map(i32, sizes),
        *(i64(t.strides[axis]) for t in (q, k, v) for axis in (1, 2)),
        *(i32(sinks is not None), i32(panel), f32(node.attr["scale"]), f32(node.attr["softcap"])),
    )
    defines: Defines = {
        "KV": KV_NAMES[k.fmt],
        "ROWS": split.rows,
        "W": CPU_WIDTH if team == 1 else vector_width(traits),
        "LOCAL": team,
        **panel_defines(node),
    }
    return [Launch("attention", "attention", args, size, local, defines)]


def _merge(node: Tensor, in_12_bits: Tensor | None, traits: DeviceTraits) -> Launch:
    shares, sinks = sources(node)[0], node.src[1]
    dim_v, heads, tokens, _ = node.shape
    team = min(GPU_TEAM, team_size(traits))
    size, local = items(heads * tokens * team, team)
    panel = node.attr.get("panel", 0)
    sizes = (dim_v, heads, heads * tokens, shares.shape[3], sinks is not None, panel)
    args: Args = (node, in_12_bits, shares, sinks, *map(i32, sizes))
    # Its own program, but one for every number of rows.
    defines: Defines = {"W": vector_width(traits), "LOCAL": team, **panel_defines(node)}
    return Launch("attention_merge", "attention_merge", args, size, local, defines)


def supports_softmax(node: Tensor, type_of: TypeOf) -> bool:
    """f32 scores; a mask's rows without gaps."""
    spans, cells, sinks, mask = node.src[1:5]
    packed = all(t is None or t.is_contiguous for t in (spans, cells, sinks))
    plain = mask is None or mask.strides[0] == mask.fmt.bytes
    types = ((F32,), (I32,), (I32,), (F32,), (F32, F16))
    return readable(node, type_of) and operands(node, *types) and packed and plain


def softmax(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A team of items a row."""
    x = sources(node)[0]
    spans, cells, sinks, mask = node.src[1:5]
    n0, n1, n2, rows = row_shape(x.shape)
    team, per_group = team_size(traits), rows_per_group(int(rows), traits)
    size, local = items(-(-int(rows) // per_group) * team, team)
    args: Args = (
        *(node, x, spans, cells, sinks, mask, n0, n1, n2, rows),
        *map(i64, x.strides),
        *(map(i32, mask.shape[2:]) if mask is not None else (i32(1), i32(1))),
        *(map(i64, mask.strides[1:]) if mask is not None else (i64(0), i64(0), i64(0))),
        *(i32(spans is not None), i32(sinks is not None), i32(mask is not None), i32(per_group)),
        *(f32(node.attr["scale"]), f32(node.attr["softcap"])),
    )
    kind = "f32" if mask is None else TYPE_NAMES[mask.fmt]
    defines: Defines = {"W": vector_width(traits), "LOCAL": team, "M": kind}
    return [Launch("softmax", "softmax", args, size, local, defines)]
