"""Elementwise arithmetic; the second operand is repeated to the first one's shape."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
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
