"""Shapes and types of the operations' results."""

import pytest

from engine.gguf.formats import BF16, F16, F32, I32, I64, Q4_1, Q4_K, Q8_0
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Role, Tensor, leaf


def t(*shape: int, fmt=F32) -> Tensor:
    return leaf("t", fmt, shape, Role.INPUT)


def i(*shape: int) -> Tensor:
    return t(*shape, fmt=I32)


def see(n: int, cells: int) -> tuple[Tensor, Tensor, Tensor]:
    return i(4, n), i(2, cells), i(1)


MADE = {
    "add": (lambda: ops.add(t(6, 4), t(3, 2)), F32, (6, 4)),
    "mul of f16": (lambda: ops.mul(t(6, 4, fmt=F16), t(6)), F16, (6, 4)),
    "silu": (lambda: ops.silu(t(6, 4), t(6, 4)), F32, (6, 4)),
    "matmul": (lambda: ops.matmul(t(32, 7, fmt=Q4_1), t(32, 3)), F32, (7, 3)),
    "matmul grouped": (lambda: ops.matmul(t(8, 7, 2), t(8, 3, 6, 5)), F32, (7, 3, 6, 5)),
    "rms_norm": (lambda: ops.rms_norm(t(8, 3), t(8), 1e-5), F32, (8, 3)),
    "rope": (lambda: ops.rope(t(8, 2, 3, fmt=F16), t(6, 3), True), F32, (8, 2, 3)),
    "rows": (lambda: ops.rows(t(32, 9, fmt=Q4_1), i(5)), F32, (32, 5)),
    "rows of integers": (lambda: ops.rows(i(32, 9), i(5)), I32, (32, 5)),
    "set_rows": (lambda: ops.set_rows(t(8, 9, fmt=F16), t(8, 5), i(5)), F16, (8, 9)),
    "cast": (lambda: ops.cast(t(8, 3), BF16), BF16, (8, 3)),
    "contiguous": (lambda: ops.contiguous(t(8, 3).permute(1, 0)), F32, (3, 8)),
    "attention": (
        lambda: ops.attention(t(8, 6, 3), t(8, 2, 9), t(5, 2, 9), *see(3, 9), scale=1),
        F32,
        (5, 6, 3),
    ),
    "softmax": (lambda: ops.softmax(t(9, 3, 6), *see(3, 9)[:2]), F32, (9, 3, 6)),
    "softmax of f16": (lambda: ops.softmax(t(9, 3, fmt=F16), mask=t(9, 4, fmt=F16)), F32, (9, 3)),
    "masked_attention": (
        lambda: ops.masked_attention(t(8, 6, 3), t(8, 2, 7), t(5, 2, 7), t(7, 4), scale=1),
        F32,
        (5, 6, 3),
    ),
    "clamp of bf16": (lambda: ops.clamp(t(6, fmt=BF16), 0, 0), BF16, (6,)),
    "add_id of one expert": (lambda: ops.add_id(t(6, 2, 3), t(6, 1), i(2, 3)), F32, (6, 2, 3)),
    "xielu": (lambda: ops.xielu(t(6, 4), 0.8, 0.7, 0.5), F32, (6, 4)),
    "swiglu_limit": (lambda: ops.swiglu_limit(t(6, 4), t(6, 4), 1.7, 7), F32, (6, 4)),
    "matmul_id": (
        lambda: ops.matmul_id(t(32, 7, 4, fmt=Q4_1), t(32, 2, 3), i(4, 3)),
        F32,
        (7, 4, 3),
    ),
    "edit": (lambda: ops.edit(t(8, 2, 3), i(3), i(3), i(8, 5), t(8, 5), t(16, 2)), F32, (8, 2, 3)),
    "route": (
        lambda: ops.route(t(8, 3), 2, Scoring.SIGMOID, t(8), 4, 1),
        I32,
        (2, 3),
    ),
    "route_weights": (
        lambda: ops.route_weights(t(8, 3), i(2, 3), Scoring.SOFTMAX, gains=t(8)),
        F32,
        (2, 3),
    ),
    "combine": (lambda: ops.combine(t(32, 2, 3), t(2, 3)), F32, (32, 3)),
    "matmul of a permuted row": (lambda: ops.matmul(t(1, 8).permute(1, 0), t(8)), F32, (1,)),
    "layer_norm": (lambda: ops.layer_norm(t(8, 3, fmt=F16), t(8), t(8), 1e-5), F16, (8, 3)),
    "l2_norm": (lambda: ops.l2_norm(t(8, 3), 1e-5), F32, (8, 3)),
    "sum_rows": (lambda: ops.sum_rows(t(8, 3, 2, fmt=F16)), F32, (1, 3, 2)),
    "mean": (lambda: ops.mean(t(8, 3, fmt=BF16)), F32, (1, 3)),
    "variance": (lambda: ops.variance(t(8, 3, fmt=F16)), F32, (1, 3)),
    "argsort": (lambda: ops.argsort(t(8, 3)), I32, (8, 3)),
    "best": (lambda: ops.best(t(8, 3), 2), F32, (4, 3)),
    "top_k": (lambda: ops.top_k(t(8, 3), 2), I32, (2, 3)),
    "rope of blocks": (lambda: ops.rope(t(32, 2, 3, fmt=Q8_0), t(32, 3), True), F32, (32, 2, 3)),
    "rows of batches": (lambda: ops.rows(t(8, 9, 2, 3), i(5, 2, 3)), F32, (8, 5, 2, 3)),
    "set_rows of batches": (
        lambda: ops.set_rows(t(8, 9, 4, 6), t(8, 5, 4, 6), t(5, 2, 3, fmt=I64)),
        F32,
        (8, 9, 4, 6),
    ),
    "cast into blocks": (lambda: ops.cast(t(64, 3), Q8_0), Q8_0, (64, 3)),
    "copy_into": (lambda: ops.copy_into(t(8, 3), t(4, 6, fmt=F16)), F16, (4, 6)),
    "copy_into the same blocks": (
        lambda: ops.copy_into(t(256, 3, 2, fmt=Q4_K), t(256, 6, fmt=Q4_K)),
        Q4_K,
        (256, 6),
    ),
    "set_": (lambda: ops.set_(t(8, 3), t(2, 2), 32, (32,)), F32, (8, 3)),
    "pad": (lambda: ops.pad(t(8, 3, fmt=F16), 1, -2, 3, 4), F16, (9, 1, 4, 5)),
    "concat": (lambda: ops.concat(t(8, 3), t(8, 2), 1), F32, (8, 5)),
    "concat along a new dimension": (lambda: ops.concat(t(8, 3), t(8, 3), 3), F32, (8, 3, 1, 2)),
    "stack": (lambda: ops.stack(0, t(1, 3), t(2, 3), t(4, 3)), F32, (7, 3)),
    "repeat": (lambda: ops.repeat(i(8, 3), 2, 4), I32, (8, 3, 4)),
    "arange": (lambda: ops.arange(1, 10, 3), F32, (3,)),
    "slice_": (lambda: ops.slice_(t(8, 9), 1, 2, 9, 3), F32, (8, 3)),
    "im2col": (lambda: ops.im2col(t(3, 2, 4, 5), t(9, 7, 4, 2), (2, 1)), F32, (24, 4, 6, 2)),
    "conv_2d": (lambda: ops.conv_2d(t(3, 2, 4, 5), t(9, 7, 4, 2), (2, 1)), F32, (4, 6, 5, 2)),
    "conv_3d": (lambda: ops.conv_3d(t(2, 2, 2, 15), t(4, 6, 8, 6), 3, (2, 2, 2)), F32, (5, 48)),
    "avg_pool_2d": (lambda: ops.avg_pool_2d(t(9, 7, 4), 3, 2, 1), F32, (5, 4, 4)),
    "interpolate": (lambda: ops.interpolate(t(9, 7), (3, 14, 1, 2)), F32, (3, 14, 1, 2)),
}


@pytest.mark.parametrize("name", MADE)
def test_results(name: str) -> None:
    make, fmt, dims = MADE[name]
    made = make()
    assert (made.fmt, made.dims) == (fmt, dims)


def test_contiguous_leaves_packed_tensors_alone() -> None:
    x = t(8, 3)
    assert ops.contiguous(x) is x
    assert ops.contiguous(x.permute(1, 0)).op is Op.COPY


def test_sources_keep_their_places() -> None:
    """A missing optional source is None, not left out."""
    x, w = t(8, 3), t(8)
    assert ops.rms_norm(x, w, 1e-5).src == (x, w)
    assert ops.rms_norm(x, None, 1e-5).src == (x, None)
    sinks = t(6)
    assert ops.softmax(t(9, 3, 6), sinks=sinks).src[1:] == (None, None, sinks, None)


def test_what_a_node_says_about_its_windows() -> None:
    """2-D and 3-D patches have the same attributes, sizes as (width, height, depth)."""
    flat = ops.im2col(t(3, 2, 4, 5), t(9, 7, 4, 2), (2, 1), (1, 0), (1, 3))
    assert dict(flat.attr) == {
        "kernel": (3, 2, 1),
        "channels": 4,
        "depth": 1,
        "out_depth": 1,
        "stride": (2, 1, 1),
        "pad": (1, 0, 0),
        "dilation": (1, 3, 1),
    }
    deep = ops.im2col_3d(t(2, 2, 3, 15), t(4, 6, 8, 6), 3, (2, 2, 1), (0, 0, 1))
    assert dict(deep.attr) == {
        "kernel": (2, 2, 3),
        "channels": 3,
        "depth": 8,
        "out_depth": 8,
        "stride": (2, 2, 1),
        "pad": (0, 0, 1),
        "dilation": (1, 1, 1),
    }


def test_writes_are_views_of_their_targets() -> None:
    cache = t(8, 9, fmt=F16)
    part = cache.view(16, (8, 3), (32,))
    for written in (ops.copy_into(t(24), part), ops.set_rows(part, t(8, 2), i(2))):
        assert (written.storage, written.offset) == (cache, 16)
        assert (written.shape, written.strides) == (part.shape, part.strides)


def test_arange_has_no_sources_and_is_a_node() -> None:
    node = ops.arange(0, 4)
    graph = Graph.of([ops.scale(node, 2.0)])
    assert node in graph.nodes
    assert graph.leaves == ()
