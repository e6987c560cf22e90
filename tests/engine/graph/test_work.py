"""Bytes and operations of nodes against numbers counted by hand."""

import numpy as np

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.tiles.layouts import TILED
from engine.device.backend import BufferType
from engine.gguf.formats import F16, F32, I32, Q4_1
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, leaf
from engine.graph.work import work_of


def test_a_product():
    w = leaf("w", Q4_1, (64, 10), Role.WEIGHT)  # rows of two blocks of 20 bytes
    x = leaf("x", F32, (64, 3), Role.INPUT)
    work = work_of(ops.matmul(w, x), {})
    assert work.bytes == 10 * 40 + 4 * 64 * 3 + 4 * 10 * 3
    assert work.flops == 2 * 64 * 10 * 3


def test_gate_and_up_in_one_launch():
    x = leaf("x", F32, (64, 3), Role.INPUT)
    gate, up, down = (
        leaf("w", Q4_1, shape, Role.WEIGHT) for shape in ((64, 96), (64, 96), (96, 8))
    )
    gated = ops.silu(ops.matmul(gate, x), ops.matmul(up, x))
    nodes = Graph.of([ops.matmul(down, gated)]).nodes
    traits = DeviceTraits(True, 1, 64, 1 << 15)
    tiles = BufferType("d", TILED, 64, 1 << 30)
    _, both, _ = fuse(lower(nodes, lambda t: tiles, traits), frozenset(nodes[-1:]), traits)
    work = work_of(both, {})
    assert work.flops == 2 * 2 * 64 * 96 * 3
    # Two weights in blocks of 20 bytes, and panels of four rows in blocks of 80.
    assert work.bytes == 2 * 96 * 40 + 4 * 2 * 80 + 4 * 3 * 80


def test_a_product_of_activations():
    a = leaf("a", F32, (8, 5, 2), Role.INPUT)
    b = leaf("b", F32, (8, 3, 4), Role.INPUT)  # two of b read one of a
    assert work_of(ops.matmul(a, b), {}).flops == 2 * 8 * 5 * 3 * 4


def test_experts_are_read_once_a_pair():
    w = leaf("w", Q4_1, (64, 10, 8), Role.WEIGHT)  # rows of two blocks of 20 bytes
    x = leaf("x", F32, (64, 1, 3), Role.INPUT)
    for used, read in ((2, 6), (4, 8)):
        work = work_of(ops.matmul_id(w, x, leaf("ids", I32, (used, 3), Role.INPUT)), {})
        assert work.bytes == read * 10 * 40 + 4 * 64 * 3 + 4 * used * 3 + 4 * 10 * used * 3
        assert work.flops == 2 * 64 * 10 * used * 3


def test_rows_are_counted_not_their_table():
    table = leaf("table", F16, (16, 1000), Role.WEIGHT)
    cache = leaf("cache", F16, (16, 1000), Role.CACHE)
    ids = leaf("ids", I32, (3,), Role.INPUT)
    gathered = ops.rows(table, ids)
    assert work_of(gathered, {}).bytes == 3 * 16 * 2 + 3 * 16 * 4 + 3 * 4
    assert work_of(ops.set_rows(cache, gathered, ids), {}).bytes == 3 * 16 * 4 + 3 * 16 * 2 + 3 * 4


def test_attention_counts_what_is_seen():
    d, heads, kv_heads, cells, tokens = 16, 4, 2, 256, 4
    q = leaf("q", F32, (d, heads, tokens), Role.INPUT)
    k, v = (leaf(name, F16, (d, kv_heads, cells), Role.CACHE) for name in "kv")
    spans = leaf("spans", I32, (4, tokens), Role.INPUT)
    seen = leaf("cells", I32, (2, cells), Role.INPUT)
    n_kv = leaf("n_kv", I32, (1,), Role.INPUT)
    node = ops.attention(q, k, v, spans, seen, n_kv, scale=1.0)
    # Positions 10 to 12 with a window of 8, and padding, which sees nothing.
    rows = [[1, 3, 10, 0], [1, 4, 11, 0], [1, 5, 12, 0], [0, 0, 0, 0]]
    work = work_of(node, {spans: np.array(rows, np.int32)})
    assert work.flops == 2 * (8 + 8 + 8) * heads * (d + d)
    assert work.bytes == 10 * kv_heads * (d + d) * 2 + 2 * (d * heads * tokens * 4)
    assert work_of(node, {spans: np.zeros((4, 4), np.int32)}).flops == 0
    # Two sequences at the same positions, each with cells of its own.
    rows = [[1, 0, 9, 0], [1, 0, 10, 0], [2, 0, 9, 0], [0, 0, 0, 0]]
    work = work_of(node, {spans: np.array(rows, np.int32)})
    assert work.flops == 2 * (10 + 11 + 10) * heads * (d + d)
    assert work.bytes == (11 + 10) * kv_heads * (d + d) * 2 + 2 * (d * heads * tokens * 4)


def test_the_rest_moves_its_operands():
    a, b = (leaf(name, F32, (8, 4), Role.INPUT) for name in "ab")
    work = work_of(ops.add(a, b), {})
    assert (work.bytes, work.flops) == (3 * 8 * 4 * 4, 8 * 4)


def test_a_recurrence_reads_a_slot_and_makes_a_state():
    dim, key, heads, tokens, slots = 8, 16, 4, 3, 5
    q, k = (leaf(name, F32, (key, 2, tokens), Role.INPUT) for name in "qk")
    v = leaf("v", F32, (dim, heads, tokens), Role.INPUT)
    g, beta = (leaf(name, F32, (heads, tokens), Role.INPUT) for name in "gb")
    state = leaf("state", F32, (dim * key * heads, slots), Role.CACHE)
    at = leaf("at", I32, (2,), Role.INPUT)
    node = ops.delta_net(q, k, v, g, beta, state, at, eps=1e-6, tiled=True)
    work = work_of(node, {})
    moved = 2 * dim * key * heads + (2 * key * 2 + 2 * dim * heads + 2 * heads) * tokens + 2
    assert work.bytes == 4 * moved
    assert work.flops == 7 * dim * key * heads * tokens
    # The same where the new state goes into a slot.
    size = dim * key * heads
    tail = node.view(node.strides[1] * tokens, (size, 1))
    kept = ops.set_rows(state, tail, leaf("to", I32, (1,), Role.INPUT))
    nodes = Graph.of([ops.scale(node.view(0, (dim * heads, tokens)), 2.0)], [kept]).nodes
    traits = DeviceTraits(True, 1, 64, 1 << 15)
    plain = BufferType("d", "plain", 64, 1 << 30)
    launched = lower([n for n in nodes if n.op not in VIEW_OPS], lambda t: plain, traits)
    fused = fuse(launched, frozenset(nodes[-1:]), traits)[0]
    assert work_of(fused, {}).bytes == 4 * (moved + 1)
