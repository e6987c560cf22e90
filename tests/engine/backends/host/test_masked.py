"""Softmax with a mask tensor, attention made of single operations, and caches of blocks."""

from math import exp, tanh

import gguf
import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.dequantize import QUANTIZABLE
from engine.gguf.formats import F16, F32, I32, Q4_0, Q8_0
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.engine.backends.host.operands import assert_near
from tests.kernels.blocks import exact
from tests.kernels.harness import nmse, run
from tests.kernels.values import Operands

Row = list[float]


def softmax(scores: Row, mask: Row, scale: float, softcap: float, sink: float | None) -> Row:
    """One row. Nothing visible gives zeros, with a sink or without one."""
    scaled = [scale * s for s in scores]
    if softcap:
        scaled = [softcap * tanh(s / softcap) for s in scaled]
    scaled = [s + m for s, m in zip(scaled, mask, strict=True)]
    top = max([*scaled, *([] if sink is None else [sink])])
    if top == -np.inf:
        return [0.0] * len(scores)
    weights = [exp(s - top) for s in scaled]
    total = sum(weights) + (0 if sink is None else exp(sink - top))
    return [w / total for w in weights]


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
@pytest.mark.parametrize("shape", [(9, 5), (9, 8), (9, 5, 2), (9, 7, 4, 3)], ids=str)
@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("sunk", [False, True])
def test_masks(host: HostBackend, fmt, shape: tuple[int, ...], softcap: float, sunk: bool) -> None:
    """Scores [9, 5, 4, 3]; the mask may have more rows, and is repeated over heads and batches."""
    x = Operands(50)
    scores = x.make(F32, 9, 5, 4, 3, spread=3)
    numbers = np.where(x.rng.random(shape[::-1]) < 0.4, -np.inf, x.rng.standard_normal(shape[::-1]))
    numbers[..., 2, :] = -np.inf  # the third query sees nothing
    mask = x.put(fmt, numbers)
    levels = [-1.0, 0.0, 2.0, 30.0]
    sinks = x.put(F32, np.float32(levels)) if sunk else None
    node = ops.softmax(scores, mask=mask, scale=0.7, softcap=softcap, sinks=sinks)
    of_mask = x.exact(mask)
    want = np.empty((3, 4, 5, 9))
    for b, h, t in np.ndindex(3, 4, 5):
        want[b, h, t] = softmax(
            x.exact(scores)[b, h, t].tolist(),
            of_mask[b % len(of_mask), h % of_mask.shape[1], t].tolist(),
            float(np.float32(0.7)),
            softcap,
            levels[h] if sunk else None,
        )
    got = run(host, node, x.values)
    assert_near(got, want, small=1e-7)
    assert not got[:, :, 2].any()


def test_a_permuted_mask_and_permuted_scores(host: HostBackend) -> None:
    x = Operands(51)
    scores, mask = x.make(F16, 5, 9).permute(1, 0), x.make(F16, 6, 9).permute(1, 0)
    of_scores, of_mask = x.exact(scores)[0, 0], x.exact(mask)[0, 0]
    rows = zip(of_scores.tolist(), of_mask.tolist(), strict=False)  # the mask has one row more
    want = [softmax(s, m, 1.0, 0.0, None) for s, m in rows]
    got = run(host, ops.softmax(scores, mask=mask), x.values)
    assert_near(got, np.array(want)[None, None], small=1e-7)


@pytest.mark.parametrize("fmt", [F32, F16], ids=str)
@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_single_operations(host: HostBackend, fmt, sunk: bool, masked: bool) -> None:
    """q [8, 6, 5], k [8, 2, 7], v [3, 2, 7]: heads 0 to 2 read the first of the two, 3 to 5 the
    second.
    """
    x = Operands(52)
    q, k, v = x.make(F32, 8, 6, 5), x.make(fmt, 8, 2, 7), x.make(fmt, 3, 2, 7)
    numbers = np.where(np.tril(np.ones((6, 7)), 2) > 0, 0.0, -np.inf)
    mask = x.put(F16, numbers) if masked else None
    levels = np.linspace(-2, 2, 6)
    sinks = x.put(F32, levels) if sunk else None
    node = ops.masked_attention(q, k, v, mask, scale=0.35, sinks=sinks)
    want = np.empty((1, 5, 6, 3))
    for t, h in np.ndindex(5, 6):
        scores = x.exact(k)[0, :, h // 3] @ x.exact(q)[0, t, h]
        row = numbers[t].tolist() if masked else [0.0] * 7
        sink = float(levels[h]) if sunk else None
        weights = softmax(scores.tolist(), row, float(np.float32(0.35)), 0.0, sink)
        want[0, t, h] = np.array(weights) @ x.exact(v)[0, :, h // 3]
    assert nmse(run(host, node, x.values), want) < 1e-11


BLOCKS_OF_32 = [fmt for fmt in QUANTIZABLE if fmt.block == 32]


@pytest.mark.parametrize("fmt", BLOCKS_OF_32, ids=str)
@pytest.mark.parametrize("sunk", [False, True])
def test_attention_over_a_cache_of_blocks(host: HostBackend, fmt, sunk: bool) -> None:
    """What is attended to is what the blocks hold: keys [64, 2, C], values [32, 2, C]."""
    x = Operands(53)
    kind = gguf.GGMLQuantizationType[fmt.name]
    q = x.make(F32, 64, 4, 3)
    caches, held = [], []
    for name, dim in (("k", 64), ("v", 32)):
        cache = leaf(name, fmt, (dim * 2, 6), Role.CACHE)
        rows = gguf.quantize(x.rng.standard_normal((6, dim * 2)).astype(np.float32), kind)
        x.values[cache] = rows
        held.append(exact(rows, fmt).reshape(6, 2, dim))
        caches.append(cache.view(0, (dim, 2, 6), (fmt.row_bytes(dim), cache.strides[1])))
    spans = x.put(I32, np.int32([[1, 0, 2, 0], [1, 0, 3, 0], [1, 2, 4, 0]]))
    cells = x.put(I32, np.int32([[1, i] for i in range(6)]))
    n_kv = x.put(I32, np.int32([5]))
    levels = [-1.0, 0.0, 1.0, 2.0]
    sinks = x.put(F32, np.float32(levels)) if sunk else None
    node = ops.attention(q, *caches, spans, cells, n_kv, scale=0.125, sinks=sinks)
    want = np.empty((1, 3, 4, 32))
    for t, h in np.ndindex(3, 4):
        first, last = ((0, 2), (0, 3), (2, 4))[t]
        seen = slice(first, last + 1)
        scores = (held[0][seen, h // 2] @ x.exact(q)[0, t, h]).tolist()
        sink = levels[h] if sunk else None
        weights = softmax(scores, [0.0] * len(scores), 0.125, 0.0, sink)
        want[0, t, h] = np.array(weights) @ held[1][seen, h // 2]
    assert nmse(run(host, node, x.values), want) < 1e-11


@pytest.mark.parametrize("fmt", [Q8_0, Q4_0], ids=str)
def test_written_and_read_through_blocks(host: HostBackend, fmt) -> None:
    """A cell's key goes in by set_rows and comes out in the score."""
    x = Operands(54)
    cache, new = leaf("k", fmt, (32, 4), Role.CACHE), x.make(F32, 32, 2)
    q, ids = x.make(F32, 32, 1), x.put(I32, np.int32([3, 1]))
    x.values[cache] = np.zeros((4, fmt.row_bytes(32)), np.uint8)
    got = run(host, ops.matmul(ops.set_rows(cache, new, ids), q), x.values)[0, 0, 0]
    rows = x.exact(new)[0, 0].astype(np.float32)
    stored = exact(gguf.quantize(rows, gguf.GGMLQuantizationType[fmt.name]), fmt)
    want = stored @ x.exact(q)[0, 0, 0]
    np.testing.assert_allclose(got, [0, want[1], 0, want[0]], rtol=1e-6, atol=1e-6)
