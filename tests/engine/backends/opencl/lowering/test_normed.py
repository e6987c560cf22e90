"""Norms whose launch the products behind them take over, and which keep theirs. No device."""

from dataclasses import replace

from engine.gguf.formats import F32, Q4_1, Q8_0, Format
from engine.graph import ops
from engine.graph.tensor import Role, Tensor, leaf
from tests.engine.backends.opencl.lowering.test_fuse import CPU, launched, lowered, normed, w, x


def test_items_make_the_one_row_of_a_norm_themselves() -> None:
    """Not where rows are wide or many, where others read it, or where tiles of an item are many."""
    one = normed(n=1)
    assert launched(ops.matmul(w(64, 40), one)) == ["norm_matmul"]
    assert launched(ops.matmul(w(1024, 40), normed(1024, 1))) == ["norm_matmul"]
    assert launched(ops.matmul(w(1056, 40), normed(1056, 1))) == ["norm_chain", "matmul_tiled"]
    assert launched(ops.matmul(w(64, 7000), one)) == ["norm_chain", "matmul_tiled"]
    products = [ops.matmul(w(64, 40, fmt), one) for fmt in (Q4_1, Q8_0)]
    assert launched(*products) == ["norm_chain", "matmul_tiled", "matmul_tiled"]
    layer = ops.layer_norm(x(64, 1), x(64), None, 1e-5)
    assert launched(ops.matmul(w(64, 40), layer)) == ["norm_chain", "matmul_tiled"]
    total = ops.add(one, x(64, 1))
    product = ops.matmul(w(64, 40), ops.rms_norm(total, x(64), 1e-5))
    assert launched(product, total) == ["norm_matmul"]
    assert total in {t.storage for t in lowered(product, total)}


SLOW = replace(CPU, slow_launches=True)


def feed_forward(
    mix: Format = Q4_1,
    down: Format = Q4_1,
    m: int = 64,
    rows: int = 1,
    factor: float = 1.0,
    bias: bool = False,
) -> tuple[Tensor, Tensor]:
    """The product behind attention and a feed-forward: the sum in its middle, and its result."""
    product = ops.matmul(w(64, m, mix), x(64, rows))
    product = ops.add(product, leaf("b", F32, (m,), Role.WEIGHT)) if bias else product
    h = ops.add(ops.scale(product, factor) if factor != 1.0 else product, x(m, rows))
    one = ops.rms_norm(h, x(m), 1e-5)
    gate, up = (ops.matmul(w(m, 96), one) for _ in range(2))
    return h, ops.add(ops.matmul(w(96, m, down), ops.silu(gate, up)), h)


def test_what_stands_behind_attention_is_one_launch_where_these_are_slow() -> None:
    """Of one row and one format, without biases, where each core has a tile of every product."""
    h, y = feed_forward()
    assert launched(y, traits=SLOW) == launched(y, h, traits=SLOW) == ["quantize", "feed_chain"]
    assert h in {t.storage for t in lowered(y, traits=SLOW)}
    parts = ["quantize", "matmul_add", "norm_gated", "matmul_add"]
    assert launched(y) == parts
    for other in ({"mix": Q8_0}, {"down": Q8_0}, {"factor": 0.5}, {"bias": True}):
        assert launched(feed_forward(**other)[1], traits=SLOW) == parts  # type: ignore[arg-type]
    for other in ({"m": 32}, {"rows": 2}):
        parts = launched(feed_forward(**other)[1], traits=SLOW)  # type: ignore[arg-type]
        assert "feed_chain" not in parts
