"""What becomes one launch and, above all, what does not. No device."""

from collections.abc import Sequence

import pytest

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.tiles.layouts import TILED
from engine.device.backend import PLAIN, BufferType
from engine.errors import BadSetting
from engine.gguf.formats import BF16, F16, F32, I32, Q4_1, Q8_0, Format
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.lowered import ArgsortMerge
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor, leaf

CPU = DeviceTraits(True, 2, 4096, 32768)


def x(*shape: int, fmt: Format = F32) -> Tensor:
    return leaf("x", fmt, shape, Role.INPUT)


def w(k: int, m: int, fmt: Format = Q4_1) -> Tensor:
    return leaf("w", fmt, (k, m), Role.WEIGHT)


def layout(tensor: Tensor) -> BufferType:
    return BufferType("d", TILED if tensor.fmt.quantized else PLAIN, 128, 1 << 30)


def lowered(
    *wanted: Tensor, keep: Sequence[Tensor] = (), traits: DeviceTraits = CPU
) -> tuple[Tensor, ...]:
    nodes = [t for t in Graph.of(wanted).nodes if t.op not in VIEW_OPS]
    kept = frozenset(t.storage for t in (*wanted, *keep))
    return fuse(lower(nodes, layout, traits), kept, traits)


def launched(*wanted: Tensor, keep: Sequence[Tensor] = (), traits: DeviceTraits = CPU) -> list[str]:
    """The operations that take a launch."""
    made = lowered(*wanted, keep=keep, traits=traits)
    return [str(t.op) for t in made if t.op is not Op.RESULT]


def normed(k: int = 64, n: int = 3) -> Tensor:
    return ops.rms_norm(x(k, n), x(k), 1e-5)


def test_nothing_is_fused_unless_told_what_is_kept() -> None:
    nodes = [normed()]
    nodes.append(ops.add(nodes[0], x(64, 3)))
    assert lower(nodes, layout, CPU) == tuple(nodes)


def test_norm_for_one_product() -> None:
    assert launched(ops.matmul(w(64, 40), normed())) == ["norm_chain", "matmul_tiled"]


def test_what_is_kept_does_not_vanish() -> None:
    norm = normed()
    product = ops.matmul(w(64, 40), norm)
    assert launched(product, keep=[norm]) == ["norm_chain", "matmul_tiled"]
    assert norm in {t.storage for t in lowered(product, keep=[norm])}
    assert norm not in {t.storage for t in lowered(product)}


def test_what_others_read_does_not_vanish() -> None:
    norm = normed()
    product = ops.matmul(w(64, 40), norm)
    other = ops.scale(norm, 2.0)
    assert launched(product, other) == ["norm_chain", "matmul_tiled", "scale"]
    part = norm.view(0, (32, 3), norm.strides[1:2])
    second = ops.matmul(w(32, 8, Q8_0), part)
    assert launched(product, second) == [
        "norm_chain",
        "matmul_tiled",
        "quantize",
        "matmul_tiled",
    ]


def test_rows_of_another_shape() -> None:
    """The product's rows are halves of what is normalised."""
    halves = normed(64, 3).reshape(32, 6)
    assert launched(ops.matmul(w(32, 8), halves)) == ["rms_norm", "quantize", "matmul_tiled"]


def test_a_view_of_a_norm_is_not_the_norm() -> None:
    norm = normed(96, 4)
    part = norm.view(128, (64, 4), norm.strides[1:2])
    assert launched(ops.matmul(w(64, 8), part)) == ["rms_norm", "quantize", "matmul_tiled"]


def test_products_of_plain_weights_need_no_12_bits() -> None:
    assert launched(ops.matmul(w(64, 8, F16), normed())) == ["rms_norm", "matmul"]


def test_norm_and_sum() -> None:
    total = ops.add(normed(), x(64, 3))
    assert launched(total) == ["norm_chain"]
    product = ops.matmul(w(64, 8), ops.rms_norm(total, x(64), 1e-5))
    assert launched(product) == ["norm_chain", "matmul_tiled"]
    # The sum is not written where nobody reads it, yet it is where somebody does.
    assert total in {t.storage for t in lowered(product, total)}


def test_a_sum_that_a_product_takes_as_it_is() -> None:
    """What follows a layer with norms behind its parts has no norm before it."""
    total = ops.add(normed(), x(64, 3))
    product = ops.add(ops.matmul(w(64, 64), total), total)
    assert launched(product) == ["norm_chain", "matmul_add"]
    assert total in {t.storage for t in lowered(product)}


def test_layer_norms() -> None:
    """As the other norm; with a bias or without."""
    for bias in (x(64), None):
        norm = ops.layer_norm(x(64, 3), x(64), bias, 1e-5)
        assert launched(ops.matmul(w(64, 8), norm)) == ["norm_chain", "matmul_tiled"]
        assert launched(ops.add(norm, x(64, 3))) == ["norm_chain"]
        total = ops.add(normed(), x(64, 3))
        behind = ops.layer_norm(total, x(64), bias, 1e-5)
        assert launched(ops.matmul(w(64, 8), behind), total) == ["norm_chain", "matmul_tiled"]


def test_sums_that_tile_or_do_not_fit_blocks() -> None:
    assert launched(ops.add(normed(), x(64))) == ["rms_norm", "add"]
    assert launched(ops.add(x(64, 3), normed(32, 3))) == ["rms_norm", "add"]
    assert launched(ops.add(normed(50), x(50, 3))) == ["rms_norm", "add"]
    across = x(3, 64).permute(1, 0)
    assert launched(ops.add(normed(), across)) == ["rms_norm", "add"]
    halves = x(2, 64, fmt=F16).permute(1, 0)  # four bytes apart, as f32 without gaps
    assert launched(ops.add(normed(n=2), halves)) == ["rms_norm", "add"]


def test_a_norm_added_to_itself() -> None:
    norm = normed()
    assert launched(ops.add(norm, norm)) == ["rms_norm", "add"]


def test_activation() -> None:
    gated = ops.silu(x(64, 3), x(64, 3))
    assert launched(ops.matmul(w(64, 8), gated)) == ["activation_quantize", "matmul_tiled"]
    for act in (ops.gelu, ops.gelu_erf, ops.quick_gelu):
        product = ops.matmul(w(64, 8), act(x(64, 3)))
        assert launched(product) == ["activation_quantize", "matmul_tiled"]
    across = ops.silu(x(3, 64).permute(1, 0))
    assert launched(ops.matmul(w(64, 8), across)) == ["silu", "quantize", "matmul_tiled"]
    halves = x(2, 64, fmt=F16).permute(1, 0)  # four bytes apart, as f32 without gaps
    across = ops.silu(x(64, 2), halves)
    assert launched(ops.matmul(w(64, 8), across)) == ["silu", "quantize", "matmul_tiled"]


def test_product_and_sum() -> None:
    product = ops.matmul(w(64, 40), x(64, 3))
    assert launched(ops.add(product, x(40, 3))) == ["quantize", "matmul_add"]
    assert launched(ops.add(x(40, 3), product)) == ["quantize", "matmul_add"]
    assert launched(ops.add(product, x(40))) == ["quantize", "matmul_add"]


def bias(m: int) -> Tensor:
    return leaf("b", F32, (m,), Role.WEIGHT)


def test_products_and_their_biases() -> None:
    given = x(64, 3)
    products = [ops.matmul(w(64, m), given) for m in (64, 64, 24)]
    sums = [ops.add(p, bias(p.shape[0])) for p in products]
    assert launched(*sums) == ["quantize", "matmul_tiled"]
    assert launched(products[0], sums[1]) == ["quantize", "matmul_tiled"]
    for one in (sums[2], ops.scale(sums[2], 0.5), ops.scale(products[2], 0.5)):
        assert launched(ops.add(one, x(24, 3))) == ["quantize", "matmul_add"]
    twice = ops.scale(ops.scale(products[2], 0.5), 0.5)
    assert launched(ops.add(twice, x(24, 3)))[-2:] == ["scale", "add"]
    gated = ops.silu(sums[0], sums[1])
    assert launched(ops.matmul(w(64, 8), gated)) == [
        *("quantize", "matmul_tiled", "activation_quantize", "matmul_tiled")
    ]


def test_a_bias_stays_apart_from_a_product_that_others_read() -> None:
    product = ops.matmul(w(64, 40), x(64, 3))
    total = ops.add(product, bias(40))
    assert launched(total, keep=[product]) == ["quantize", "matmul_tiled", "add"]
    assert launched(ops.add(product.reshape(20, 6), bias(20)))[-1] == "add"


def test_products_and_sums_that_stay_apart() -> None:
    single = ["quantize", "matmul_tiled", "add"]
    product = ops.matmul(w(64, 40), x(64, 3))
    assert launched(ops.add(product, x(20, 3))) == single
    assert launched(ops.add(product, x(40, 3, fmt=F16))) == single
    assert launched(ops.add(product, x(3, 40).permute(1, 0))) == single
    assert launched(ops.add(product, product)) == single
    assert launched(ops.add(product.reshape(20, 6), x(20, 6))) == single
    assert launched(ops.add(x(40, 6), ops.matmul(w(64, 40), x(64, 1))))[1] == "matmul_tiled"
    plain = ops.matmul(w(64, 40, F16), x(64, 3))
    assert launched(ops.add(plain, x(40, 3))) == ["matmul", "add"]
    rows = x(64, 3)
    both = [ops.matmul(w(64, 40), rows) for _ in range(2)]
    assert launched(ops.add(both[0], x(40, 3)), both[1]) == single
    total = ops.add(product, x(40, 3))
    assert launched(total, keep=[product]) == single


def gated(*products: Tensor, k: int = 64) -> list[str]:
    return launched(ops.matmul(w(k, 8), ops.silu(*products)))


def test_gate_and_up() -> None:
    rows = x(64, 3)
    gate, up = (ops.matmul(w(64, 64), rows) for _ in range(2))
    assert gated(gate, up) == ["quantize", "matmul_gated", "matmul_tiled"]
    assert gated(gate, gate) == ["quantize", "matmul_tiled", "activation_quantize", "matmul_tiled"]
    assert gated(gate) == ["quantize", "matmul_tiled", "activation_quantize", "matmul_tiled"]
    both = ["matmul_tiled", "activation_quantize", "matmul_tiled"]
    other = ops.matmul(w(64, 64, Q8_0), rows)
    assert gated(gate, other) == ["quantize", "matmul_tiled", *both]
    elsewhere = ops.matmul(w(64, 64), x(64, 3))
    assert gated(gate, elsewhere) == ["quantize", "matmul_tiled", "quantize", *both]
    joint = ops.matmul(w(64, 128), rows)
    halves = [joint.view(at, (64, 3), joint.strides[1:2]) for at in (0, 256)]
    assert gated(*halves) == ["quantize", *both]


def test_an_item_a_tile_must_keep_every_core_busy() -> None:
    rows = x(64, 3)
    gate, up = (ops.matmul(w(64, 32), rows) for _ in range(2))
    assert gated(gate, up, k=32) == [
        "quantize",
        "matmul_tiled",
        "activation_quantize",
        "matmul_tiled",
    ]


class Attention:
    """A layer's attention, of which tests replace parts."""

    def __init__(self, n: int = 3, cache: Format = F16, v_cache: Format = F16) -> None:
        self.n = n
        self.table, self.ids = x(32, n), x(n, fmt=I32)
        self.k_cache = leaf("k", cache, (64, 256), Role.CACHE)
        self.v_cache = leaf("v", v_cache, (64, 256), Role.CACHE)
        self.q, self.k, self.v = x(32, 4, n), x(32, 2, n), x(64, n)

    def made(self, **other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Attention and both writes; `other` replaces tables, ids and norms by name."""
        q_table, k_table = (other.get(name, self.table) for name in ("q_table", "k_table"))
        ids = other.get("v_ids", self.ids)
        q, k = other.get("q", self.q), other.get("k", self.k)
        keys = ops.rope(k, k_table, neox=True).reshape(64, self.n)
        k_written = ops.set_rows(self.k_cache, keys, self.ids)
        v_written = ops.set_rows(self.v_cache, self.v, ids)
        cells = [
            t.view(0, (32, 2, 256), (32 * t.fmt.bytes, 64 * t.fmt.bytes))
            for t in (k_written, v_written)
        ]
        shape = [x(4, self.n, fmt=I32), x(2, 256, fmt=I32), x(1, fmt=I32)]
        mixed = ops.attention(ops.rope(q, q_table, neox=True), *cells, *shape, scale=1.0)
        return mixed, k_written, v_written


def test_rope_and_stores() -> None:
    mixed, keys, values = Attention().made()
    assert launched(mixed) == ["rope_store", "attention"]
    nodes = lowered(mixed)
    assert {t.storage for t in nodes} >= {keys.storage, values.storage}


def test_parts_of_a_joint_projection() -> None:
    """Of phi3 and others: the rows of values lie apart."""
    parts, joint = Attention(), x(256, 3)
    parts.q = joint.view(0, (32, 4, 3), (128, joint.strides[1]))
    parts.k = joint.view(512, (32, 2, 3), (128, joint.strides[1]))
    parts.v = joint.view(768, (64, 3), joint.strides[1:2])
    assert launched(parts.made()[0]) == ["rope_store", "attention"]


def test_norms_of_heads() -> None:
    parts = Attention()
    q, k = ops.rms_norm(parts.q, x(32), 1e-6), ops.rms_norm(parts.k, x(32), 1e-6)
    assert launched(parts.made(q=q, k=k)[0]) == ["rope_store", "attention"]
    assert launched(parts.made(k=k)[0]) == ["rms_norm", "rope_store", "attention"]
    whole = ops.rms_norm(x(128, 3), x(128), 1e-6).reshape(32, 4, 3)
    expected = ["rms_norm", "rms_norm", "rope_store", "attention"]
    assert launched(parts.made(q=whole, k=k)[0]) == expected


SINGLE = ["rope", "rope", "set_rows", "set_rows", "attention"]


def test_rope_and_stores_that_differ() -> None:
    parts = Attention()
    stored = ["rope", "rope", "rope_store", "attention"]
    assert launched(parts.made(k_table=x(32, 3))[0]) == stored
    assert sorted(launched(parts.made(v_ids=x(3, fmt=I32))[0])) == sorted(SINGLE)
    assert sorted(launched(Attention(v_cache=BF16).made()[0])) == sorted(SINGLE)


def test_stores_without_rope() -> None:
    """Keys and values go into their caches together; what stands between them keeps them apart."""
    parts = Attention()

    def made(k: Tensor, v: Tensor, v_ids: Tensor) -> Tensor:
        k_written = ops.set_rows(parts.k_cache, k, parts.ids)
        v_written = ops.set_rows(parts.v_cache, v, v_ids)
        cells = [t.view(0, (32, 2, 256), (64, 128)) for t in (k_written, v_written)]
        seen = [x(4, 3, fmt=I32), x(2, 256, fmt=I32), x(1, fmt=I32)]
        return ops.attention(parts.q, *cells, *seen, scale=1.0)

    rows = x(64, 3)
    assert launched(made(rows, parts.v, parts.ids)) == ["rope_store", "attention"]
    joint = x(128, 3)
    halves = [joint.view(at, (64, 3), joint.strides[1:2]) for at in (0, 256)]
    assert launched(made(*halves, parts.ids)) == ["rope_store", "attention"]
    apart = ["set_rows", "set_rows", "attention"]
    assert launched(made(rows, parts.v, x(3, fmt=I32))) == apart
    across = x(3, 64).permute(1, 0)
    assert launched(made(across, parts.v, parts.ids)) == apart


def test_a_cache_that_is_read_in_between() -> None:
    """What reads the keys before the values are there keeps the writes apart."""
    parts = Attention()
    mixed, keys, _ = parts.made()
    copied = ops.cast(keys, F32)
    nodes = [t for t in Graph.of([mixed, copied]).nodes if t.op not in VIEW_OPS]
    nodes.remove(copied)
    for at in range(len(nodes) + 1):
        order = [*nodes[:at], copied, *nodes[at:]]
        if order.index(copied) < order.index(keys):
            continue
        kept = frozenset(t.storage for t in (mixed, copied))
        got = fuse(lower(order, layout, CPU), kept, CPU)
        seen = [str(t.op) for t in got if t.op is not Op.RESULT]
        assert seen.index("copy") > seen.index("rope_store" if "rope_store" in seen else "set_rows")


def test_attention_in_12_bits() -> None:
    mixed = Attention().made()[0]
    product = ops.matmul(w(128, 8), mixed.reshape(128, 3))
    assert launched(product) == ["rope_store", "attention", "matmul_tiled"]
    by_heads = ops.matmul(w(32, 8), mixed)
    assert launched(by_heads) == ["rope_store", "attention", "quantize", "matmul_tiled"]


def test_names_force_and_forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    total = ops.add(normed(), x(64, 3))
    product = ops.matmul(w(64, 8), ops.rms_norm(total, x(64), 1e-5))
    single = ["rms_norm", "add", "rms_norm", "quantize", "matmul_tiled"]
    for text, expected in (
        ("none", single),
        ("norm_add", ["norm_chain", *single[2:]]),
        ("norm_quantize,norm_add", ["norm_chain", "norm_chain", "matmul_tiled"]),
        ("all", ["norm_chain", "matmul_tiled"]),
    ):
        monkeypatch.setenv("CUTAWAY_FUSE", text)
        assert launched(product) == expected
    monkeypatch.setenv("CUTAWAY_FUSE", "norm_add,nothing")
    with pytest.raises(BadSetting, match="norm_quantize"):
        launched(product)


def test_results_follow_the_node_that_writes_them() -> None:
    total = ops.add(normed(), x(64, 3))
    product = ops.matmul(w(64, 8), ops.rms_norm(total, x(64), 1e-5))
    nodes = lowered(product, total)
    chain, result, _ = nodes
    assert (chain.op, result.op, result.src) == (Op.NORM_CHAIN, Op.RESULT, ())
    assert result in chain.src
    assert fuse(nodes, frozenset({product, total}), CPU) == nodes


def test_what_has_no_sources_is_no_result() -> None:
    """A range is launched, unlike what another node's launch writes."""
    numbers = ops.arange(0, 64)
    nodes = lowered(ops.mul(normed(), numbers))
    assert [t.op for t in nodes].count(Op.ARANGE) == 1
    assert numbers in nodes


def test_long_rows_are_sorted_in_blocks_that_are_merged() -> None:
    short, long = ops.argsort(x(256, 3)), ops.argsort(x(257, 3))
    assert lowered(short) == (short,)
    blocks, merged = lowered(long)
    assert merged.storage is long
    assert merged.op is Op.ARGSORT_MERGE
    assert ArgsortMerge.of(merged).blocks is blocks
    assert blocks.shape == long.shape
