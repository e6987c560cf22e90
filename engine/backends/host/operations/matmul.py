"""Matrix products in float32 (BLAS); routing to experts and the sum of their results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.experts import NEAR, Route, RouteWeights, Scoring
from engine.graph.tensor import Tensor

# Weights are converted this many bytes of float32 at a time, so that they stay in the cache.
_PANEL_BYTES = 4 << 20


def matmul(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """out[m, n] = sum_k a[k, m] * b[k, n]; each batch of a serves b2/a2 (b3/a3) batches of b."""
    a3, a2, n_rows = a.raw.shape[:3]
    x = b.load()  # [b3, b2, N, K]
    b3, b2, n, k = x.shape
    x = x.reshape(a3, b3 // a3, a2, b2 // a2, n, k)
    y = out.raw.reshape(a3, b3 // a3, a2, b2 // a2, n, n_rows)
    step = max(1, _PANEL_BYTES // (4 * a3 * a2 * k))
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        panel = a.load(np.s_[:, :, rows])[:, None, :, None]  # [a3, 1, a2, 1, rows, K]
        y[..., rows] = x @ panel.swapaxes(-1, -2)


def matmul_id(node: Tensor, out: Operand, a: Operand, b: Operand, ids: Operand) -> None:
    """out[:, u, t] = a[:, :, ids[u, t]]^T b[:, u mod s, t], one expert after the other.

    Zeros where an id names none.
    """
    x = b.load((0,))  # [T, s, K]
    chosen = ids.load((0, 0))  # [T, U]
    for expert in np.unique(chosen):
        t, u = np.nonzero(chosen == expert)
        known = 0 <= expert < a.raw.shape[1]
        out.raw[0, t, u] = x[t, u % x.shape[1]] @ a.load((0, expert)).T if known else 0


Array = NDArray[Any]

_LEAST_SUM = np.float32(6.103515625e-5)
"""What a sum of weights counts as at least: the smallest normal f16, as in other engines."""


def route(node: Tensor, out: Operand, logits: Operand, bias: Operand | None) -> None:
    """The best `used` of the best groups, row by row."""
    op, x = Route.of(node), logits.load((0, 0))  # [T, X]
    ranked = _score(x, op.score) if op.by_score else x
    if bias is not None:
        ranked = ranked + bias.load((0, 0, 0))
    order = _descending(ranked)
    if op.groups > 1:
        # Stable: within what is allowed, and behind it, the order stays.
        closed = np.take_along_axis(_closed(ranked, op), order, axis=-1)
        order = np.take_along_axis(order, np.argsort(closed, axis=-1, kind="stable"), axis=-1)
    out.store(order[None, None, :, : op.used])


def route_weights(
    node: Tensor, out: Operand, logits: Operand, ids: Operand, gains: Operand | None
) -> None:
    """Scores of the chosen, normalised and scaled."""
    op = RouteWeights.of(node)
    x, chosen = logits.load((0, 0)), ids.load((0, 0))  # [T, X], [T, U]
    if op.score is Scoring.LATE_SOFTMAX:
        weights = _score(np.take_along_axis(x, chosen, axis=-1), Scoring.SOFTMAX)
    elif op.score is Scoring.SPARSE_MIXER:
        weights = _mixed(x, chosen)
    else:
        weights = np.take_along_axis(_score(x, op.score), chosen, axis=-1)
    if op.normalised:
        weights = weights / np.maximum(weights.sum(-1, keepdims=True), _LEAST_SUM)
    weights = weights * np.float32(op.scale)
    if gains is not None:
        weights = weights * gains.load((0, 0, 0))[chosen]
    out.raw[0, 0] = weights


def combine(node: Tensor, out: Operand, weights: Operand, y: Operand) -> None:
    """The weighted sum over a token's experts."""
    out.raw[0, 0] = np.einsum("tue,tu->te", y.load((0,)), weights.load((0, 0)))


def _score(x: Array, score: Scoring) -> Array:
    match score:
        case Scoring.SOFTMAX:
            e = np.exp(x - x.max(-1, keepdims=True))
            return np.asarray(e / e.sum(-1, keepdims=True))
        case Scoring.SIGMOID:
            return np.asarray(1 / (1 + np.exp(-x)))
        case Scoring.SQRT_SOFTPLUS:
            return np.sqrt(np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, np.float32(20))))))
        case Scoring.LATE_SOFTMAX | Scoring.SPARSE_MIXER:
            return x


def _mixed(x: Array, chosen: NDArray[np.int32]) -> Array:
    """[T, U]: each chosen expert's part of a softmax over those near it that are not before it."""
    x, weights = x.copy(), []
    for u in range(chosen.shape[-1]):
        at = chosen[:, u : u + 1]
        own = np.take_along_axis(x, at, axis=-1)
        near = own - x <= np.float32(NEAR) * np.maximum(np.abs(x), own)
        weights.append(1 / np.where(near, np.exp(x - own), 0).sum(-1))
        np.put_along_axis(x, at, -np.inf, axis=-1)
    return np.stack(weights, axis=-1)


def _descending(x: Array) -> Array:
    """Indices of each row, the largest first, equal ones in their order, NaN last."""
    return np.argsort(-x, axis=-1, kind="stable")


def _closed(ranked: Array, op: Route) -> Array:
    """[T, X]: whether an expert is in a group that is not among the best."""
    tokens, experts = ranked.shape
    runs = ranked.reshape(tokens, op.groups, -1)
    best = np.take_along_axis(runs, _descending(runs)[..., : 2 if op.sums_two else 1], axis=-1)
    places = np.argsort(_descending(best.sum(-1)), axis=-1, kind="stable")  # [T, groups]
    return np.repeat(places >= op.groups_used, experts // op.groups, axis=-1)
