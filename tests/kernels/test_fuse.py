"""Fused nodes against the single ones that they replace: same graph, same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.gguf.formats import F16, F32, I32, Q4_1, Q6_K, Q8_0, Format
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import QUANTIZED, random_blocks
from tests.kernels.harness import Array, nmse, run_all
from tests.kernels.values import Operands

ROWS = (1, 3, 8, 70)
# A sum in another order turns some roundings to 12 bits or f16 the other way.
LIMIT = {"f32": 1e-12, "12 bits": 1e-9, "f16": 1e-9}


def weight(made: Operands, k: int, m: int, fmt: Format = Q4_1) -> Tensor:
    """A matrix in the device's own layout."""
    tensor = leaf(f"w{len(made.values)}", fmt, (k, m), Role.WEIGHT)
    if fmt.quantized:
        made.values[tensor] = random_blocks(made.rng, fmt, m, k)
    else:
        made.values[tensor] = made.rng.standard_normal((m, k)).astype(str(fmt.dtype))
    return tensor


def lowered_ops(
    backend: OpenCLBackend, wanted: Sequence[Tensor], kept: Sequence[Tensor]
) -> list[Op]:
    """The operations that are launched; weights lie in tiles."""
    graph = Graph.of(wanted)
    kinds = {
        t: backend.buffer_type(t.fmt, t.shape, matmul_only=t.role is Role.WEIGHT)
        for t in graph.leaves
    }
    nodes = [t for t in graph.nodes if t.op not in VIEW_OPS]
    lowered = backend.fuse(backend.lower(nodes, kinds.get), frozenset(t.storage for t in kept))
    return [t.op for t in lowered if t.op is not Op.RESULT]


def check(
    backend: OpenCLBackend, made: Operands, wanted: Sequence[Tensor], expected: list[Op], kind: str
) -> None:
    """`wanted` come out the same, fused into `expected`."""
    assert lowered_ops(backend, wanted, wanted) == expected
    single = run_all(backend, wanted, made.values, matmul_only=True)
    fused = run_all(backend, wanted, made.values, matmul_only=True, fused=True)
    for got, want in zip(fused, single, strict=True):
        assert nmse(numbers(got), numbers(want)) < LIMIT[kind]


def norm_and(product: Op, made: Op, backend: OpenCLBackend, rows: int) -> list[Op]:
    """A norm before a product: of one row, items that take vectors make it themselves."""
    alone = rows == 1 and backend.info.traits.items_take_vectors
    return [made] if alone else [Op.NORM_CHAIN, product]


def numbers(values: Array) -> Array:
    """Poison that nobody wrote compares as 0."""
    return np.nan_to_num(values.astype(np.float64))


def strided_rows(made: Operands, n0: int, rows: int) -> Tensor:
    """A view of rows that lie apart, in two groups where their number is even."""
    whole = made.make(F32, n0 + 40, rows)
    step = whole.strides[1]
    if rows % 2 or rows == 2:
        return whole.view(16, (n0, rows), (step,))
    return whole.view(16, (n0, rows // 2, 2), (2 * step, step))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n0", [32, 576])
def test_norm_quantize(either: OpenCLBackend, n0: int, rows: int) -> None:
    made = Operands()
    x, norm = strided_rows(made, n0, rows), made.make(F32, n0)
    product = ops.matmul(weight(made, n0, 40), ops.rms_norm(x, norm, 1e-5))
    expected = norm_and(Op.MATMUL_TILED, Op.NORM_MATMUL, either, rows)
    check(either, made, [product], expected, "12 bits")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("first", [True, False])
def test_norm_add(either: OpenCLBackend, first: bool, rows: int) -> None:
    made = Operands()
    x, added, norm = strided_rows(made, 96, rows), strided_rows(made, 96, rows), made.make(F32, 96)
    normed = ops.rms_norm(x, norm, 1e-6)
    total = ops.add(normed, added) if first else ops.add(added, normed)
    check(either, made, [total], [Op.NORM_CHAIN], "f32")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("weighted", [True, False])
def test_norm_add_norm_quantize(either: OpenCLBackend, weighted: bool, rows: int) -> None:
    made = Operands()
    x, added = made.make(F32, 640, rows), strided_rows(made, 640, rows)
    added = added if rows == 1 or rows % 2 else made.make(F32, 640, rows)
    norms = [made.make(F32, 640) if weighted else None for _ in range(2)]
    total = ops.add(ops.rms_norm(x, norms[0], 1e-6), added)
    product = ops.matmul(weight(made, 640, 33), ops.rms_norm(total, norms[1], 1e-3))
    expected = norm_and(Op.MATMUL_TILED, Op.NORM_MATMUL, either, rows)
    check(either, made, [total, product], expected, "12 bits")


@pytest.mark.each_value
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("fmt", [Q4_1, Q6_K], ids=str)
def test_a_norm_and_many_tiles(either: OpenCLBackend, fmt: Format, rows: int) -> None:
    """Items make several tiles, the last one fewer; products with biases end within tiles."""
    made = Operands()
    x, norm = made.make(F32, 512, rows), made.make(F32, 512)
    normed = ops.rms_norm(x, norm, 1e-5)
    products = [ops.matmul(weight(made, 512, m, fmt), normed) for m in (1000, 330, 97)]
    bias = made.make(F32, 330, role=Role.WEIGHT)
    wanted = [products[0], ops.add(products[1], bias), products[2]]
    check(either, made, wanted, norm_and(Op.MATMUL_TILED, Op.NORM_MATMUL, either, rows), "12 bits")
    gate, up = (ops.matmul(weight(made, 512, 1568, fmt), normed) for _ in range(2))
    product = ops.matmul(weight(made, 1568, 40), ops.silu(gate, up))
    both = norm_and(Op.MATMUL_GATED, Op.NORM_GATED, either, rows)
    check(either, made, [product], [*both, Op.MATMUL_TILED], "12 bits")


def feed_forward(made: Operands, m: int, hidden: int, fmt: Format, rows: int) -> list[Tensor]:
    """What stands behind attention in a layer, and the sum in its middle."""
    mix = ops.matmul(weight(made, 256, m, fmt), made.make(F32, 256, rows))
    h = ops.add(mix, made.make(F32, m, rows))
    normed = ops.rms_norm(h, made.make(F32, m), 1e-5)
    gate, up = (ops.matmul(weight(made, m, hidden, fmt), normed) for _ in range(2))
    return [h, ops.add(ops.matmul(weight(made, hidden, m, fmt), ops.silu(gate, up)), h)]


def test_feed_chain(backend: OpenCLBackend) -> None:
    """One launch behind another: they share counters, which each must leave as it found them."""
    traits = replace(backend.info.traits, is_cpu=True, slow_launches=True)
    handle = open_device(backend.name).handle
    slow = OpenCLBackend(Device(replace(backend.info, traits=traits), handle))
    for m, hidden, fmt in ((512, 768, Q6_K), (544, 1056, Q4_1), (576, 1536, Q4_1)):
        made = Operands()
        wanted = feed_forward(made, m, hidden, fmt, 1)
        check(slow, made, wanted, [Op.QUANTIZE, Op.FEED_CHAIN], "12 bits")
    made = Operands()
    parts = [Op.QUANTIZE, Op.MATMUL_ADD, Op.NORM_CHAIN, Op.MATMUL_GATED, Op.MATMUL_ADD]
    check(slow, made, feed_forward(made, 544, 1056, Q4_1, 3), parts, "12 bits")


GATES = [ops.silu, ops.gelu, ops.gelu_erf, ops.quick_gelu]


@pytest.mark.each_value
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("act", GATES, ids=lambda op: op.__name__)
def test_activation_quantize(either: OpenCLBackend, act: object, rows: int) -> None:
    made = Operands()
    gate, up = strided_rows(made, 1056, rows), strided_rows(made, 1056, rows)
    for operands in ((gate, up), (gate,)):
        product = ops.matmul(weight(made, 1056, 40), act(*operands))  # type: ignore[operator]
        check(either, made, [product], [Op.ACTIVATION_QUANTIZE, Op.MATMUL_TILED], "12 bits")


@dataclass(frozen=True)
class Heads:
    """What one attention needs, sizes named as in architecture's letters."""

    tokens: int
    dim: int = 64
    dim_v: int = 64
    heads: int = 6
    kv_heads: int = 2
    n_rot: int = 64
    cells: int = 256
    neox: bool = True
    normed: bool = False
    cache: Format = F16


CASES = [
    *(Heads(n) for n in (1, 70)),
    *(Heads(n, neox=False, heads=9, kv_heads=3) for n in (3, 8)),
    *(Heads(n, dim=256, dim_v=96, n_rot=256, heads=4, kv_heads=1, normed=True) for n in (1, 70)),
    Heads(3, dim=48, dim_v=32, n_rot=20, neox=False, normed=True),
    Heads(8, dim=50, dim_v=32, n_rot=38, cache=F32),
    Heads(1, cells=2048),
    Heads(2, cells=2048, normed=True),
]


class Attention:
    """q, k and v as a joint product leaves them, rope, the cache's writes, attention."""

    def __init__(self, made: Operands, sizes: Heads) -> None:
        s = self.sizes = sizes
        n, self.made = s.tokens, made
        widths = (s.heads * s.dim, s.kv_heads * s.dim, s.kv_heads * s.dim_v)
        whole = made.make(F32, sum(widths) + 5, n)
        step = whole.strides[1]
        self.q = whole.view(0, (s.dim, s.heads, n), (s.dim * 4, step))
        self.k = whole.view(widths[0] * 4, (s.dim, s.kv_heads, n), (s.dim * 4, step))
        self.v = made.make(F32, widths[2], n)
        self.k_cache = made.make(s.cache, s.kv_heads * s.dim, s.cells + 3)
        self.v_cache = made.make(s.cache, s.kv_heads * s.dim_v, s.cells + 3)
        angles = made.rng.uniform(0, 6, (n, s.n_rot // 2))
        self.table = made.put(F32, np.hstack([np.cos(angles), np.sin(angles)]))
        ids = made.rng.permutation(s.cells)[:n]
        ids[n // 2 :: 3] = -1 if n > 1 else ids[0]
        self.ids = made.put(I32, ids)
        cells = np.stack([np.ones(s.cells), np.arange(s.cells)], 1)
        self.cells = made.put(I32, cells)
        last = made.rng.integers(0, s.cells, n)
        self.spans = made.put(I32, np.stack([np.ones(n), np.zeros(n), last, np.zeros(n)], 1))
        self.n_kv = made.put(I32, np.array([s.cells]))
        self.norms = [made.make(F32, s.dim) if s.normed else None for _ in range(2)]

    def roped(self, x: Tensor, norm: Tensor | None, table: Tensor | None = None) -> Tensor:
        x = ops.rms_norm(x, norm, 1e-6) if norm is not None else x
        return ops.rope(x, table or self.table, self.sizes.neox)

    def stored(self, cache: Tensor, values: Tensor) -> Tensor:
        return ops.set_rows(cache, values.reshape(cache.shape[0], self.sizes.tokens), self.ids)

    def read(self, cache: Tensor, dim: int) -> Tensor:
        s = self.sizes
        head = cache.fmt.row_bytes(dim)
        return cache.view(0, (dim, s.kv_heads, s.cells), (head, cache.strides[1]))

    def mixed(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        s = self.sizes
        k, v = self.read(keys, s.dim), self.read(values, s.dim_v)
        return ops.attention(q, k, v, self.spans, self.cells, self.n_kv, scale=s.dim**-0.5)


def attended_ops(backend: OpenCLBackend, mixed: Tensor) -> list[Op]:
    """The operations of attention: where its cells are cut, with a merge, which groups of lanes do
    themselves.
    """
    if not backend.info.traits.items_take_vectors:
        return [Op.ATTENTION]
    return [node.op for node in backend.lower([mixed], lambda t: None)]


@pytest.mark.parametrize("sizes", CASES, ids=str)
def test_rope_store(either: OpenCLBackend, sizes: Heads) -> None:
    """Attention and both caches, with cells that nothing is written to."""
    made = Operands()
    parts = Attention(made, sizes)
    keys = parts.stored(parts.k_cache, parts.roped(parts.k, parts.norms[1]))
    values = parts.stored(parts.v_cache, parts.v)
    mixed = parts.mixed(parts.roped(parts.q, parts.norms[0]), keys, values)
    single = attended_ops(either, mixed)
    at_once = sizes.tokens == 1 and not either.info.traits.items_take_vectors
    stored = [] if at_once else [Op.ROPE_STORE]
    check(either, made, [mixed, keys, values], [*stored, *single], "f16")


@pytest.mark.parametrize("neox", [True, False])
def test_attention_of_a_token_in_float64(either: OpenCLBackend, neox: bool) -> None:
    """Turned, stored, attended and merged from 8 shares, by formulas of its own."""
    made = Operands()
    parts = Attention(made, s := Heads(1, cells=2048, neox=neox, normed=neox))
    made.values[parts.spans.storage][..., 2] = s.cells  # all cells are seen
    keys = parts.stored(parts.k_cache, parts.roped(parts.k, parts.norms[1]))
    values = parts.stored(parts.v_cache, parts.v)
    mixed = parts.mixed(parts.roped(parts.q, parts.norms[0]), keys, values)
    got = run_all(either, [mixed, keys], made.values, matmul_only=True, fused=True)[0]
    cos, sin = np.split(made.exact(parts.table).reshape(-1), 2)
    first = slice(0, s.dim // 2) if neox else slice(0, None, 2)
    second = slice(s.dim // 2, None) if neox else slice(1, None, 2)

    def turned(x: Tensor, norm: Tensor | None) -> NDArray[np.float64]:
        heads = made.exact(x).reshape(-1, s.dim)
        if norm is not None:
            heads = heads / np.sqrt(np.square(heads).mean(-1, keepdims=True) + 1e-6)
            heads = heads * made.exact(norm).reshape(-1)
        out = np.empty_like(heads)
        out[:, first] = heads[:, first] * cos - heads[:, second] * sin
        out[:, second] = heads[:, first] * sin + heads[:, second] * cos
        return out

    k, v = (made.exact(c).reshape(-1, s.kv_heads, s.dim) for c in (parts.k_cache, parts.v_cache))
    place = int(made.values[parts.ids].reshape(-1)[0])
    k[place] = turned(parts.k, parts.norms[1]).astype(np.float16)
    v[place] = made.exact(parts.v).reshape(-1, s.dim).astype(np.float16)
    want = []
    for head, q in enumerate(turned(parts.q, parts.norms[0])):
        of = head // (s.heads // s.kv_heads)
        weights = np.exp(k[: s.cells, of] @ q * s.dim**-0.5)
        want.append(weights / weights.sum() @ v[: s.cells, of])
    assert nmse(got, np.array(want).reshape(got.shape)) < 1e-9


def test_more_queries_of_a_head_than_a_tile_has(either: OpenCLBackend) -> None:
    """Several groups read the new cell then: it is stored before."""
    made = Operands()
    parts = Attention(made, Heads(1, heads=8, kv_heads=1))
    keys = parts.stored(parts.k_cache, parts.roped(parts.k, None))
    values = parts.stored(parts.v_cache, parts.v)
    mixed = parts.mixed(parts.roped(parts.q, None), keys, values)
    check(either, made, [mixed, keys], [Op.ROPE_STORE, *attended_ops(either, mixed)], "f16")


def test_a_token_of_padding_is_not_stored(either: OpenCLBackend) -> None:
    made = Operands()
    parts = Attention(made, Heads(1))
    made.values[parts.ids] = np.full_like(made.values[parts.ids], -1)
    before = made.values[parts.k_cache]
    keys = parts.stored(parts.k_cache, parts.roped(parts.k, None))
    mixed = parts.mixed(parts.roped(parts.q, None), keys, parts.stored(parts.v_cache, parts.v))
    _, after = run_all(either, [mixed, keys], made.values, matmul_only=True, fused=True)
    np.testing.assert_array_equal(after.reshape(before.shape), before)


def test_attention_runs_again(either: OpenCLBackend) -> None:
    """Groups count those that are done: behind a launch from 0 on."""
    made = Operands()
    parts = Attention(made, Heads(1, cells=2048))
    keys = parts.stored(parts.k_cache, parts.roped(parts.k, None))
    mixed = parts.mixed(parts.roped(parts.q, None), keys, parts.stored(parts.v_cache, parts.v))
    once, often = (
        run_all(either, [mixed], made.values, matmul_only=True, fused=True, times=n)[0]
        for n in (1, 3)
    )
    np.testing.assert_array_equal(once, often)


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", CASES, ids=str)
def test_attention_quantize(either: OpenCLBackend, sizes: Heads) -> None:
    made = Operands()
    parts = Attention(made, sizes)
    mixed = parts.mixed(parts.q, parts.k_cache, parts.v_cache)
    product = ops.matmul(
        weight(made, sizes.dim_v * sizes.heads, 40, Q8_0), mixed.reshape(-1, sizes.tokens)
    )
    single = attended_ops(either, mixed)
    check(either, made, [product], [*single, Op.MATMUL_TILED], "12 bits")
    check(either, made, [product, mixed], [*single, Op.MATMUL_TILED], "12 bits")


@pytest.mark.parametrize(
    ("fmt", "m", "rows"),
    [(Q4_1, 33, 1), (Q4_1, 192, 3), (Q4_1, 1000, 8), (Q4_1, 40, 70), (Q8_0, 64, 1), (Q6_K, 70, 3)],
    ids=str,
)
def test_product_and_sum(either: OpenCLBackend, fmt: Format, m: int, rows: int) -> None:
    """A residual packed or strided, on either side of the sum, and a bias."""
    made = Operands()
    x, packed, bias = made.make(F32, 256, rows), made.make(F32, m, rows), made.make(F32, m)
    whole = made.make(F32, m + 5, rows)
    strided = whole.view(20, (m, rows), whole.strides[1:2])
    product = ops.matmul(weight(made, 256, m, fmt), x)
    for total in (ops.add(product, packed), ops.add(strided, product), ops.add(product, bias)):
        check(either, made, [total], [Op.QUANTIZE, Op.MATMUL_ADD], "f32")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fmt", [Q4_1, Q8_0, F16], ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_products_and_biases(either: OpenCLBackend, fmt: Format, rows: int) -> None:
    """Each product of a launch with a bias of its own; one of them alone, and with a residual."""
    made = Operands()
    x = made.make(F32, 256, rows)
    sizes = (70, 33, 40)
    products = [ops.matmul(weight(made, 256, m, fmt), x) for m in sizes]
    biases = [made.make(F32, m, role=Role.WEIGHT) for m in sizes]
    sums = [ops.add(*pair) for pair in zip(products, biases, strict=True)]
    single = [Op.QUANTIZE, Op.MATMUL_TILED]
    check(either, made, sums, single, "f32")
    check(either, made, [products[0], sums[1], products[2]], single, "f32")
    residual = made.make(F32, 70, rows)
    for one in (sums[0], ops.scale(sums[0], 0.375), ops.scale(products[0], -3.0)):
        check(either, made, [ops.add(one, residual)], [Op.QUANTIZE, Op.MATMUL_ADD], "f32")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("fmt", "rows", "m"),
    [(Q4_1, 1, 1056), *((Q4_1, rows, 160) for rows in ROWS[1:])]
    + [(fmt, ROWS[i % 3], 160) for i, fmt in enumerate(QUANTIZED) if fmt is not Q4_1],
    ids=str,
)
def test_gate_and_up(either: OpenCLBackend, fmt: Format, rows: int, m: int) -> None:
    """Each activation with half of the formats."""
    made, act = Operands(), (ops.silu, ops.gelu)[QUANTIZED.index(fmt) % 2]
    x = made.make(F32, 256, rows)
    gate, up = (ops.matmul(weight(made, 256, m, fmt), x) for _ in range(2))
    for operands in ((gate, up), (up, gate)):
        product = ops.matmul(weight(made, m, 40), act(*operands))
        check(either, made, [product], [Op.QUANTIZE, Op.MATMUL_GATED, Op.MATMUL_TILED], "12 bits")


@pytest.mark.each_value
@pytest.mark.parametrize("rows", ROWS)
def test_weights_that_are_floats(either: OpenCLBackend, rows: int) -> None:
    """Activations go into panels as they are."""
    made = Operands()
    x, norm = made.make(F32, 256, rows), made.make(F32, 256)
    normed = ops.rms_norm(x, norm, 1e-5)
    gate, up, down = (weight(made, k, m, F16) for k, m in ((256, 160), (256, 160), (160, 256)))
    product = ops.matmul(down, ops.silu(ops.matmul(gate, normed), ops.matmul(up, normed)))
    fused = [Op.NORM_CHAIN, Op.MATMUL_GATED, Op.MATMUL_ADD]
    check(either, made, [ops.add(product, x)], fused, "f32")
    alone = ops.matmul(down, ops.silu(made.make(F32, 160, rows)))
    check(either, made, [alone], [Op.ACTIVATION_QUANTIZE, Op.MATMUL_TILED], "f32")


def test_gate_and_up_round_and_down_does_not(either: OpenCLBackend) -> None:
    """Panels of two kinds in one launch there are not."""
    made = Operands()
    x = made.make(F32, 256, 3)
    for first, last in ((Q4_1, F16), (F16, Q4_1)):
        gate, up = (ops.matmul(weight(made, 256, 160, first), x) for _ in range(2))
        product = ops.matmul(weight(made, 160, 40, last), ops.silu(gate, up))
        fused = [Op.QUANTIZE, Op.MATMUL_TILED, Op.ACTIVATION_QUANTIZE, Op.MATMUL_TILED]
        check(either, made, [product], fused, "f32")


def test_one_input_in_panels_of_both_kinds(either: OpenCLBackend) -> None:
    made = Operands()
    x = made.make(F32, 256, 5)
    products = [ops.matmul(weight(made, 256, 40, fmt), x) for fmt in (Q4_1, F16, Q8_0)]
    fused = [Op.QUANTIZE, Op.MATMUL_TILED, Op.QUANTIZE, Op.MATMUL_TILED, Op.MATMUL_TILED]
    check(either, made, products, fused, "f32")


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_gate_whose_panels_have_another_form_than_the_next_product(
    either: OpenCLBackend, rows: int
) -> None:
    """Two rows meet weights of bytes as pairs and others as digits, where processors have both."""
    made, k = Operands(), 256
    x = made.make(F32, k, rows)
    gate, up = weight(made, k, k, Q8_0), weight(made, k, k, Q8_0)
    product = ops.matmul(
        weight(made, k, 64, Q6_K), ops.silu(ops.matmul(gate, x), ops.matmul(up, x))
    )
    single = run_all(either, [product], made.values, matmul_only=True)
    fused = run_all(either, [product], made.values, matmul_only=True, fused=True)
    assert nmse(numbers(fused[0]), numbers(single[0])) < LIMIT["12 bits"]
