"""Scaled dot-product attention over a KV cache, fused, and the softmax of the unfused form.

Who sees what is data, not a mask tensor. `cells` i32 [2, C] holds, per cache cell, the bits of the
sequences in it and its position; `spans` i32 [4, T] holds, per query, its sequence bit, the first
and the last position it sees, and its own, from which scores may fall. A query sees the cells that
share its bit and lie within its span. That covers causal, sliding-window, chunked and bidirectional
attention; padding has bit 0.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import ShapeError
from engine.gguf.formats import F16, F32, I32
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.ops.checks import check_floats, check_matrix
from engine.graph.ops.copy import contiguous
from engine.graph.ops.matmul import matmul
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class FusedAttention(Arguments):
    """softmax(scale * k.q, masked) . v over a cache."""

    q: Tensor
    k: Tensor
    v: Tensor
    spans: Tensor
    cells: Tensor
    n_kv: Tensor
    sinks: Tensor | None
    _: KW_ONLY
    scale: float
    softcap: float
    alibi: float = 0.0


@dataclass(frozen=True)
class Softmax(Arguments):
    """softmax(scale * scores) over dimension 0, masked by spans and cells or by a mask."""

    scores: Tensor
    spans: Tensor | None
    cells: Tensor | None
    sinks: Tensor | None
    mask: Tensor | None
    _: KW_ONLY
    scale: float
    softcap: float
    alibi: float = 0.0


def alibi_slopes(heads: int, alibi: float) -> NDArray[np.float32]:
    """[H]: 2^(-alibi k / n), n the largest power of two up to H, k 1 ... n, then 1/2, 3/2 ..."""
    n = 1 << (heads.bit_length() - 1)
    k = np.concatenate([np.arange(n) + 1, np.arange(heads - n) + 0.5])
    return np.exp2(-alibi * k / n).astype(np.float32)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spans: Tensor,
    cells: Tensor,
    n_kv: Tensor,
    *,
    scale: float,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
    alibi: float = 0.0,
) -> Tensor:
    """softmax(scale * k.q, masked) . v for each head, f32 [Dv, H, T].

    q [D, H, T] f32; k [D, K, C], v [Dv, K, C] with K dividing H (head h reads h // (H/K)); n_kv i32
    [1]: only cells below it are looked at. A query that sees nothing gives zeros. `softcap` c > 0
    bounds scores by c * tanh(s / c) before the mask. `sinks` f32 [H] join maximum and denominator.
    With `alibi` > 0 scores fall by `alibi_slopes` times the distance (Press et al. 2022).
    """
    heads, n_tokens = q.shape[1:3]
    _check_heads(q, k, v)
    if (q.shape[3], k.shape[3], v.shape[3]) != (1, 1, 1):
        raise ShapeError("attention", "has three dimensions", q.shape, k.shape, v.shape)
    _check_visibility("attention", spans, cells, n_tokens, k.shape[2])
    if n_kv.fmt != I32 or n_kv.nelements != 1:
        raise ShapeError("attention", "n_kv is one i32", n_kv.shape)
    if sinks is not None and (sinks.fmt != F32 or sinks.dims != (heads,)):
        raise ShapeError("attention", "sinks are f32, one a head", sinks.shape, q.shape)
    numbers = {"scale": float(scale), "softcap": float(softcap), "alibi": float(alibi)}
    arguments = FusedAttention(q, k, v, spans, cells, n_kv, sinks, **numbers)
    return node(Op.ATTENTION, F32, (v.shape[0], heads, n_tokens), arguments)


def softmax(
    scores: Tensor,
    spans: Tensor | None = None,
    cells: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    scale: float = 1.0,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
    alibi: float = 0.0,
) -> Tensor:
    """Softmax over dimension 0 of scale * scores [C, T, H], masked as `attention` where given.

    Instead of spans and cells, `mask` f32 or f16 [C, T or more] may be added after the scaling,
    its higher dimensions broadcast modulo. A row with nothing visible gives zeros.
    """
    if (spans is None) != (cells is None) or (mask is not None and spans is not None):
        what = "spans and cells come together, and not with a mask"
        raise ShapeError("softmax", what, scores.shape)
    check_floats("softmax", scores)
    if mask is not None:
        _check_mask(scores, mask)
    if spans is not None and cells is not None:
        _check_visibility("softmax", spans, cells, scores.shape[1], scores.shape[0])
    if sinks is not None and (sinks.fmt != F32 or sinks.dims != (scores.shape[2],)):
        raise ShapeError("softmax", "sinks are f32, one a head", sinks.shape, scores.shape)
    numbers = {"scale": float(scale), "softcap": float(softcap), "alibi": float(alibi)}
    arguments = Softmax(scores, spans, cells, sinks, mask, **numbers)
    return node(Op.SOFTMAX, F32, scores.shape, arguments)


def masked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scale: float,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention without a cache, of single operations: f32 [Dv, H, Tq].

    q [D, H, Tq], k [D, K, Tk], v [Dv, K, Tk]; the mask [Tk, Tq or more] is added to the scores.
    """
    _check_heads(q, k, v)
    queries, keys = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3)
    scores = matmul(keys, queries, full_precision=True)
    weights = softmax(scores, mask=mask, scale=scale, sinks=sinks)
    mixed = matmul(contiguous(v.permute(1, 2, 0, 3)), weights)
    return contiguous(mixed.permute(0, 2, 1, 3))


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    check_floats("attention", q)
    check_matrix("attention", k)
    check_matrix("attention", v)
    if k.shape[0] != q.shape[0] or k.shape[1:] != v.shape[1:] or q.shape[1] % k.shape[1]:
        raise ShapeError("attention", "q, k and v do not fit", q.shape, k.shape, v.shape)


def _check_mask(scores: Tensor, mask: Tensor) -> None:
    short = mask.shape[0] != scores.shape[0] or mask.shape[1] < scores.shape[1]
    tiles = scores.shape[2] % mask.shape[2] == 0 and scores.shape[3] % mask.shape[3] == 0
    if mask.fmt not in (F32, F16) or short or not tiles:
        raise ShapeError("softmax", "the mask does not fit", scores.shape, mask.shape)


def _check_visibility(op: str, spans: Tensor, cells: Tensor, n_tokens: int, n_cells: int) -> None:
    if spans.fmt != I32 or spans.shape != (4, n_tokens, 1, 1):
        raise ShapeError(op, f"spans must be i32 [4, {n_tokens}]", spans.shape)
    if cells.fmt != I32 or cells.shape != (2, n_cells, 1, 1):
        raise ShapeError(op, f"cells must be i32 [2, {n_cells}]", cells.shape)
