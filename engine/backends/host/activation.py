"""Activations, gated where `up` is given."""

from math import pi, sqrt

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.tensor import Tensor

_TANH_FACTOR = np.float32(sqrt(2 / pi))
_CUBE_FACTOR = np.float32(0.044715)


def silu(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """x / (1 + exp(-x)), times up."""
    x = gate.load()
    y = x / (1 + np.exp(-x))
    out.store(y if up is None else y * up.load())


def gelu(node: Tensor, out: Operand, gate: Operand, up: Operand | None) -> None:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), times up."""
    x = gate.load()
    y = np.float32(0.5) * x * (1 + np.tanh(_TANH_FACTOR * (x + _CUBE_FACTOR * x * x * x)))
    out.store(y if up is None else y * up.load())
