"""Each operation as its definition reads, in float64; arrays have the reversed shape."""

from collections.abc import Callable, Sequence
from math import erfc as erfc_of

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from engine.graph.op import Op
from engine.graph.tensor import Tensor
from tests.engine.selftest.numbers import Array, rounded, viewed


def _set_rows(target: Array, t: Tensor, x: Array, ids: Array) -> None:
    for i3, i2, i in np.ndindex(x.shape[:3]):
        row = int(ids[0, i3 % ids.shape[1], i2 % ids.shape[2], i])
        if row >= 0:
            target[i3, i2, row] = rounded(x[i3, i2, i], t.fmt)


def _copy_into(target: Array, t: Tensor, x: Array) -> None:
    target[...] = _cast(t, x).reshape(target.shape)


def _cast(t: Tensor, x: Array) -> Array:
    source = t.src[-1]
    assert source is not None
    return x if source.fmt == t.fmt else rounded(x, t.fmt)


WRITES: dict[Op, Callable[..., None]] = {Op.SET_ROWS: _set_rows, Op.COPY_INTO: _copy_into}


def _tiled(t: Tensor, x: Array) -> Array:
    return np.tile(x, [n // m for n, m in zip(t.shape[::-1], x.shape, strict=True)])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_erfc = np.vectorize(erfc_of, otypes=[float])


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _swiglu_limit(t: Tensor, gate: Array, up: Array) -> Array:
    alpha, limit = t.attr["alpha"], t.attr["limit"]
    g, u = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return g * _sigmoid(alpha * g) * (u + 1)


def _xielu(t: Tensor, x: Array, up: None = None) -> Array:
    above, below, slope = (np.float32(t.attr[name]) for name in ("above", "below", "slope"))
    bent = below * (np.expm1(np.minimum(x, 0)) - x)
    return np.where(x > 0, above * x * x, bent) + slope * x


def _add_id(t: Tensor, x: Array, b: Array, ids: Array) -> Array:
    return x + b[0, 0][ids[0, 0].astype(int)][None]


def _norm(t: Tensor, x: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
    eps = t.attr["eps"]
    if t.op is Op.LAYER_NORM:
        x = x - x.mean(-1, keepdims=True)
    if t.op is Op.L2_NORM:
        return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), eps)
    out = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _argsort(t: Tensor, x: Array) -> Array:
    return np.argsort(-x if t.attr["descending"] else x, axis=-1, kind="stable").astype(float)


def _best(t: Tensor, x: Array) -> Array:
    order = np.argsort(-x, axis=-1, kind="stable")[..., : t.attr["k"]]
    return np.concatenate([np.take_along_axis(x, order, -1), order.astype(float)], -1)


def _matmul(t: Tensor, a: Array, b: Array) -> Array:
    wide = a.repeat(b.shape[1] // a.shape[1], 1).repeat(b.shape[0] // a.shape[0], 0)
    return b @ wide.swapaxes(-1, -2)


def _matmul_id(t: Tensor, a: Array, b: Array, ids: Array) -> Array:
    out = np.zeros(t.shape[::-1])
    for token, u in np.ndindex(ids.shape[2:]):
        expert = int(ids[0, 0, token, u])
        if 0 <= expert < a.shape[1]:
            out[0, token, u] = a[0, expert] @ b[0, token, u % b.shape[2]]
    return out


def _scored(kind: str, x: Array) -> Array:
    if kind == "softmax":
        return np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return {"sigmoid": _sigmoid, "sqrt_softplus": lambda v: np.sqrt(np.log(1 + np.exp(v)))}.get(
        kind, lambda v: v
    )(x)


def _route(t: Tensor, x: Array, bias: Array | None) -> Array:
    a, out = t.attr, np.zeros(t.shape[::-1])
    for token, row in enumerate(x[0, 0]):
        s = _scored(a["score"], row) if bias is not None or a["groups"] > 1 else row
        s = s if bias is None else s + bias[0, 0, 0]
        runs = np.split(np.arange(len(s)), a["groups"])
        first = {
            g: sorted((v for v in s[run] if v == v), reverse=True) for g, run in enumerate(runs)
        }
        count = 1 if a["score"] == "softmax" else 2
        rank = {
            g: sum(best[:count]) if len(best) >= min(count, len(runs[g])) else -np.inf
            for g, best in first.items()
        }
        open_runs = sorted(rank, key=lambda g: -rank[g])[: a["groups_used"]]
        allowed = sorted(i for g in open_runs for i in runs[g])
        order = sorted(allowed, key=lambda i: (np.isnan(s[i]), -s[i] if s[i] == s[i] else 0))
        out[0, 0, token] = order[: a["used"]]
    return out


def _mixed(logits: Array, chosen: Array) -> list[float]:
    """As Phi-3.5-MoE's own code says it: what is too far below the largest is masked."""
    left, weights = [float(v) for v in logits], []
    for best in chosen:
        top = left[best]
        kept = [v for v in left if not (top - v) / max(abs(v), top) > 0.02 and v > -np.inf]
        weights.append(1 / sum(np.exp(v - top) for v in kept))
        left[best] = -np.inf
    return weights


def _route_weights(t: Tensor, x: Array, ids: Array, gains: Array | None) -> Array:
    a, chosen = t.attr, ids.astype(int)
    if a["score"] == "sparse_mixer":
        w = np.array([[_mixed(*row) for row in zip(x[0, 0], chosen[0, 0], strict=True)]])[None]
        w = w / np.maximum(w.sum(-1, keepdims=True), 2.0**-14) if a["normalised"] else w
        return w * a["scale"] * (1 if gains is None else gains[0, 0, 0][chosen])
    late = a["score"] == "late_softmax"
    picked = np.take_along_axis(x if late else _scored(a["score"], x), chosen, -1)
    w = _scored("softmax", picked) if late else picked
    w = w / np.maximum(w.sum(-1, keepdims=True), 2.0**-14) if a["normalised"] else w
    return w * a["scale"] * (1 if gains is None else gains[0, 0, 0][chosen])


def _softened(scores: Array, sinks: Array | None) -> Array:
    """Softmax of [head, ...]; where nothing is visible, 0. Sinks join the denominator."""
    sink = np.full(scores.shape[0], -np.inf) if sinks is None else sinks.reshape(-1)
    sink = sink.reshape(-1, *(1,) * (scores.ndim - 1))
    top = np.maximum(scores.max(-1, keepdims=True), sink)
    top = np.where(np.isfinite(top), top, 0)
    parts = np.exp(scores - top)
    total = parts.sum(-1, keepdims=True) + np.exp(sink - top)
    return parts / np.where(total > 0, total, 1)


def _hidden(spans: Array, cells: Array) -> NDArray[np.bool_]:
    """[T, C]: which cells a token does not see."""
    bits, place = cells[0, 0, :, 0].astype(int), cells[0, 0, :, 1]
    token, first, last = (spans[0, 0, :, i][:, None] for i in range(3))
    return ~((token.astype(int) & bits != 0) & (place >= first) & (place <= last))


def _scores(t: Tensor, raw: Array) -> Array:
    cap, scaled = t.attr["softcap"], raw * t.attr["scale"]
    return cap * np.tanh(scaled / cap) if cap else scaled


def _fall(t: Tensor, heads: int, spans: Array, cells: Array) -> Array:
    """[H, T, C]: what scores lose with the distance."""
    n, most = 2 ** int(np.log2(heads)), t.attr["alibi"]
    powers = [-most * (i + 1) / n for i in range(n)]
    powers += [-most * (2 * i + 1) / (2 * n) for i in range(heads - n)]
    distances = np.abs(spans[0, 0, :, 3][:, None] - cells[0, 0, :, 1])
    return bool(most) * 2.0 ** np.array(powers)[:, None, None] * distances


def _softmax(
    t: Tensor,
    x: Array,
    spans: Array | None,
    cells: Array | None,
    sinks: Array | None,
    mask: Array | None,
) -> Array:
    scores = _scores(t, x)
    if spans is not None and cells is not None:
        scores = scores - _fall(t, x.shape[1], spans, cells)
        scores = np.where(_hidden(spans, cells), -np.inf, scores)
    if mask is not None:
        shape = (x.shape[0] // mask.shape[0], x.shape[1] // mask.shape[1], 1, 1)
        scores = scores + np.tile(mask[:, :, : x.shape[2]], shape)
    return np.stack([_softened(part, sinks) for part in scores])


def _attention(
    t: Tensor,
    q: Array,
    k: Array,
    v: Array,
    spans: Array,
    cells: Array,
    n_kv: Array,
    sinks: Array | None,
) -> Array:
    n, group = int(n_kv.item()), q.shape[2] // k.shape[2]
    keys, mixed = (x[0, :n].repeat(group, 1).transpose(1, 0, 2) for x in (k, v))
    scores = _scores(t, q[0].transpose(1, 0, 2) @ keys.transpose(0, 2, 1))
    scores = scores - _fall(t, q.shape[2], spans, cells)[..., :n]
    scores = np.where(_hidden(spans, cells)[:, :n], -np.inf, scores)
    return (_softened(scores, sinks) @ mixed).transpose(1, 0, 2)


def _of_sequences(
    t: Tensor,
    state: Array,
    at: Array,
    shape: Sequence[int],
    one: Callable[[Array, slice], tuple[list[Array], Array]],
) -> Array:
    """What `one` makes of each sequence's state and part of the tokens: rows, and a new state."""
    out, rows, begin = np.zeros(t.shape[1::-1]), at.reshape(-1, 2).astype(int), 0
    behind = out.reshape(-1)[-len(rows) * int(np.prod(shape)) :].reshape(len(rows), -1)
    for (slot, end), kept in zip(rows, behind, strict=True):
        before = state[0, 0, slot].reshape(shape).copy() if slot >= 0 else np.zeros(shape)
        y, after = one(before, slice(begin, end))
        for row, values in zip(out[begin:end], y, strict=True):
            row[:] = values.reshape(-1)
        kept[:] = after.reshape(-1)
        begin = end
    return out


def _causal_conv(
    t: Tensor, x: Array, w: Array, bias: Array | None, state: Array, at: Array
) -> Array:
    past = w.shape[-1] - 1

    def one(before: Array, part: slice) -> tuple[list[Array], Array]:
        given = np.concatenate([before, x[0, 0, part]])
        n = part.stop - part.start
        y = [(given[i : i + past + 1].T * w[0, 0]).sum(-1) for i in range(n)]
        y = [row + (0 if bias is None else bias[0, 0, 0]) for row in y]
        return [row * _sigmoid(row) if t.attr["silu"] else row for row in y], given[n:]

    return _of_sequences(t, state, at, (past, w.shape[-2]), one)


def _delta_net(
    t: Tensor,
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    beta: Array,
    state: Array,
    at: Array,
) -> Array:
    heads, dim, key_heads, key = *v.shape[2:], *k.shape[2:]

    def one(states: Array, part: slice) -> tuple[list[Array], Array]:
        y = []
        for i in range(part.start, part.stop):
            rows = []
            for h in range(heads):
                of = h % key_heads if t.attr["tiled"] else h * key_heads // heads
                qi, ki = (
                    x[0, i, of] / np.sqrt((x[0, i, of] ** 2).sum() + t.attr["eps"]) for x in (q, k)
                )
                whole = g.shape[2:] == beta.shape[2:] and g.shape[1] == 1
                states[h] *= np.exp(g[0, 0, i, h] if whole else g[0, i, h][:, None])
                states[h] += np.outer(ki, beta[0, 0, i, h] * (v[0, i, h] - ki @ states[h]))
                rows.append(qi @ states[h] / np.sqrt(key))
            y.append(np.stack(rows))
        return y, states

    return _of_sequences(t, state, at, (heads, key, dim), one)


def _ssm_scan(
    t: Tensor,
    x: Array,
    delta: Array,
    b: Array,
    c: Array,
    a: Array,
    d: Array | None,
    state: Array,
    at: Array,
) -> Array:
    heads, dim, groups, size = *x.shape[2:], *b.shape[2:]

    def one(states: Array, part: slice) -> tuple[list[Array], Array]:
        y = []
        for i in range(part.start, part.stop):
            rows = []
            for h in range(heads):
                of, step = h * groups // heads, delta[0, 0, i, h]
                states[h] *= np.exp(step * a[0, 0, h])[:, None]
                states[h] += np.outer(b[0, i, of], step * x[0, i, h])
                skip = 0 if d is None else d[0, 0, 0, h] * x[0, i, h]
                rows.append(c[0, i, of] @ states[h] + skip)
            y.append(np.stack(rows))
        return y, states

    return _of_sequences(t, state, at, (heads, size, dim), one)


def _token_shift(t: Tensor, x: Array, mix: Array, state: Array, at: Array) -> Array:
    tokens, rows, begin = x.shape[2], at.reshape(-1, 2).astype(int), 0
    past = np.concatenate([x[0, 0, :1], x[0, 0, :-1]])
    behind = []
    for slot, end in rows:
        before = state[0, 0, slot] if slot >= 0 else np.zeros(x.shape[3])
        past[begin : min(begin + 1, end)] = before
        behind.append(x[0, 0, end - 1] if end > begin else before)
        begin = end
    mixed = x[0] * (1 - mix[0]) + past * mix[0]
    mixed[:, begin:tokens] = 0
    return np.concatenate([*mixed, np.stack(behind)])


def _wkv(
    t: Tensor,
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    erased: Array | None,
    rate: Array | None,
    bonus: Array | None,
    state: Array,
    at: Array,
) -> Array:
    heads, dim, key = *v.shape[2:], k.shape[3]

    def one(states: Array, part: slice) -> tuple[list[Array], Array]:
        y = []
        for i in range(part.start, part.stop):
            rows = []
            for h in range(heads):
                moves = np.diag(np.exp(g[0, i, h]))
                if erased is not None and rate is not None:
                    n = erased[0, i, h] / np.sqrt((erased[0, i, h] ** 2).sum() + t.attr["eps"])
                    moves -= np.outer(n * rate[0, i, h], n)
                new = np.outer(k[0, i, h], v[0, i, h])
                shown = None if bonus is None else states[h] + bonus[0, 0, h][:, None] * new
                states[h] = moves @ states[h] + new
                rows.append(q[0, i, h] @ (states[h] if shown is None else shown))
            y.append(np.stack(rows))
        return y, states

    return _of_sequences(t, state, at, (heads, key, dim), one)


def _rope(t: Tensor, x: Array, table: Array) -> Array:
    out, n = x.copy(), table.shape[-1]
    cos, sin = (part[:, None] for part in np.split(table[0, 0], 2, axis=-1))
    first, second = (
        (slice(0, n // 2), slice(n // 2, n)) if t.attr["neox"] else (slice(0, n, 2), slice(1, n, 2))
    )
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


def _rows(t: Tensor, x: Array, ids: Array) -> Array:
    out = np.zeros(t.shape[::-1])
    for i3, i2, i in np.ndindex(ids.shape[1:]):
        row = int(ids[0, i3, i2, i])
        out[i3, i2, i] = x[i3, i2, row] if row >= 0 else 0
    return out


def _set(t: Tensor, x: Array, y: Array) -> Array:
    whole = x.reshape(-1).copy()
    target, values = t.src
    assert target is not None
    assert values is not None
    viewed(whole, target.window(t.attr["offset"], values.shape, t.attr["strides"]))[...] = y
    return whole


def _pad(t: Tensor, x: Array) -> Array:
    return np.pad(x, [(0, n - m) for n, m in zip(t.shape[::-1], x.shape, strict=True)])


def _im2col(t: Tensor, x: Array) -> Array:
    """Planes are ordered image, channel, depth."""
    a = t.attr
    planes = x.reshape(-1, a["channels"], a["depth"], *x.shape[2:])
    edges = [(p, p) for p in a["pad"][::-1]]
    padded = np.pad(planes, [(0, 0), (0, 0), *edges])
    reach = [g * (k - 1) + 1 for g, k in zip(a["dilation"], a["kernel"], strict=True)][::-1]
    seen = sliding_window_view(padded, reach, (2, 3, 4))
    d, h, w = a["stride"][::-1]
    gd, gh, gw = a["dilation"][::-1]
    chosen = seen[:, :, ::d, ::h, ::w, ::gd, ::gh, ::gw]
    return chosen.transpose(0, 2, 3, 4, 1, 5, 6, 7)  # image, od, oh, ow, channel, kd, kh, kw


def _avg_pool(t: Tensor, x: Array) -> Array:
    p, k, s = t.attr["pad"], t.attr["kernel"], t.attr["stride"]
    padded = np.pad(x, [(0, 0), (0, 0), (p, p), (p, p)])
    return sliding_window_view(padded, (k, k), (2, 3))[:, :, ::s, ::s].mean((-1, -2))


def _interpolate(t: Tensor, x: Array) -> Array:
    for axis, (n, m) in enumerate(zip(t.shape[::-1], x.shape, strict=True)):
        if t.attr["mode"] == "nearest" or axis < 2:
            x = x.take(np.arange(n) * m // n, axis)
            continue
        at = np.clip((np.arange(n) + 0.5) * m / n - 0.5, 0, m - 1)
        low = np.floor(at).astype(int)
        part = (at - low).reshape(-1, *(1,) * (3 - axis))
        high = np.minimum(low + 1, m - 1)
        x = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    return x


def _edit(
    t: Tensor,
    x: Array,
    first: Array,
    count: Array,
    code: Array,
    number: Array,
    vectors: Array | None = None,
    entered: Array | None = None,
    experts: Array | None = None,
) -> Array:
    """Channel by channel, as the formula reads."""
    rows = x.reshape(first.size, -1).copy()
    for n, row in enumerate(rows):
        if entered is not None and count.flat[n]:
            row -= entered.reshape(rows.shape)[n]
        for k in range(int(first.flat[n]), int(first.flat[n] + count.flat[n])):
            low, high, u, v, w, jump, expert, _ = code[0, 0, k].astype(int)
            alpha, b, kappa, beta, theta, gamma, *_ = number[0, 0, k]
            if experts is not None and expert >= 0 and experts.flat[n] != expert:
                continue
            ones, zeros = np.ones(len(row)), np.zeros(len(row))
            table = zeros[None] if vectors is None else vectors[0, 0]
            along = [
                table[i] if i >= 0 else other for i, other in ((u, zeros), (v, ones), (w, zeros))
            ]
            z = beta + sum(along[0][c] * row[c] for c in range(low, high) if u >= 0)
            g = 0.0 if jump and not z > max(theta, 0.0) else z
            for c in range(low, high):
                old = alpha * row[c] if alpha else 0.0
                row[c] = old + b * along[1][c] + (kappa * g + gamma) * along[2][c]
        if entered is not None and count.flat[n]:
            row += entered.reshape(rows.shape)[n]
    return rows.reshape(x.shape)


def _gated(act: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda t, x, up=None: act(x) * (1 if up is None else up)


OPS: dict[Op, Callable[..., Array]] = {
    Op.ADD: lambda t, a, b: a + _tiled(t, b),
    Op.SUB: lambda t, a, b: a - _tiled(t, b),
    Op.MUL: lambda t, a, b: a * _tiled(t, b),
    Op.DIV: lambda t, a, b: a / _tiled(t, b),
    Op.SCALE: lambda t, a: a * np.float64(np.float32(t.attr["factor"])),
    Op.CLAMP: lambda t, a: np.clip(a, *np.float32([t.attr["low"], t.attr["high"]])),
    Op.SQR: lambda t, a: a * a,
    Op.SQRT: lambda t, a: np.sqrt(a),
    Op.SIN: lambda t, a: np.sin(a),
    Op.COS: lambda t, a: np.cos(a),
    Op.EXP: lambda t, a: np.exp(a),
    Op.SOFTPLUS: lambda t, a: np.logaddexp(0, a),
    Op.SOFTCAP: lambda t, a: t.attr["cap"] * np.tanh(a / t.attr["cap"]),
    Op.ADD_ID: _add_id,
    Op.SILU: _gated(lambda x: x * _sigmoid(x)),
    Op.GELU: _gated(_gelu),
    Op.GELU_ERF: _gated(lambda x: x * 0.5 * _erfc(-x / np.sqrt(2))),
    Op.QUICK_GELU: _gated(lambda x: x * _sigmoid(1.702 * x)),
    Op.RELU: _gated(lambda x: np.maximum(x, 0)),
    Op.TANH: _gated(np.tanh),
    Op.SIGMOID: _gated(_sigmoid),
    Op.SWIGLU_LIMIT: _swiglu_limit,
    Op.XIELU: _xielu,
    Op.MATMUL: _matmul,
    Op.MATMUL_ID: _matmul_id,
    Op.ROUTE: _route,
    Op.ROUTE_WEIGHTS: _route_weights,
    Op.COMBINE: lambda t, w, y: (y[0] * w[0, 0][..., None]).sum(1)[None, None],
    Op.RMS_NORM: _norm,
    Op.LAYER_NORM: _norm,
    Op.L2_NORM: _norm,
    Op.SUM_ROWS: lambda t, x: x.sum(-1, keepdims=True),
    Op.MEAN: lambda t, x: x.mean(-1, keepdims=True),
    Op.ROPE: _rope,
    Op.SOFTMAX: _softmax,
    Op.ATTENTION: _attention,
    Op.CAUSAL_CONV: _causal_conv,
    Op.DELTA_NET: _delta_net,
    Op.SSM_SCAN: _ssm_scan,
    Op.TOKEN_SHIFT: _token_shift,
    Op.WKV: _wkv,
    Op.ROWS: _rows,
    Op.COPY: _cast,
    Op.SET: _set,
    Op.PAD: _pad,
    Op.CONCAT: lambda t, a, b: np.concatenate([a, b], 3 - t.attr["dim"]),
    Op.REPEAT: _tiled,
    Op.ARANGE: lambda t: t.attr["start"] + t.attr["step"] * np.arange(t.shape[0]),
    Op.ARGSORT: _argsort,
    Op.BEST: _best,
    Op.EDIT: _edit,
    Op.IM2COL: _im2col,
    Op.AVG_POOL_2D: _avg_pool,
    Op.INTERPOLATE: _interpolate,
}
