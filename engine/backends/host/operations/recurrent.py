"""Operations that carry a state from token to token: one sequence, one token after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.recurrent import CausalConv, DeltaNet, TokenShift, Wkv
from engine.graph.tensor import Tensor

Floats = NDArray[np.float32]


def causal_conv(
    node: Tensor,
    out: Operand,
    x: Operand,
    w: Operand,
    bias: Operand | None,
    state: Operand,
    at: Operand,
) -> None:
    """y[t] = bias + sum over j of w[:, j] in[t + j], `in` being the state's columns, then x."""
    taps = w.load((0, 0)).T  # [Kc, C]
    for part in _parts(state, at, len(taps) - 1, taps.shape[1]):
        n = part.end - part.begin
        inputs = np.concatenate([part.before, x.load(np.s_[0, 0, part.begin : part.end])])
        zeros = np.zeros((n, 1), np.float32)
        y = sum((tap * inputs[j : j + n] for j, tap in enumerate(taps)), zeros)
        if bias is not None:
            y = y + bias.load((0, 0, 0))
        if CausalConv.of(node).silu:
            y = y / (1 + np.exp(-y))
        _store(out, part, y, inputs[n:])


def delta_net(
    node: Tensor,
    out: Operand,
    q: Operand,
    k: Operand,
    v: Operand,
    g: Operand,
    beta: Operand,
    state: Operand,
    at: Operand,
) -> None:
    """S = e^g S; S += k (beta (v - S^T k))^T; o = S^T q / sqrt(Dk), S [Dk, Dv] of each head."""
    op = DeltaNet.of(node)
    (dim, heads), (key, key_heads) = op.v.shape[:2], op.q.shape[:2]
    each = np.arange(heads)
    of = each % key_heads if op.tiled else each // (heads // key_heads)
    for part in _parts(state, at, heads, key, dim):
        mine, s = slice(part.begin, part.end), part.before
        queries = _unit(q.load((0, mine)), op.eps)[:, of] / np.float32(np.sqrt(key))
        keys = _unit(k.load((0, mine)), op.eps)[:, of]  # [n, Hv, Dk]
        if op.g.shape == op.beta.shape:
            decay = np.exp(g.load((0, 0, mine)))[..., None, None]
        else:
            decay = np.exp(g.load((0, mine)))[..., None]  # [n, Hv, Dk, 1]
        steps = beta.load((0, 0, mine))[..., None]
        o = np.empty((part.end - part.begin, heads, dim), np.float32)
        for t, values in enumerate(v.load((0, mine))):
            s = decay[t] * s
            change = steps[t] * (values - np.einsum("hkv,hk->hv", s, keys[t]))
            s = s + keys[t][..., None] * change[:, None]
            o[t] = np.einsum("hkv,hk->hv", s, queries[t])
        _store(out, part, o, s)


def ssm_scan(
    node: Tensor,
    out: Operand,
    x: Operand,
    delta: Operand,
    b: Operand,
    c: Operand,
    a: Operand,
    d: Operand | None,
    state: Operand,
    at: Operand,
) -> None:
    """M = e^(delta a) M + delta b x^T; y = M^T c + d x, M [N, D] of each head."""
    _, _, heads, dim = x.raw.shape
    size, groups = b.raw.shape[3], b.raw.shape[2]
    of = np.arange(heads) // (heads // groups)
    rates = a.load((0, 0))  # [H, 1 or N]
    for part in _parts(state, at, heads, size, dim):
        mine, m = slice(part.begin, part.end), part.before
        inputs, steps = x.load((0, mine)), delta.load((0, 0, mine))
        into, onto = b.load((0, mine))[:, of], c.load((0, mine))[:, of]  # [n, H, N]
        y = np.empty((part.end - part.begin, heads, dim), np.float32)
        for t in range(len(y)):
            decay = np.exp(steps[t][:, None] * rates)[..., None]
            m = decay * m + into[t][..., None] * (steps[t][:, None] * inputs[t])[:, None]
            y[t] = np.einsum("hnd,hn->hd", m, onto[t])
        if d is not None:
            y = y + d.load((0, 0, 0))[:, None] * inputs
        _store(out, part, y, m)


def token_shift(
    node: Tensor, out: Operand, x: Operand, mix: Operand, state: Operand, at: Operand
) -> None:
    """y[t] = x[t] + (x[t - 1] - x[t]) mix, of each mix."""
    (channels, tokens), weights = TokenShift.of(node).x.shape[:2], mix.load((0,))  # [M, 1|T, C]
    columns = out.raw[0, 0]
    columns[: len(weights) * tokens] = 0
    for part in _parts(state, at, 1, channels):
        mine = slice(part.begin, part.end)
        inputs = np.concatenate([part.before, x.load(np.s_[0, 0, mine])])
        past, now = inputs[:-1], inputs[1:]
        for i, weight in enumerate(weights):
            own = weight if len(weight) == 1 else weight[mine]
            first = i * tokens
            columns[first + part.begin : first + part.end] = now + (past - now) * own
        columns[len(weights) * tokens + part.number] = inputs[-1]


def wkv(
    node: Tensor,
    out: Operand,
    q: Operand,
    k: Operand,
    v: Operand,
    g: Operand,
    erased: Operand | None,
    rate: Operand | None,
    bonus: Operand | None,
    state: Operand,
    at: Operand,
) -> None:
    """S = e^g S - (a n) (S^T n)^T + k v^T; o = S^T q, S [Dk, Dv] of each head; with a bonus b,
    o = (S + (b k) v^T)^T q of S before.
    """
    eps, (dim, heads), key = Wkv.of(node).eps, v.raw.shape[:1:-1], q.raw.shape[3]
    for part in _parts(state, at, heads, key, dim):
        mine, s = slice(part.begin, part.end), part.before
        queries, keys, values, decay = (x.load((0, mine)) for x in (q, k, v, g))
        o = np.empty((part.end - part.begin, heads, dim), np.float32)
        for t in range(len(o)):
            new, before = keys[t][..., None] * values[t][:, None], s
            s = np.exp(decay[t])[..., None] * s + new
            if erased is not None and rate is not None:
                at_t = (0, part.begin + t)
                gone = _unit(erased.load(at_t), eps)
                seen = np.einsum("hkv,hk->hv", before, gone)
                s = s - (rate.load(at_t) * gone)[..., None] * seen[:, None]
            read = s if bonus is None else before + bonus.load((0, 0))[..., None] * new
            o[t] = np.einsum("hkv,hk->hv", read, queries[t])
        _store(out, part, o, s)


@dataclass(frozen=True)
class _Part:
    """The tokens of one sequence, from `begin` up to `end`, and the state before them; its number
    among how many.
    """

    begin: int
    end: int
    before: Floats
    number: int
    count: int


def _parts(state: Operand, at: Operand, *shape: int) -> Iterator[_Part]:
    """Split a tensor by sequence, each part with its state in this shape."""
    rows, begin = at.load((0, 0)).tolist(), 0
    for number, (slot, end) in enumerate(rows):
        fresh = slot < 0
        before = np.zeros(shape, np.float32) if fresh else state.load((0, 0, slot)).reshape(shape)
        yield _Part(begin, end, before, number, len(rows))
        begin = end


def _store(out: Operand, part: _Part, y: NDArray[Any], state: Floats) -> None:
    """A part's columns and its new state; behind the last part's columns zeros."""
    columns = out.raw[0, 0]
    width = columns.shape[1]
    rows = state.size // width
    tokens = len(columns) - part.count * rows
    columns[part.begin : part.end] = y.reshape(-1, width)
    if part.number == part.count - 1:
        columns[part.end : tokens] = 0
    first = tokens + part.number * rows
    columns[first : first + rows] = state.reshape(-1, width)


def _unit(x: Floats, eps: float) -> Floats:
    """x over sqrt(sum of squares + eps), along the last axis."""
    unit: Floats = x / np.sqrt(np.square(x).sum(-1, keepdims=True) + np.float32(eps))
    return unit
