"""Where heads look: softmax of the scaled products of a token's query and the cached keys.

Nothing of it is stored while a model runs; it is computed again from what entered the attention.
"""

import re
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.graph.graph import Graph, is_numbered
from engine.graph.op import Op
from engine.graph.ops.attention import FusedAttention, Softmax, alibi_slopes
from engine.graph.ops.matmul import Matmul
from engine.graph.tensor import Tensor
from engine.kvcache.causal import BITS, POSITION, CausalCache
from engine.layers.step import LayerCache
from engine.protocol import Attended

# A layer's number in the name that a model gave: Qcur-3, Qcur-3 (reshaped).
_LAYER = re.compile(r"-(\d+)(?: \(|$)")
Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Looking:
    """The attention of one layer over its cells: `q` [D, H, T] as it enters, and the node's numbers
    and sinks [H].
    """

    layer: int
    kept: LayerCache
    q: Tensor
    scale: float
    softcap: float
    sinks: Tensor | None
    alibi: float


def lookings(graph: Graph, layers: Sequence[LayerCache | None]) -> list[Looking]:
    """The attention to tokens in a graph, of layers that keep these; layers that look at pictures
    alone have none.
    """
    kept_by: dict[Tensor, list[tuple[int, LayerCache]]] = {}
    for i, kept in enumerate(layers):
        if kept is not None and kept.cache >= 0:
            kept_by.setdefault(kept.k, []).append((i, kept))
    found = []
    for node in graph.nodes:
        op = _given(node)
        if op is not None and op.k.storage in kept_by:
            holders = kept_by[op.k.storage]  # several where cells are borrowed
            own = _layer_of(op.q) if len(holders) > 1 else None
            i, kept = next((one for one in holders if one[0] == own), holders[0])
            found.append(Looking(i, kept, op.q, op.scale, op.softcap, op.sinks, op.alibi))
    return found


def _layer_of(q: Tensor) -> int | None:
    """The layer in the name of queries, or of what they were made of."""
    at: Tensor | None = q
    while at is not None:
        named = None if is_numbered(at.name) else _LAYER.search(at.name)
        if named is not None:
            return int(named[1])
        at = at.src[0] if at.src else None
    return None


class _Given(NamedTuple):
    """Inputs of an attention."""

    q: Tensor
    k: Tensor
    scale: float
    softcap: float
    sinks: Tensor | None
    alibi: float


def _given(node: Tensor) -> _Given | None:
    """Inputs of an attention in one node, or of the softmax of one in several; None for other
    nodes.
    """
    if node.op is Op.ATTENTION:
        fused = FusedAttention.of(node)
        return _Given(fused.q, fused.k, fused.scale, fused.softcap, fused.sinks, fused.alibi)
    if node.op is Op.SOFTMAX:
        softmax = Softmax.of(node)
        if softmax.scores.op is Op.MATMUL:
            product = Matmul.of(softmax.scores)
            turned = product.b.src[0]  # what the permuted queries are a view of
            if product.b.op is Op.PERMUTE and turned is not None:
                numbers = (softmax.scale, softmax.softcap, softmax.sinks, softmax.alibi)
                return _Given(turned, product.a, *numbers)
    return None


@dataclass(frozen=True)
class VisibleCells:
    """The cells that a token sees, in order of their positions."""

    cells: NDArray[np.intp]
    positions: Ints


def seen(cache: CausalCache, sequence: int, position: int) -> VisibleCells:
    """Cells that a sequence's token at `position` sees in the cache."""
    held, at = cache.cells[:, BITS], cache.cells[:, POSITION]
    visible = (held & (1 << sequence) != 0) & (cache.first_seen(position) <= at) & (at <= position)
    cells = np.flatnonzero(visible)
    cells = cells[np.argsort(at[cells])]
    return VisibleCells(cells, at[cells])


def weights(
    q: Floats,
    keys: Floats,
    scale: float,
    softcap: float = 0.0,
    sinks: Floats | None = None,
    falls: Floats | None = None,
) -> Floats:
    """[H, n] of queries [H, D] and keys [n, K, D]: a softmax over n in float64; head h reads keys
    of h // (H / K). `softcap` and `sinks` [H] are as in `ops.attention`; scores fall by
    `falls` [H, n].
    """
    n, kv_heads, dim = keys.shape
    grouped = q.reshape(kv_heads, -1, dim)
    scores = (grouped @ keys.transpose(1, 2, 0)).reshape(-1, n).astype(np.float64) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if falls is not None:
        scores = scores - falls
    top = scores.max(axis=1, keepdims=True)
    added = np.zeros_like(top)
    if sinks is not None:
        joined = sinks.astype(np.float64)[:, None]
        top = np.maximum(top, joined)
        added = np.exp(joined - top)
    shares = np.exp(scores - top)
    shares /= shares.sum(axis=1, keepdims=True) + added
    result: Floats = shares.astype(np.float32)
    return result


def attended(
    found: Sequence[tuple[Looking, Floats]],
    keys_of: Callable[[LayerCache, VisibleCells], Floats],
    sinks_of: Callable[[Tensor], Floats],
    caches: Sequence[CausalCache],
    sequence: int,
    position: int,
    wanted: Collection[int],
) -> Generator[int, None, Attended]:
    """How the token at `position` attends, from the query [H, D] of each layer; all rows of the
    `wanted` layers. `keys_of` reads keys [n, K, D] of cells as the cache keeps them. Yields how
    many layers are done.
    """
    sights = {i: seen(cache, sequence, position) for i, cache in enumerate(caches)}
    counts = [len(q) for _, q in found]
    n, heads = position + 1, max(counts, default=0)
    mean = np.zeros(n)
    summaries = np.zeros((3, len(found), heads), np.float32)
    rows: dict[int, bytes] = {}
    for i, (one, q) in enumerate(found):
        sight = sights[one.kept.cache]
        sinks = None if one.sinks is None else sinks_of(one.sinks)
        falls = _falls(one, len(q), position - sight.positions)
        shares = weights(q, keys_of(one.kept, sight), one.scale, one.softcap, sinks, falls)
        summaries[:, i, : len(q)] = _summary(shares, sight.positions, position)
        mean[sight.positions] += shares.sum(axis=0)
        if one.layer in wanted:
            row = np.zeros((heads, n), np.float32)
            row[: len(q), sight.positions] = shares
            rows[one.layer] = row.astype("<f4").tobytes()
        yield i + 1
    entropy, distance, first = summaries.astype("<f4")
    return Attended(
        [one.layer for one, _ in found],
        heads,
        n,
        entropy.tobytes(),
        distance.tobytes(),
        first.tobytes(),
        (mean / max(1, sum(counts))).astype("<f4").tobytes(),
        rows,
    )


def _falls(one: Looking, heads: int, distances: Ints) -> Floats | None:
    """[H, n]: by how much scores fall over distances [n]; None where they do not."""
    if not one.alibi:
        return None
    falls: Floats = np.outer(alibi_slopes(heads, one.alibi), distances.astype(np.float32))
    return falls


def _summary(shares: Floats, positions: Ints, position: int) -> tuple[Floats, Floats, Floats]:
    """Summary of shares [H, n]: entropy in nats, mean distance in tokens, and the share of position
    0.
    """
    logs = np.log(np.where(shares > 0, shares, 1))
    entropy = -(shares * logs).sum(axis=1)
    total = np.maximum(shares.sum(axis=1), np.finfo(np.float32).tiny)
    distance = shares @ (position - positions).astype(np.float32) / total
    return entropy, distance, shares[:, positions == 0].sum(axis=1)
