"""Attention query by query and cell by cell, in float64."""

from math import exp, tanh

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.host.operations import attention
from engine.gguf.formats import BF16, F16, F32, I32
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import nmse, run

D, DV, H, K, T, C = 6, 5, 6, 2, 7, 11
SCALE = 0.37

# Two sequences in one cache, scattered; cell 4 is shared, 6 is free, the last two beyond n_kv.
CELLS = np.int32(
    [[1, 0], [2, 0], [1, 1], [2, 1], [3, 2], [1, 4], [0, -1], [1, 3], [2, 3], [1, 0], [3, 1]]
)
N_KV = 9
SPANS = {
    "causal": [[1, 0, 0], [1, 0, 1], [1, 0, 2], [1, 0, 3], [1, 0, 4], [2, 0, 2], [2, 0, 3]],
    "window": [[1, 0, 0], [1, 0, 1], [1, 1, 2], [1, 2, 3], [1, 3, 4], [2, 1, 2], [2, 2, 3]],
    "whole": [[1, 0, 9]] * 4 + [[2, 0, 9]] * 3,
    "padded": [[1, 0, 1], [0, 0, 0], [2, 0, 2], [1, 9, 12], [0, 0, 0], [4, 0, 9], [1, 3, 2]],
}


def definition(q, k, v, spans, softcap=0.0, sinks=None, n_kv=N_KV, slopes=None) -> np.ndarray:
    """[T, H, Dv]."""
    out = np.zeros((len(spans), H, DV))
    for t, (bit, first, last) in enumerate(spans):
        for h in range(H):
            group = h // (H // K)
            weights, total = {}, exp(sinks[h]) if sinks is not None else 0.0
            for c in range(n_kv):
                held, position = CELLS[c]
                if bit & held and first <= position <= last:
                    s = SCALE * float(np.dot(q[t, h].astype(float), k[c, group].astype(float)))
                    s = softcap * tanh(s / softcap) if softcap else s
                    s -= slopes[h] * abs(position - last) if slopes else 0.0
                    weights[c] = exp(s)
                    total += exp(s)
            for c, w in weights.items():
                out[t, h] += w / total * v[c, group]
    return out


def inputs(fmt=F16, seed=15):
    rng = np.random.default_rng(seed)
    tensors = {
        "q": leaf("q", F32, (D, H, T), Role.INPUT),
        "k": leaf("k", fmt, (D, K, C), Role.CACHE),
        "v": leaf("v", fmt, (DV, K, C), Role.CACHE),
        "spans": leaf("spans", I32, (4, T), Role.INPUT),
        "cells": leaf("cells", I32, (2, C), Role.INPUT),
        "n_kv": leaf("n_kv", I32, (1,), Role.INPUT),
    }
    values = {n: rng.standard_normal(tensors[n].shape[::-1][1:]) for n in ("q", "k", "v")}
    # Values that every type holds exactly: quarters below 4.
    values = {
        n: (np.clip(v * 4, -15, 15).round() / 4).astype(np.float32) for n, v in values.items()
    }
    return tensors, values


def given(tensors, values, spans, fmt=F16):
    def as_stored(x):
        if fmt == BF16:
            return (x.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return x.astype(fmt.dtype)

    return {
        tensors["q"]: values["q"],
        tensors["k"]: as_stored(values["k"]),
        tensors["v"]: as_stored(values["v"]),
        tensors["spans"]: np.int32([[*s, s[2]] for s in spans]),
        tensors["cells"]: CELLS,
        tensors["n_kv"]: np.int32([N_KV]),
    }


@pytest.mark.parametrize("spans", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
def test_who_sees_what(host: HostBackend, spans, fmt) -> None:
    tensors, values = inputs(fmt)
    node = ops.attention(*tensors.values(), scale=SCALE)
    got = run(host, node, given(tensors, values, spans, fmt))[0]
    want = definition(values["q"], values["k"], values["v"], spans)
    assert nmse(got, want) < 1e-12
    unseeing = ~want.any(axis=(1, 2))
    assert not got[unseeing].any()


@pytest.mark.parametrize("spans", ["causal", "padded"])
def test_softcap_and_sinks(host: HostBackend, spans: str) -> None:
    tensors, values = inputs()
    sinks = leaf("sinks", F32, (H,), Role.WEIGHT)
    sunk = np.float32([-30, -1, 0, 1, 2, 30])
    node = ops.attention(*tensors.values(), scale=SCALE, softcap=1.5, sinks=sinks)
    got = run(host, node, given(tensors, values, SPANS[spans]) | {sinks: sunk})[0]
    want = definition(values["q"], values["k"], values["v"], SPANS[spans], 1.5, sunk.tolist())
    assert nmse(got, want) < 1e-12


# Of six heads, with at most 8: four slopes by the paper's rule, then the first and third of eight.
SLOPES = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]


@pytest.mark.parametrize("spans", SPANS)
def test_scores_that_fall_with_the_distance(host: HostBackend, spans: str) -> None:
    tensors, values = inputs()
    node = ops.attention(*tensors.values(), scale=SCALE, softcap=1.5, alibi=8.0)
    got = run(host, node, given(tensors, values, SPANS[spans]))[0]
    want = definition(values["q"], values["k"], values["v"], SPANS[spans], 1.5, slopes=SLOPES)
    assert nmse(got, want) < 1e-12


def test_blocks_of_queries_change_nothing(
    host: HostBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors, values = inputs()
    node = ops.attention(*tensors.values(), scale=SCALE)
    whole = run(host, node, given(tensors, values, SPANS["window"]))
    monkeypatch.setattr(attention, "_SCORES_BYTES", 2 * 4 * H * N_KV)  # two queries a block
    assert nmse(run(host, node, given(tensors, values, SPANS["window"])), whole) < 1e-13


def test_large_scores_do_not_overflow(host: HostBackend) -> None:
    tensors, values = inputs()
    values["q"] = values["q"] * 300
    node = ops.attention(*tensors.values(), scale=SCALE)
    got = run(host, node, given(tensors, values, SPANS["causal"]))[0]
    assert np.isfinite(got).all()
    assert np.abs(got).max() <= np.abs(values["v"]).max()


def test_queries_and_caches_may_be_views(host: HostBackend) -> None:
    """q as [D, H, T] out of [D, T, H]; k and v as the first cells of a longer cache."""
    tensors, values = inputs()
    turned = leaf("q", F32, (D, T, H), Role.INPUT)
    longer = {n: leaf(n, F16, (d * K, C + 4), Role.CACHE) for n, d in (("k", D), ("v", DV))}
    window = {n: longer[n].view(0, (d, K, C), (2 * d, 2 * d * K)) for n, d in (("k", D), ("v", DV))}
    node = ops.attention(
        turned.permute(0, 2, 1),
        window["k"],
        window["v"],
        tensors["spans"],
        tensors["cells"],
        tensors["n_kv"],
        scale=SCALE,
    )
    fed = given(tensors, values, SPANS["causal"])
    fed = {t: v for t, v in fed.items() if t.name not in ("q", "k", "v")}
    fed[turned] = np.ascontiguousarray(values["q"].transpose(1, 0, 2))
    for n, cache in longer.items():
        cells = np.full((C + 4, cache.shape[0]), np.nan, np.float16)
        cells[:C] = values[n].reshape(C, -1)
        fed[cache] = cells
    want = definition(values["q"], values["k"], values["v"], SPANS["causal"])
    assert nmse(run(host, node, fed)[0], want) < 1e-12


@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize(("softcap", "alibi"), [(0.0, 0.0), (2.0, 0.0), (2.0, 8.0)])
def test_unfused_is_the_same(host: HostBackend, sunk: bool, softcap: float, alibi: float) -> None:
    """The permuted V of the contract: matmul, softmax, matmul give what attention gives."""
    tensors, values = inputs()
    sinks = leaf("sinks", F32, (H,), Role.WEIGHT) if sunk else None
    q, k, v, spans, cells, _ = tensors.values()
    scores = ops.matmul(k.permute(0, 2, 1, 3), q.permute(0, 2, 1, 3))
    numbers = {"scale": SCALE, "softcap": softcap, "alibi": alibi}
    weights = ops.softmax(scores, spans, cells, sinks=sinks, **numbers)
    mixed = ops.matmul(ops.contiguous(v.permute(1, 2, 0, 3)), weights)
    node = ops.contiguous(mixed.permute(0, 2, 1, 3))
    fed = given(tensors, values, SPANS["padded"])
    del fed[tensors["n_kv"]]  # the unfused form looks at every cell of the view
    levels = np.linspace(-2, 3, H, dtype=np.float32)
    got = run(host, node, fed | ({sinks: levels} if sinks else {}))[0]
    want = definition(
        values["q"],
        values["k"],
        values["v"],
        SPANS["padded"],
        softcap,
        levels.tolist() if sunk else None,
        n_kv=C,
        slopes=SLOPES if alibi else None,
    )
    assert nmse(got, want) < 1e-12


def test_plain_softmax(host: HostBackend) -> None:
    x = leaf("x", F32, (5, 3), Role.INPUT)
    values = np.float32([[1, 2, 3, 4, 5], [-1000, 0, 1000, 0, 0], [-np.inf] * 5])
    got = run(host, ops.softmax(x, scale=0.5), {x: values})[0, 0]
    first = [exp(0.5 * v) for v in range(1, 6)]
    assert np.allclose(got[0], np.array(first) / sum(first), rtol=1e-6)
    assert got[1].tolist() == [0, 0, 1, 0, 0]
    assert got[2].tolist() == [0, 0, 0, 0, 0]
