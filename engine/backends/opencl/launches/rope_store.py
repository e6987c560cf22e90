"""Launches of rope with its neighbours: norms of heads before, writes into the cache behind."""

from collections.abc import Sequence

from engine.backends.base import TypeOf
from engine.backends.opencl.launch import DeviceTraits, Launch
from engine.backends.opencl.launches.attention import KV_NAMES
from engine.backends.opencl.launches.sizes import (
    Args,
    Defines,
    f32,
    i32,
    i64,
    items,
    vector_width,
)
from engine.gguf.formats import I32
from engine.graph.tensor import Tensor

GPU_LOCAL = 64


def supports_rope_store(node: Tensor, type_of: TypeOf) -> bool:
    """Heads without gaps, caches of one type."""
    q, k, v, table, ids, _, _, k_cache, v_cache = node.src
    assert ids is not None
    assert k_cache is not None
    assert v_cache is not None
    heads = [t for t in (q, k, v, table) if t is not None]
    if ids.fmt is not I32 or not ids.is_contiguous or k_cache.fmt not in KV_NAMES:
        return False
    caches = k_cache.fmt is v_cache.fmt and k_cache.shape[1] == v_cache.shape[1]
    return caches and all(t.strides[0] == 4 and t.shape[3] == 1 for t in heads)


def rope_store(node: Tensor, type_of: TypeOf, traits: DeviceTraits) -> Sequence[Launch]:
    """On a CPU an item a token; elsewhere W pairs an item.

    Sources: q, k, v, table, ids, weights of q's and k's norms, both caches (written).
    """
    q, k, v, table, ids, wq, wk, k_cache, v_cache = node.src
    assert q is not None
    assert k is not None
    assert v is not None
    assert table is not None
    assert k_cache is not None
    assert v_cache is not None
    dim, heads, tokens, _ = q.shape
    width, half_rot, kv_heads = vector_width(traits), table.shape[0] // 2, k.shape[1]
    units = (heads + 2 * kv_heads) * tokens
    if traits.is_cpu:
        each, chunks = heads + 2 * kv_heads, 1
        size, local = items(tokens, 1)
    else:
        each, chunks = 1, max(1, -(-half_rot // width))
        size, local = items(units * chunks, min(GPU_LOCAL, traits.max_work_group))
    sizes = (dim, v.shape[0], heads, kv_heads, tokens, k_cache.shape[1], half_rot)
    steps = (q.strides[1:3], k.strides[1:3], v.strides[1:3], table.strides[1:2])
    args: Args = (
        *(node, k_cache, v_cache, q, k, v, table, ids, wq, wk),
        *map(i32, (*sizes, node.attr["neox"], each, chunks)),
        *(i64(step) for two in steps for step in two),
        *map(i64, (k_cache.strides[1], v_cache.strides[1])),
        i32(wq is not None),
        *map(f32, (node.attr["eps_q"], node.attr["eps_k"])),
    )
    defines: Defines = {"KV": KV_NAMES[k_cache.fmt], "BLOCK": k_cache.fmt.block, "W": width}
    return [Launch("rope_store", "rope_store", args, size, local, defines)]
