"""Normalisation over the last axis (dimension 0). Sums are float64."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.ops.norm import L2Norm, LayerNorm, RmsNorm
from engine.graph.tensor import Tensor


def rms_norm(node: Tensor, out: Operand, x: Operand, weight: Operand | None) -> None:
    """x / sqrt(mean(x^2) + eps) * weight."""
    values = x.load()
    mean = np.mean(np.square(values, dtype=np.float64), axis=-1, keepdims=True)
    y = values * (1 / np.sqrt(mean + RmsNorm.of(node).eps)).astype(np.float32)
    out.store(y if weight is None else y * weight.load())


def layer_norm(
    node: Tensor, out: Operand, x: Operand, weight: Operand | None, bias: Operand | None
) -> None:
    """(x - mean) / sqrt(variance + eps) * weight + bias."""
    values = x.load().astype(np.float64)
    centred = values - values.mean(axis=-1, keepdims=True)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    y = (centred / np.sqrt(variance + LayerNorm.of(node).eps)).astype(np.float32)
    if weight is not None:
        y = y * weight.load()
    out.store(y if bias is None else y + bias.load())


def l2_norm(node: Tensor, out: Operand, x: Operand) -> None:
    """x / max(sqrt(sum(x^2)), eps)."""
    values = x.load().astype(np.float64)
    length = np.sqrt(np.sum(np.square(values), axis=-1, keepdims=True))
    out.store((values / np.maximum(length, L2Norm.of(node).eps)).astype(np.float32))
