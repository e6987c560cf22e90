"""Launches of rope with its neighbours: norms of heads before, writes into the cache behind."""

from collections.abc import Sequence

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.attention import KV_NAMES
from engine.backends.opencl.launches.sizes import (
    Defines,
    aligned,
    are,
    floats,
    gapless,
    ints,
    items,
    readable,
    strides,
    team_size,
    vector_width,
)
from engine.device.backend import TypeOf
from engine.gguf.formats import F32, I32
from engine.graph.lowered import RopeStore
from engine.graph.ops.rope import Rope
from engine.graph.tensor import Tensor


def supports_rope(node: Tensor, type_of: TypeOf) -> bool:
    """f32 [D, H, T] with heads without gaps."""
    op = Rope.of(node)
    plain = are((F32,), op.x, op.table) and gapless(op.x, op.table)
    return readable(node, type_of) and plain and op.x.shape[3] == 1


def rope(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """Some heads an item that takes vectors, W pairs of a head elsewhere."""
    op = Rope.of(node)
    x, table = op.x, op.table
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
        **ints(neox=op.neox),
    }
    defines: Defines = {"W": width, "LOCAL": team}
    return [Launch("rope", "rope", args, size, local, defines)]


LOCAL = 64
"""Lanes of a group, at most."""


def supports_rope_store(op: RopeStore, k_cache: Tensor) -> bool:
    """Heads without gaps, caches of one type."""
    ids, v_cache = op.ids, op.v_cache
    heads = (op.q, op.k, op.v, op.table)
    if ids.fmt is not I32 or not ids.is_contiguous or k_cache.fmt not in KV_NAMES:
        return False
    caches = k_cache.fmt is v_cache.fmt and k_cache.shape[1] == v_cache.shape[1]
    return caches and all(t.strides[0] == 4 and t.shape[3] == 1 for t in heads if t is not None)


def rope_store(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """One work-item per token where items take vectors; elsewhere one per W pairs."""
    op = RopeStore.of(node)
    q, k, v, table = op.q, op.k, op.v, op.table
    k_cache, v_cache = op.k_cache or node, op.v_cache
    dim, kv_heads, tokens, _ = k.shape
    heads = q.shape[1] if q is not None else 0
    width, half_rot = vector_width(traits), table.shape[0] // 2 if table is not None else 0
    units = (heads + 2 * kv_heads) * tokens
    if traits.items_take_vectors:
        each, chunks = heads + 2 * kv_heads, 1
        size, local = items(tokens, 1)
    else:
        each, chunks = 1, max(1, -(-half_rot // width))
        size, local = items(units * chunks, min(LOCAL, traits.max_work_group))
    args: Args = {
        "out": node if q is not None else None,
        "kc": k_cache,
        "vc": v_cache,
        "q": q,
        "k": k,
        "v": v,
        "table": table,
        "ids": op.ids,
        "wq": op.q_weight,
        "wk": op.k_weight,
        **ints(dim=dim, dim_v=v.shape[0], heads=heads, kv_heads=kv_heads, tokens=tokens),
        **ints(cells=k_cache.shape[1], half_rot=half_rot, neox=op.neox),
        **ints(each=each, chunks=chunks),
        **strides("q", (q or k).strides[1:3], 1),
        **strides("k", k.strides[1:3], 1),
        **strides("v", v.strides[1:3], 1),
        **strides("t", (table or k).strides[1:2], 1),
        **strides("kc", k_cache.strides[1:2], 1),
        **strides("vc", v_cache.strides[1:2], 1),
        **ints(has_norms=op.q_weight is not None),
        **floats(eps_q=op.q_eps, eps_k=op.k_eps),
    }
    defines: Defines = {"KV": KV_NAMES[k_cache.fmt], "KV_BLOCK": k_cache.fmt.block, "W": width}
    if not any(n % width for n in (dim, v.shape[0], half_rot)):
        weights = op.q_weight, op.k_weight
        defines = {**defines, **aligned(traits, q, k, v, table, *weights)}
    return [Launch("rope_store", "rope_store", args, size, local, defines, packs=True)]
