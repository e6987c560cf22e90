"""Elementwise arithmetic and activations. The second operand is repeated to the first one's shape;
activations are gated if they have `up`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.activation import SwigluLimit, Xielu
from engine.graph.ops.arithmetic import Clamp, Scale, Softcap
from engine.graph.tensor import Tensor


def add(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """a + b."""
    out.store(a.load() + _tiled(b.load(), a.raw.shape))


def sub(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """a - b."""
    out.store(a.load() - _tiled(b.load(), a.raw.shape))


def mul(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """a * b."""
    out.store(a.load() * _tiled(b.load(), a.raw.shape))


def div(node: Tensor, out: Operand, a: Operand, b: Operand) -> None:
    """a / b."""
    out.store(a.load() / _tiled(b.load(), a.raw.shape))


def scale(node: Tensor, out: Operand, a: Operand) -> None:
    """a * factor."""
    out.store(a.load() * np.float32(Scale.of(node).factor))


def clamp(node: Tensor, out: Operand, a: Operand) -> None:
    """max(low, min(a, high))."""
    bounds = Clamp.of(node)
    out.store(np.clip(a.load(), np.float32(bounds.low), np.float32(bounds.high)))


def sqr(node: Tensor, out: Operand, a: Operand) -> None:
    """a * a."""
    out.store(np.square(a.load()))


def sqrt(node: Tensor, out: Operand, a: Operand) -> None:
    """The square root; NaN below 0."""
    out.store(np.sqrt(a.load()))


def sin(node: Tensor, out: Operand, a: Operand) -> None:
    """The sine of radians."""
    out.store(np.sin(a.load()))


def cos(node: Tensor, out: Operand, a: Operand) -> None:
    """The cosine of radians."""
    out.store(np.cos(a.load()))


def exp(node: Tensor, out: Operand, a: Operand) -> None:
    """e to the power of a."""
    out.store(np.exp(a.load()))


def softplus(node: Tensor, out: Operand, a: Operand) -> None:
    """ln(1 + e^a), `a` itself above 20."""
    x = a.load()
    out.store(np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, np.float32(20))))))


def softcap(node: Tensor, out: Operand, a: Operand) -> None:
    """cap * tanh(a / cap)."""
    cap = np.float32(Softcap.of(node).cap)
    out.store(cap * np.tanh(a.load() / cap))


def add_id(node: Tensor, out: Operand, a: Operand, b: Operand, ids: Operand) -> None:
    """out[:, u, t] = a[:, u, t] + b[:, ids[u, t]]."""
    out.store(a.load() + b.load((0, 0, ids.load((0, 0)))))


def _tiled(b: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    repeats = [n // m for n, m in zip(shape, b.shape, strict=True)]
    if all(r == 1 or m == 1 for r, m in zip(repeats, b.shape, strict=True)):
        return b  # NumPy's own broadcasting
    return np.tile(b, repeats)


_TANH_FACTOR = np.float32(math.sqrt(2 / math.pi))
_CUBE_FACTOR = np.float32(0.044715)
_QUICK_FACTOR = np.float32(1.702)
_ERF = np.vectorize(math.erf, otypes=[float])


def silu(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """x / (1 + exp(-x)), times up."""
    x = gate.load()
    _store(out, x / (1 + np.exp(-x)), up)


def gelu(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), times up."""
    x = gate.load()
    inner = _TANH_FACTOR * (x + _CUBE_FACTOR * x * x * x)
    _store(out, np.float32(0.5) * x * (1 + np.tanh(inner)), up)


def gelu_erf(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """0.5 x (1 + erf(x / sqrt(2))), times up; in float64, as NumPy has no erf."""
    x = gate.load()
    exact = 0.5 * x * (1 + _ERF(x.astype(np.float64) / math.sqrt(2)))
    _store(out, exact.astype(np.float32), up)


def quick_gelu(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """x / (1 + exp(-1.702 x)), times up."""
    x = gate.load()
    _store(out, x / (1 + np.exp(-_QUICK_FACTOR * x)), up)


def relu(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """max(x, 0), times up."""
    _store(out, np.maximum(gate.load(), np.float32(0)), up)


def tanh(node: Tensor, out: Operand, x: Operand, up: None) -> None:
    """The hyperbolic tangent."""
    out.store(np.tanh(x.load()))


def sigmoid(node: Tensor, out: Operand, x: Operand, up: None) -> None:
    """1 / (1 + exp(-x))."""
    out.store(1 / (1 + np.exp(-x.load())))


def swiglu_limit(node: Tensor, out: Operand, gate: Operand, up: Operand) -> None:
    """g / (1 + exp(-alpha g)) * (u + 1) with g = min(gate, limit), u = up within +-limit."""
    op = SwigluLimit.of(node)
    alpha, limit = np.float32(op.alpha), np.float32(op.limit)
    g = np.minimum(gate.load(), limit)
    u = np.clip(up.load(), -limit, limit)
    out.store(g / (1 + np.exp(-alpha * g)) * (u + 1))


def xielu(node: Tensor, out: Operand, gate: Operand, up: None) -> None:
    """A parabola above zero, an exponential below."""
    op, x = Xielu.of(node), gate.load()
    above, below = np.float32(op.above), np.float32(op.below)
    low = np.minimum(x, np.float32(0))
    bent = np.where(x > 0, above * x * x, below * (np.expm1(low) - low))
    out.store(bent + np.float32(op.slope) * x)


def _store(out: Operand, values: NDArray[Any], up: Operand | None) -> None:
    out.store(values if up is None else values * up.load())
