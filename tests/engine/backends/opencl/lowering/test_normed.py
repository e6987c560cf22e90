"""Norms whose launch the products behind them take over, and which keep theirs. No device."""

from engine.gguf.formats import Q4_1, Q8_0
from engine.graph import ops
from tests.engine.backends.opencl.lowering.test_fuse import launched, lowered, normed, w, x


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
