"""How attention is cut into work, without a device."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.launches.attention import attention as launches_of_attention
from engine.backends.opencl.launches.attention_split import (
    LANE_TOKENS,
    SHARES,
    AttentionSplit,
    split_of,
    split_of_mixed,
)
from engine.backends.opencl.lowering.helpers import split_attention
from engine.backends.opencl.source import source
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.lowered import AttentionMerge
from engine.graph.op import Op
from engine.graph.ops.attention import FusedAttention
from engine.graph.tensor import Role, Tensor, leaf
from engine.kvcache.causal import PAGE


def traits_of(is_cpu: bool, compute_units: int) -> DeviceTraits:
    return DeviceTraits(is_cpu, compute_units, 1024, 1 << 16)


def heads_of(dim: int, dim_v: int) -> tuple[Tensor, ...]:
    """q, k, v, spans, cells and their number, of one token behind 64 cells."""
    q = leaf("q", F32, (dim, 4, 1), Role.INPUT)
    k, v = (leaf("kv", F16, (n, 2, 64), Role.CACHE) for n in (dim, dim_v))
    return q, k, v, *(leaf("x", I32, shape, Role.INPUT) for shape in ((4, 1), (2, 64), (1,)))


def none_packed(tensor: Tensor) -> None:
    """No tensor has a layout of the device's own."""


def attention(heads: int, kv_heads: int, n_tokens: int, capacity: int, dim: int = 64) -> Tensor:
    def put(*shape: int) -> Tensor:
        return leaf("x", I32, shape, Role.INPUT)

    q = leaf("q", F32, (dim, heads, n_tokens), Role.INPUT)
    k = leaf("k", F16, (dim, kv_heads, capacity), Role.CACHE)
    v = leaf("v", F16, (32, kv_heads, capacity), Role.CACHE)
    visible = put(4, n_tokens), put(2, capacity), put(1)
    return ops.attention(q, k, v, *visible, scale=0.125, softcap=30.0).named("kqv", 3)


def split(node: Tensor, traits: DeviceTraits) -> AttentionSplit:
    return split_of(FusedAttention.of(node), traits)


@pytest.mark.parametrize("is_cpu", [True, False])
@pytest.mark.parametrize("heads", [(9, 3), (4, 1), (1, 1), (32, 8), (40, 1)], ids=str)
def test_tiles_cover_all_queries(is_cpu: bool, heads: tuple[int, int]) -> None:
    for units, n_tokens, capacity in product((1, 2, 16, 132), (1, 2, 7, 64, 512), (1, 600, 4096)):
        cut = split(attention(*heads, n_tokens, capacity), traits_of(is_cpu, units))
        queries = n_tokens * heads[0] // heads[1]
        wide = not is_cpu and n_tokens >= LANE_TOKENS
        assert cut.parts == wide
        assert cut.rows in ((24, 48, 72, 96) if cut.lanes else (64,) if wide else (1, 2, 3, 4))
        assert not cut.lanes or (is_cpu and cut.chunks == 1)
        assert cut.rows * (cut.tiles - 1) < queries <= cut.rows * cut.tiles
        assert 1 <= cut.chunks <= max(1, capacity // 64)
        assert (cut.tiles_each, cut.heads_each) in ((1, 1), (cut.tiles, heads[1]))
        assert cut.tiles_each == 1 or n_tokens * cut.chunks <= SHARES


def test_queries_are_lanes_where_they_fill_them_and_every_core() -> None:
    cpu = traits_of(True, 2)
    assert split(attention(9, 3, 512, 4096), cpu).lanes
    assert split(attention(4, 1, 512, 4096, dim=256), cpu).rows == 24  # one tile: heads are large
    few, odd, large = attention(9, 3, 7, 4096), attention(9, 3, 512, 4096, 60), (9, 3, 512, 4096)
    assert not split(few, cpu).lanes
    assert not split(odd, cpu).lanes
    assert not split(attention(*large, dim=320), cpu).lanes
    assert not split(attention(1, 1, 512, 4096), traits_of(True, 16)).lanes
    assert not split(attention(*large), traits_of(False, 2)).lanes


def test_a_deep_cache_is_cut_in_decode_and_whole_in_prefill() -> None:
    cpu = traits_of(True, 2)
    assert split(attention(9, 3, 1, 256), cpu).chunks == 1
    assert split(attention(9, 3, 1, 4096), cpu).chunks > 2
    assert split(attention(9, 3, 512, 4096), cpu).chunks == 1


def test_a_core_makes_all_heads_where_cells_are_enough_for_every_core() -> None:
    """So that it reads its cells in one run."""
    for n_tokens in (1, 8, 31):  # a token each of so many sequences
        deep = attention(9, 3, n_tokens, 4096)
        cut = split(deep, traits_of(True, 2))
        assert (cut.tiles_each, cut.heads_each, cut.chunks) == (n_tokens, 3, 16)
        assert split(deep, traits_of(True, 16)).tiles_each == 1
        assert split(deep, traits_of(False, 2)).tiles_each == 1
        assert split(attention(9, 3, n_tokens, 512), traits_of(True, 2)).tiles_each == 1


@pytest.mark.parametrize("heads", [(9, 3), (12, 1), (8, 2), (4, 4), (10, 2)], ids=str)
def test_what_tiles_of_lanes_leave_out_is_cut_at_their_borders(heads: tuple[int, int]) -> None:
    traits = traits_of(True, 2)
    for n_tokens in (32, 100, 512):
        node = attention(*heads, n_tokens, 4096)
        lanes, rest = split(node, traits), split_of_mixed(FusedAttention.of(node), traits)
        assert lanes.rows % lanes.lanes == 0
        assert rest.rows * rest.tiles_each == rest.lanes == lanes.lanes
        assert rest.rows * (rest.tiles - 1) < n_tokens * heads[0] // heads[1]
        assert rest.groups(heads[1]) == -(-rest.tiles // rest.tiles_each) * heads[1]


def test_a_page_of_the_cache_is_what_kernels_pass_over() -> None:
    assert f"#define BLOCK {PAGE} " in source("attention_vectors")


def test_shares_and_merge_stand_for_the_node() -> None:
    cpu = traits_of(True, 2)
    whole = attention(9, 3, 1, 256)
    assert split_attention(whole, cpu) == (whole,)
    node = attention(9, 3, 1, 4096)
    shares, merged = split_attention(node, cpu)
    chunks = split(node, cpu).chunks
    assert (shares.op, merged.op) == (Op.ATTENTION, Op.ATTENTION_MERGE)
    assert shares.shape == (32 + 2, 9, 1, chunks)
    assert shares.src == node.src
    assert shares.attr == node.attr
    assert shares.storage is shares
    assert merged.storage is node
    assert (merged.shape, merged.strides) == (node.shape, node.strides)
    assert AttentionMerge.of(merged) == AttentionMerge(shares, None)


@pytest.mark.parametrize(
    ("dim", "changed"),
    [
        (64, {"max_work_group": 128}),
        (64, {"local_memory": 30 << 10}),
        (64, {"own_local_memory": False}),
        (60, {}),
    ],
)
def test_groups_of_lanes_that_do_not_fit_make_few_queries(dim: int, changed: Any) -> None:
    node, gpu = attention(8, 2, 512, 600, dim), traits_of(False, 16)
    assert split(attention(8, 2, 512, 600), gpu).parts == 1
    assert split(node, replace(gpu, **changed)).parts == 0


@pytest.mark.parametrize(
    ("dim_v", "dot4", "parts"), [(128, "NVIDIA", 4), (64, "", 8), (24, "AMD", 0), (128, "INTEL", 0)]
)
def test_lanes_take_eight_channels_where_all_have_some(dim_v: int, dot4: str, parts: int) -> None:
    node = ops.attention(*heads_of(64, dim_v), scale=0.125)
    (launch,) = launches_of_attention(node, none_packed, replace(traits_of(False, 16), dot4=dot4))
    assert launch.defines["ALIGNED"] == 1
    assert launch.defines.get("PARTS", 0) == parts
