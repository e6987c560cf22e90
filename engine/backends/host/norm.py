"""Normalisation over the last axis (dimension 0)."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.tensor import Tensor


def rms_norm(node: Tensor, out: Operand, x: Operand, weight: Operand | None) -> None:
    """x / sqrt(mean(x^2) + eps) * weight."""
    values = x.load()
    mean = np.mean(np.square(values, dtype=np.float64), axis=-1, keepdims=True)
    y = values * (1 / np.sqrt(mean + node.attr["eps"])).astype(np.float32)
    out.store(y if weight is None else y * weight.load())
