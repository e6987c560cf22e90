"""Attention over a KV cache, the softmax of its unfused form, and rotary position embedding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.attention import FusedAttention, Softmax, alibi_slopes
from engine.graph.ops.rope import Rope
from engine.graph.tensor import Tensor

Floats = NDArray[np.float32]

# Queries are taken in blocks whose scores, for all heads, fit this many bytes.
_SCORES_BYTES = 32 << 20


def attention(
    node: Tensor,
    out: Operand,
    q: Operand,
    k: Operand,
    v: Operand,
    spans: Operand,
    cells: Operand,
    n_kv: Operand,
    sinks: Operand | None,
) -> None:
    """softmax(scale * k.q, masked) . v for each head; head h reads key-value head h // (H/K)."""
    op = FusedAttention.of(node)
    n = int(n_kv.load((0, 0, 0, 0)))
    keys = k.load(np.s_[0, :n]).transpose(1, 2, 0)  # [K, D, n]
    values = v.load(np.s_[0, :n]).transpose(1, 0, 2)  # [K, n, Dv]
    queries = q.load((0,))  # [T, H, D]
    n_tokens, heads, dim = queries.shape
    kv_heads = len(keys)
    sink = None if sinks is None else sinks.load().reshape(kv_heads, -1, 1, 1)
    step = max(1, _SCORES_BYTES // (4 * heads * max(n, 1)))
    for start in range(0, n_tokens, step):
        block = slice(start, min(start + step, n_tokens))
        grouped = queries[block].reshape(-1, kv_heads, heads // kv_heads, dim)
        grouped = grouped.transpose(1, 2, 0, 3)  # [K, H/K, t, D]
        scores = np.float32(op.scale) * (grouped @ keys[:, None])
        scores = _capped(scores, op.softcap)
        sight = spans.load(np.s_[0, 0, block]), cells.load(np.s_[0, 0, :n])
        if op.alibi:
            fall = _fall(*sight, alibi_slopes(heads, op.alibi))
            scores = scores - fall.reshape(kv_heads, -1, *fall.shape[1:])
        seen = _visible(*sight)
        weights = _weights(scores, seen, sink)
        mixed = weights @ values[:, None]  # [K, H/K, t, Dv]
        out.raw[0, block] = mixed.transpose(2, 0, 1, 3).reshape(-1, heads, mixed.shape[-1])


def softmax(
    node: Tensor,
    out: Operand,
    scores: Operand,
    spans: Operand | None,
    cells: Operand | None,
    sinks: Operand | None,
    mask: Operand | None,
) -> None:
    """Softmax over the last axis (dimension 0) of scale * scores, masked where spans are given."""
    op, seen = Softmax.of(node), None
    sink = None if sinks is None else sinks.load().reshape(-1, 1, 1)
    scaled = _capped(np.float32(op.scale) * scores.load(), op.softcap)
    if spans is not None and cells is not None:
        sight = spans.load((0, 0)), cells.load((0, 0))
        seen = _visible(*sight)
        if op.alibi:
            scaled = scaled - _fall(*sight, alibi_slopes(scaled.shape[-3], op.alibi))
    if mask is not None:
        added = mask.load(np.s_[:, :, : scaled.shape[2]])
        times = [n // m for n, m in zip(scaled.shape[:2], added.shape[:2], strict=True)]
        scaled = scaled + np.tile(added, (*times, 1, 1))
    out.store(_weights(scaled, seen, sink))


def _visible(spans: NDArray[Any], cells: NDArray[Any]) -> NDArray[np.bool_]:
    """[T, C]: whether a query shares a sequence bit with a cell that lies in its span."""
    bits, first, last = spans[:, 0, None], spans[:, 1, None], spans[:, 2, None]
    held, position = cells[:, 0], cells[:, 1]
    seen: NDArray[np.bool_] = ((bits & held) != 0) & (first <= position) & (position <= last)
    return seen


def _fall(spans: NDArray[Any], cells: NDArray[Any], slopes: Floats) -> Floats:
    """[H, T, C]: slopes times the distance from a query to a cell."""
    distance = np.abs(cells[:, 1] - spans[:, 3, None]).astype(np.float32)
    fall: Floats = slopes[:, None, None] * distance
    return fall


def _capped(scores: Floats, softcap: float) -> Floats:
    if not softcap:
        return scores
    capped: Floats = np.float32(softcap) * np.tanh(scores / np.float32(softcap))
    return capped


def _weights(scores: Floats, seen: NDArray[np.bool_] | None, sinks: Floats | None) -> Floats:
    """Softmax over the last axis; `sinks` join maximum and sum. Zeros where nothing is seen."""
    if seen is not None:
        scores = np.where(seen, scores, np.float32(-np.inf))
    top: Floats = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        top = np.maximum(top, sinks)
    top = np.where(np.isneginf(top), np.float32(0), top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks - top)
    mixed: Floats = weights / np.where(total == 0, np.float32(1), total)
    return mixed


def rope(node: Tensor, out: Operand, x: Operand, table: Operand) -> None:
    """Each pair (p, q) becomes (p cos - q sin, p sin + q cos)."""
    values = x.load()  # [1, T, heads, D]
    angles = table.load((0,))  # [1, T, n_rot]
    cos, sin = np.split(angles[:, :, None, :], 2, axis=-1)
    neox = Rope.of(node).neox
    p, q = _pairs(values, angles.shape[-1], neox)
    new_p, new_q = _pairs(out.raw, angles.shape[-1], neox)
    out.raw[...] = values  # Channels that no pair has pass through.
    new_p[...] = p * cos - q * sin
    new_q[...] = p * sin + q * cos


def _pairs(x: NDArray[Any], n_rot: int, neox: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Views of the first and of the second channel of every pair."""
    if neox:
        return x[..., : n_rot // 2], x[..., n_rot // 2 : n_rot]
    return x[..., 0:n_rot:2], x[..., 1:n_rot:2]
