"""Launches of fused attention and of softmax."""

from collections.abc import Sequence

from engine.backends.opencl.launch import COUNTERS, Args, DeviceTraits, Launch, Shared
from engine.backends.opencl.launches.attention_split import (
    WIDE_CHANNELS,
    WIDE_SIDE,
    WIDE_TEAM,
    AttentionSplit,
    lane_width,
    split_of,
    split_of_mixed,
)
from engine.backends.opencl.launches.matmul_tiled import LARGE_GRF, SUB_GROUPS, matrix_defines
from engine.backends.opencl.launches.quantize import panel_defines
from engine.backends.opencl.launches.sizes import (
    BLOCK_NAMES,
    TYPE_NAMES,
    WIDE_LOAD,
    Defines,
    aligned,
    are,
    extents,
    floats,
    gapless,
    ints,
    items,
    longs,
    readable,
    row_shape,
    rows_in,
    rows_per_group,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F16, F32, I32
from engine.graph.lowered import AttentionMerge, LoweredAttention
from engine.graph.ops.attention import FusedAttention, Softmax
from engine.graph.tensor import Tensor

KV_NAMES = {F16: TYPE_NAMES[F16], F32: TYPE_NAMES[F32], **BLOCK_NAMES}

TEAM = 64
"""Lanes of a group, at most: few enough that a head's channels keep them busy."""

MOST_MERGED = 32
"""Chunks that the last group of a unit merges: of more a launch makes the sum sooner."""


def merges_at_once(op: LoweredAttention, traits: DeviceTraits) -> bool:
    """True if the last group of lanes that is done with a unit merges its chunks."""
    split, kv_heads = split_of(op, traits), op.k.shape[1]
    units = split.groups(kv_heads) // split.chunks
    few = 1 < split.chunks <= MOST_MERGED and units <= COUNTERS
    return few and not split.parts and team_size(traits) > 1


def stores_at_once(op: LoweredAttention, traits: DeviceTraits) -> bool:
    """True if groups of lanes turn the queries of one token, and store what is new of the cell that
    they alone read.
    """
    one = op.q.shape[2] == 1 and split_of(op, traits).tiles == 1
    return one and team_size(traits) > 1


def supports_attention(node: Tensor, type_of: TypeOf) -> bool:
    """f32 queries over a cache of f16, f32 or blocks, heads without gaps."""
    op = FusedAttention.of(node)
    q, k, v = op.q, op.k, op.v
    numbers = are((F32,), q, op.sinks) and are(KV_NAMES, k) and v.fmt is k.fmt
    integers = are((I32,), op.spans, op.cells, op.n_kv)
    packed = op.spans.is_contiguous and op.cells.is_contiguous
    typed = readable(node, type_of) and numbers and integers
    return typed and packed and gapless(q, k, v) and q.shape[3] == 1


def attention(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A group of items for a tile of queries and a chunk of cells. Tiles of lanes are followed by
    what they leave out: tiles whose queries are of several sequences.
    """
    op = LoweredAttention.of(node)
    split = split_of(op, traits)
    team = min(TEAM, team_size(traits))
    width = lane_width(traits) if team == 1 else vector_width(traits)
    reads = _aligned(node, op, traits)
    if split.parts:
        defines: Defines = {**reads, **_wide_defines(op, traits)}
        return [_launch("attention_wide", node, split, WIDE_TEAM, defines)]
    if not split.lanes:
        family = "attention_vectors" if traits.items_take_vectors else "attention_lanes"
        more = {"STORES": 1, "KV_BLOCK": op.k.fmt.block, "DIM": op.q.shape[0]}
        defines = {
            "W": width,
            **reads,
            **_parts(op, traits, team if reads else 1),
            **({} if traits.items_take_vectors else {"DIM_V": op.v.shape[0]}),
            **(more if op.table is not None else {}),
            **({"MERGES": MOST_MERGED} if op.shares is not None else {}),
        }
        return [_launch(family, node, split, team, defines)]
    sizes: Defines = {"W": lane_width(traits), "DIM": op.q.shape[0], "DIM_V": op.v.shape[0]}
    lanes: Defines = {"W": width, "LANES": split.lanes}
    return [
        _launch("attention_tiles", node, split, team, sizes),
        _launch("attention_vectors", node, split_of_mixed(op, traits), team, lanes),
    ]


def _wide_defines(op: LoweredAttention, traits: DeviceTraits) -> Defines:
    """Build options of groups that make many queries: of halves where a way to multiply these is
    known, but for caches of f32.
    """
    halves = traits.halves if op.k.fmt is not F32 else ""
    dim, dim_v = op.q.shape[0], op.v.shape[0]
    channels = WIDE_CHANNELS if dim_v > WIDE_SIDE else WIDE_SIDE
    defines: dict[str, int | str] = {"DIM": dim, "DIM_V": dim_v, "CHANNELS": channels}
    if halves in SUB_GROUPS:  # sums would lie in memory
        defines |= LARGE_GRF
    bits = 16 if halves else 32
    return {**defines, "FRAGMENT_BITS": bits, "W": 128 // bits, **matrix_defines(halves)}


def _launch(
    family: str, node: Tensor, split: AttentionSplit, team: int, defines: Defines
) -> Launch:
    op = LoweredAttention.of(node)
    q, k, v, panels = op.q, op.k, op.v, op.panels
    dim, heads, tokens, _ = q.shape
    kv_heads, capacity = k.shape[1:3]
    groups, group = items(split.groups(kv_heads) * team, team)
    size, local = ((*groups, split.parts), (*group, 1)) if split.parts else (groups, group)
    args: Args = {
        "out": op.shares or node,
        "x": op.packed,
        "q": q,
        "k": k,
        "v": v,
        "spans": op.spans,
        "cells": op.cells,
        "n_kv": op.n_kv,
        "sinks": op.sinks,
        **_stored_buffers(op),
        **({"merged": node, "counters": Shared.COUNTERS} if op.shares is not None else {}),
        **ints(dim=dim, dim_v=v.shape[0], kv_heads=kv_heads, group=heads // kv_heads),
        **ints(tokens=tokens, capacity=capacity, chunks=split.chunks),
        **ints(tiles_each=split.tiles_each, heads_each=split.heads_each),
        **strides("q", q.strides[1:3], 1),
        **strides("k", k.strides[1:3], 1),
        **strides("v", v.strides[1:3], 1),
        **ints(has_sinks=op.sinks is not None, panel=panels.rows if panels else 0),
        **floats(scale=op.scale, cap=op.softcap),
        **(floats(alibi=op.alibi) if op.alibi else {}),
        **_stored_numbers(op),
    }
    common = {"KV": KV_NAMES[k.fmt], "ROWS": split.rows, "LOCAL": team, **panel_defines(panels)}
    common |= {"ALIBI": 1} if op.alibi else {}
    return Launch(family, "attention", args, size, local, {**common, **defines}, packs=True)


def _aligned(node: Tensor, op: LoweredAttention, traits: DeviceTraits) -> Defines:
    """Return build option ALIGNED where all that is read begins at whole wide loads: rows, both
    halves of those that are turned, spans and cells.
    """
    read = [op.q, op.new_k, op.new_v, op.table, op.q_weight, op.k_weight]
    read += [op.k, op.v] if op.k.fmt.block == 1 else []
    read += [node] if op.panels else []  # its rows are read to be rounded
    turned = op.table.shape[0] // 2 if op.table is not None else 0
    bytes_each = 2 if op.k.fmt is F16 else 4
    sizes = (bytes_each * op.k.shape[0], bytes_each * op.v.shape[0], 4 * turned)
    places = (op.spans.offset, op.cells.offset, *sizes)
    return {} if any(n % WIDE_LOAD for n in places) else aligned(traits, *read)


def _parts(op: LoweredAttention, traits: DeviceTraits, team: int) -> Defines:
    """Return build option PARTS of attention_lanes, where items take eight channels of halves that
    are whole loads, and all of a team have some. Registers of Intel's threads do not hold them.
    """
    eight = WIDE_LOAD // F16.bytes
    lanes, rest = divmod(op.v.shape[0], eight)
    whole = op.k.fmt is F16 and not rest and 0 < lanes <= team and team % lanes == 0
    return {"PARTS": team // lanes} if whole and traits.dot4 != "INTEL" else {}


def _stored_buffers(op: LoweredAttention) -> Args:
    """Return buffers of what attention stores first, and of where, if it does."""
    if op.table is None:
        return {}
    return {
        "kc": op.k_cache,
        "vc": op.v_cache,
        "new_k": op.new_k,
        "new_v": op.new_v,
        "table": op.table,
        "ids": op.ids,
        "wq": op.q_weight,
        "wk": op.k_weight,
    }


def _stored_numbers(op: LoweredAttention) -> Args:
    if op.table is None or op.new_k is None or op.new_v is None:
        return {}
    assert op.k_cache is not None
    return {
        **longs(new_k1=op.new_k.strides[1], new_v1=op.new_v.strides[1]),
        **ints(rows_of_cache=op.k_cache.shape[1], half_rot=op.table.shape[0] // 2),
        **ints(neox=op.neox, has_norms=op.q_weight is not None),
        **floats(eps_q=op.q_eps, eps_k=op.k_eps),
    }


def attention_merge(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A group of items for a head of a token."""
    op = AttentionMerge.of(node)
    dim_v, heads, tokens, _ = node.shape
    team, panels = min(TEAM, team_size(traits)), op.panels
    size, local = items(heads * tokens * team, team)
    args: Args = {
        "out": node,
        "x": op.packed,
        "shares": op.shares,
        "sinks": op.sinks,
        **ints(dim_v=dim_v, heads=heads, rows=heads * tokens, chunks=op.shares.shape[3]),
        **ints(has_sinks=op.sinks is not None, panel=panels.rows if panels else 0),
    }
    # Its own program, but one for every number of rows.
    defines: Defines = {"W": vector_width(traits), "LOCAL": team, **panel_defines(panels)}
    defines = {**defines, **({} if op.shares.offset % WIDE_LOAD else aligned(traits, node))}
    return [Launch("attention_merge", "attention_merge", args, size, local, defines, packs=True)]


def supports_softmax(node: Tensor, type_of: TypeOf) -> bool:
    """f32 scores; a mask's rows without gaps."""
    op = Softmax.of(node)
    rows = (op.spans, op.cells, op.sinks)
    packed = all(t is None or t.is_contiguous for t in rows) and gapless(op.mask)
    numbers = are((F32,), op.scores, op.sinks) and are((F32, F16), op.mask)
    return readable(node, type_of) and numbers and are((I32,), *rows[:2]) and packed


def softmax(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row."""
    op = Softmax.of(node)
    x, mask, rows = op.scores, op.mask, rows_in(op.scores.shape)
    team, per_group = team_size(traits), rows_per_group(rows, traits)
    size, local = items(-(-rows // per_group) * team, team)
    args: Args = {
        "out": node,
        "x": x,
        "spans": op.spans,
        "cells": op.cells,
        "sinks": op.sinks,
        "mask": mask,
        **row_shape(x.shape),
        **strides("x", x.strides),
        **extents("m", mask.shape[2:] if mask else (1, 1), 2),
        **strides("mask", mask.strides[1:] if mask else (0, 0, 0), 1),
        **ints(has_spans=op.spans is not None, has_sinks=op.sinks is not None),
        **ints(has_mask=mask is not None, per_group=per_group),
        **floats(scale=op.scale, cap=op.softcap, alibi=op.alibi),
    }
    kind = "f32" if mask is None else TYPE_NAMES[mask.fmt]
    defines: dict[str, int | str] = {"W": vector_width(traits), "LOCAL": team, "M": kind}
    defines |= {"ALIBI": 1} if op.alibi else {}
    return [Launch("softmax", "softmax", args, size, local, defines)]
