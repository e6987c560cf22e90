"""Activations, gated where `up` is given."""

from math import erf, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.activation import SwigluLimit
from engine.graph.tensor import Tensor

_TANH_FACTOR = np.float32(sqrt(2 / pi))
_CUBE_FACTOR = np.float32(0.044715)
_QUICK_FACTOR = np.float32(1.702)
_ERF = np.vectorize(erf, otypes=[float])


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
    exact = 0.5 * x * (1 + _ERF(x.astype(np.float64) / sqrt(2)))
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
    given = SwigluLimit.of(node)
    alpha, limit = np.float32(given.alpha), np.float32(given.limit)
    g = np.minimum(gate.load(), limit)
    u = np.clip(up.load(), -limit, limit)
    out.store(g / (1 + np.exp(-alpha * g)) * (u + 1))


def _store(out: Operand, values: NDArray[Any], up: Operand | None) -> None:
    out.store(values if up is None else values * up.load())
