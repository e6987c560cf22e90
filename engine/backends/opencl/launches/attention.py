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


def merges_at_once(given: LoweredAttention, traits: DeviceTraits) -> bool:
    """True if the last group of lanes that is done with a unit merges its chunks."""
    split, kv_heads = split_of(given, traits), given.k.shape[1]
    units = split.groups(kv_heads) // split.chunks
    few = 1 < split.chunks <= MOST_MERGED and units <= COUNTERS
    return few and not split.parts and team_size(traits) > 1


def stores_at_once(given: LoweredAttention, traits: DeviceTraits) -> bool:
    """True if groups of lanes turn the queries of one token, and store what is new of the cell that
    they alone read.
    """
    one = given.q.shape[2] == 1 and split_of(given, traits).tiles == 1
    return one and team_size(traits) > 1


def supports_attention(node: Tensor, type_of: TypeOf) -> bool:
    """f32 queries over a cache of f16, f32 or blocks, heads without gaps."""
    given = FusedAttention.of(node)
    q, k, v = given.q, given.k, given.v
    numbers = are((F32,), q, given.sinks) and are(KV_NAMES, k) and v.fmt is k.fmt
    integers = are((I32,), given.spans, given.cells, given.n_kv)
    packed = given.spans.is_contiguous and given.cells.is_contiguous
    typed = readable(node, type_of) and numbers and integers
    return typed and packed and gapless(q, k, v) and q.shape[3] == 1


def attention(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A group of items for a tile of queries and a chunk of cells. Tiles of lanes are followed by
    what they leave out: tiles whose queries are of several sequences.
    """
    given = LoweredAttention.of(node)
    split = split_of(given, traits)
    team = min(TEAM, team_size(traits))
    width = lane_width(traits) if team == 1 else vector_width(traits)
    reads = _aligned(node, given, traits)
    if split.parts:
        defines: Defines = {**reads, **_wide_defines(given, traits)}
        return [_launch("attention_wide", node, split, WIDE_TEAM, defines)]
    if not split.lanes:
        family = "attention_vectors" if traits.items_take_vectors else "attention_lanes"
        more = {"STORES": 1, "KV_BLOCK": given.k.fmt.block, "DIM": given.q.shape[0]}
        defines = {
            "W": width,
            **reads,
            **_parts(given, traits, team if reads else 1),
            **({} if traits.items_take_vectors else {"DIM_V": given.v.shape[0]}),
            **(more if given.table is not None else {}),
            **({"MERGES": MOST_MERGED} if given.shares is not None else {}),
        }
        return [_launch(family, node, split, team, defines)]
    sizes: Defines = {"W": lane_width(traits), "DIM": given.q.shape[0], "DIM_V": given.v.shape[0]}
    lanes: Defines = {"W": width, "LANES": split.lanes}
    return [
        _launch("attention_tiles", node, split, team, sizes),
        _launch("attention_vectors", node, split_of_mixed(given, traits), team, lanes),
    ]


def _wide_defines(given: LoweredAttention, traits: DeviceTraits) -> Defines:
    """Build options of groups that make many queries: of halves where a way to multiply these is
    known, but for caches of f32.
    """
    halves = traits.halves if given.k.fmt is not F32 else ""
    dim, dim_v = given.q.shape[0], given.v.shape[0]
    channels = WIDE_CHANNELS if dim_v > WIDE_SIDE else WIDE_SIDE
    defines: dict[str, int | str] = {"DIM": dim, "DIM_V": dim_v, "CHANNELS": channels}
    if halves in SUB_GROUPS:  # sums would lie in memory
        defines |= LARGE_GRF
    bits = 16 if halves else 32
    return {**defines, "FRAGMENT_BITS": bits, "W": 128 // bits, **matrix_defines(halves)}


def _launch(
    family: str, node: Tensor, split: AttentionSplit, team: int, defines: Defines
) -> Launch:
    given = LoweredAttention.of(node)
    q, k, v, panels = given.q, given.k, given.v, given.panels
    dim, heads, tokens, _ = q.shape
    kv_heads, capacity = k.shape[1:3]
    groups, group = items(split.groups(kv_heads) * team, team)
    size, local = ((*groups, split.parts), (*group, 1)) if split.parts else (groups, group)
    args: Args = {
        "out": given.shares or node,
        "x": given.packed,
        "q": q,
        "k": k,
        "v": v,
        "spans": given.spans,
        "cells": given.cells,
        "n_kv": given.n_kv,
        "sinks": given.sinks,
        **_stored_buffers(given),
        **({"merged": node, "counters": Shared.COUNTERS} if given.shares is not None else {}),
        **ints(dim=dim, dim_v=v.shape[0], kv_heads=kv_heads, group=heads // kv_heads),
        **ints(tokens=tokens, capacity=capacity, chunks=split.chunks),
        **ints(tiles_each=split.tiles_each, heads_each=split.heads_each),
        **strides("q", q.strides[1:3], 1),
        **strides("k", k.strides[1:3], 1),
        **strides("v", v.strides[1:3], 1),
        **ints(has_sinks=given.sinks is not None, panel=panels.rows if panels else 0),
        **floats(scale=given.scale, cap=given.softcap),
        **(floats(alibi=given.alibi) if given.alibi else {}),
        **_stored_numbers(given),
    }
    common = {"KV": KV_NAMES[k.fmt], "ROWS": split.rows, "LOCAL": team, **panel_defines(panels)}
    common |= {"ALIBI": 1} if given.alibi else {}
    return Launch(family, "attention", args, size, local, {**common, **defines}, packs=True)


def _aligned(node: Tensor, given: LoweredAttention, traits: DeviceTraits) -> Defines:
    """Return build option ALIGNED where all that is read begins at whole wide loads: rows, both
    halves of those that are turned, spans and cells.
    """
    read = [given.q, given.new_k, given.new_v, given.table, given.q_weight, given.k_weight]
    read += [given.k, given.v] if given.k.fmt.block == 1 else []
    read += [node] if given.panels else []  # its rows are read to be rounded
    turned = given.table.shape[0] // 2 if given.table is not None else 0
    bytes_each = 2 if given.k.fmt is F16 else 4
    sizes = (bytes_each * given.k.shape[0], bytes_each * given.v.shape[0], 4 * turned)
    places = (given.spans.offset, given.cells.offset, *sizes)
    return {} if any(n % WIDE_LOAD for n in places) else aligned(traits, *read)


def _parts(given: LoweredAttention, traits: DeviceTraits, team: int) -> Defines:
    """Return build option PARTS of attention_lanes, where items take eight channels of halves that
    are whole loads, and all of a team have some. Registers of Intel's threads do not hold them.
    """
    eight = WIDE_LOAD // F16.bytes
    lanes, rest = divmod(given.v.shape[0], eight)
    whole = given.k.fmt is F16 and not rest and 0 < lanes <= team and team % lanes == 0
    return {"PARTS": team // lanes} if whole and traits.dot4 != "INTEL" else {}


def _stored_buffers(given: LoweredAttention) -> Args:
    """Return buffers of what attention stores first, and of where, if it does."""
    if given.table is None:
        return {}
    return {
        "kc": given.k_cache,
        "vc": given.v_cache,
        "new_k": given.new_k,
        "new_v": given.new_v,
        "table": given.table,
        "ids": given.ids,
        "wq": given.q_weight,
        "wk": given.k_weight,
    }


def _stored_numbers(given: LoweredAttention) -> Args:
    if given.table is None or given.new_k is None or given.new_v is None:
        return {}
    assert given.k_cache is not None
    return {
        **longs(new_k1=given.new_k.strides[1], new_v1=given.new_v.strides[1]),
        **ints(rows_of_cache=given.k_cache.shape[1], half_rot=given.table.shape[0] // 2),
        **ints(neox=given.neox, has_norms=given.q_weight is not None),
        **floats(eps_q=given.q_eps, eps_k=given.k_eps),
    }


def attention_merge(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """A group of items for a head of a token."""
    given = AttentionMerge.of(node)
    dim_v, heads, tokens, _ = node.shape
    team, panels = min(TEAM, team_size(traits)), given.panels
    size, local = items(heads * tokens * team, team)
    args: Args = {
        "out": node,
        "x": given.packed,
        "shares": given.shares,
        "sinks": given.sinks,
        **ints(dim_v=dim_v, heads=heads, rows=heads * tokens, chunks=given.shares.shape[3]),
        **ints(has_sinks=given.sinks is not None, panel=panels.rows if panels else 0),
    }
    # Its own program, but one for every number of rows.
    defines: Defines = {"W": vector_width(traits), "LOCAL": team, **panel_defines(panels)}
    defines = {**defines, **({} if given.shares.offset % WIDE_LOAD else aligned(traits, node))}
    return [Launch("attention_merge", "attention_merge", args, size, local, defines, packs=True)]


def supports_softmax(node: Tensor, type_of: TypeOf) -> bool:
    """f32 scores; a mask's rows without gaps."""
    given = Softmax.of(node)
    rows = (given.spans, given.cells, given.sinks)
    packed = all(t is None or t.is_contiguous for t in rows) and gapless(given.mask)
    numbers = are((F32,), given.scores, given.sinks) and are((F32, F16), given.mask)
    return readable(node, type_of) and numbers and are((I32,), *rows[:2]) and packed


def softmax(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One team of work-items per row."""
    given = Softmax.of(node)
    x, mask, rows = given.scores, given.mask, rows_in(given.scores.shape)
    team, per_group = team_size(traits), rows_per_group(rows, traits)
    size, local = items(-(-rows // per_group) * team, team)
    args: Args = {
        "out": node,
        "x": x,
        "spans": given.spans,
        "cells": given.cells,
        "sinks": given.sinks,
        "mask": mask,
        **row_shape(x.shape),
        **strides("x", x.strides),
        **extents("m", mask.shape[2:] if mask else (1, 1), 2),
        **strides("mask", mask.strides[1:] if mask else (0, 0, 0), 1),
        **ints(has_spans=given.spans is not None, has_sinks=given.sinks is not None),
        **ints(has_mask=mask is not None, per_group=per_group),
        **floats(scale=given.scale, cap=given.softcap, alibi=given.alibi),
    }
    kind = "f32" if mask is None else TYPE_NAMES[mask.fmt]
    defines: dict[str, int | str] = {"W": vector_width(traits), "LOCAL": team, "M": kind}
    defines |= {"ALIBI": 1} if given.alibi else {}
    return [Launch("softmax", "softmax", args, size, local, defines)]
