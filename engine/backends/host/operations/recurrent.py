"""Operations that carry a state from token to token: one token after the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.recurrent import CausalConv, DeltaNet
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
    before, n = _start(state, at, len(taps) - 1, taps.shape[1])
    given = np.concatenate([before, x.load(np.s_[0, 0, :n])])
    y = sum((tap * given[j : j + n] for j, tap in enumerate(taps)), np.zeros((n, 1), np.float32))
    if bias is not None:
        y = y + bias.load((0, 0, 0))
    if CausalConv.of(node).silu:
        y = y / (1 + np.exp(-y))
    _store(out, y, given[n:])


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
    given = DeltaNet.of(node)
    (dim, heads), (key, key_heads) = given.v.shape[:2], given.q.shape[:2]
    s, n = _start(state, at, heads, key, dim)
    each = np.arange(heads)
    of = each % key_heads if given.tiled else each // (heads // key_heads)
    queries = _unit(q.load(np.s_[0, :n]), given.eps)[:, of] / np.float32(np.sqrt(key))
    keys = _unit(k.load(np.s_[0, :n]), given.eps)[:, of]  # [n, Hv, Dk]
    decay = np.exp(g.load(np.s_[0, 0, :n]))[..., None, None]
    steps = beta.load(np.s_[0, 0, :n])[..., None]
    o = np.empty((n, heads, dim), np.float32)
    for t, values in enumerate(v.load(np.s_[0, :n])):
        s = decay[t] * s
        change = steps[t] * (values - np.einsum("hkv,hk->hv", s, keys[t]))
        s = s + keys[t][..., None] * change[:, None]
        o[t] = np.einsum("hkv,hk->hv", s, queries[t])
    _store(out, o, s)


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
    m, n = _start(state, at, heads, size, dim)
    given, steps = x.load(np.s_[0, :n]), delta.load(np.s_[0, 0, :n])
    of = np.arange(heads) // (heads // groups)
    into, onto = b.load(np.s_[0, :n])[:, of], c.load(np.s_[0, :n])[:, of]  # [n, H, N]
    rates = a.load((0, 0))  # [H, 1 or N]
    y = np.empty((n, heads, dim), np.float32)
    for t in range(n):
        decay = np.exp(steps[t][:, None] * rates)[..., None]
        m = decay * m + into[t][..., None] * (steps[t][:, None] * given[t])[:, None]
        y[t] = np.einsum("hnd,hn->hd", m, onto[t])
    if d is not None:
        y = y + d.load((0, 0, 0))[:, None] * given
    _store(out, y, m)


def _start(state: Operand, at: Operand, *shape: int) -> tuple[Floats, int]:
    """The state before the first token, in this shape, and the number of real tokens."""
    slot, n = (int(i) for i in at.load((0, 0, 0)))
    before = np.zeros(shape, np.float32) if slot < 0 else state.load((0, 0, slot)).reshape(shape)
    return before, n


def _store(out: Operand, y: NDArray[Any], state: Floats) -> None:
    """Columns of real tokens, zeros for the others, the new state."""
    columns = out.raw[0, 0]
    width = columns.shape[1]
    tail = len(columns) - state.size // width
    columns[: len(y)] = y.reshape(-1, width)
    columns[len(y) : tail] = 0
    columns[tail:] = state.reshape(-1, width)


def _unit(x: Floats, eps: float) -> Floats:
    """x over sqrt(sum of squares + eps), along the last axis."""
    unit: Floats = x / np.sqrt(np.square(x).sum(-1, keepdims=True) + np.float32(eps))
    return unit
