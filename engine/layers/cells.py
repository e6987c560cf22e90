"""Cells of a cache in a graph: written, read, and attended to by single operations."""

import numpy as np
from numpy.typing import NDArray

from engine.graph import ops
from engine.graph.tensor import Tensor


def written(cache: Tensor, new: Tensor, ids: Tensor) -> Tensor:
    """The cache when new [D, K, T] are written into the cells `ids` [T]."""
    # Heads of a token lie side by side, tokens perhaps apart: as parts of a joint projection do.
    packed = new.window(0, (cache.shape[0], new.shape[2]), (new.strides[0], *new.strides[2:], 0))
    return ops.set_rows(cache, packed, ids).named(f"{cache.name} (view)")


def first_cells(cache: Tensor, heads: int, n_cells: int) -> Tensor:
    """The first cells of a cache as [D, K, C]."""
    dim = cache.shape[0] // heads
    row = cache.strides[1]
    return cache.view(0, (dim, heads, n_cells), (cache.fmt.row_bytes(dim), row))


def unfused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spans: Tensor,
    cells: Tensor,
    scale: float,
    softcap: float,
    sinks: Tensor | None,
) -> Tensor:
    """Attention from single operations: q [D, H, T], k, v [D, K, C] -> [Dv, H, T]."""
    scores = ops.matmul(k.permute(0, 2, 1, 3), q.permute(0, 2, 1, 3)).named("kq")
    weights = ops.softmax(scores, spans, cells, scale=scale, softcap=softcap, sinks=sinks)
    weights = weights.named("kq_soft_max")
    mixed = ops.matmul(ops.contiguous(v.permute(1, 2, 0, 3)), weights).named("kqv")
    return ops.contiguous(mixed.permute(0, 2, 1, 3))


def around(count: int, n: int, reach: int | None) -> NDArray[np.int32]:
    """Spans [n, 4] of `count` tokens that see up to `reach` places to both sides."""
    spans = np.zeros((n, 4), np.int32)
    at = np.arange(count)
    spans[:count, 0] = 1
    spans[:count, 1] = 0 if reach is None else np.maximum(at - reach, 0)
    spans[:count, 2] = count - 1 if reach is None else np.minimum(at + reach, count - 1)
    return spans
