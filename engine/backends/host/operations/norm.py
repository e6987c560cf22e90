"""Norms, reductions and orders over the last axis (dimension 0). Sums of norms are float64."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.ops.norm import Argsort, Best, L2Norm, LayerNorm, RmsNorm
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


def sum_rows(node: Tensor, out: Operand, x: Operand) -> None:
    """Each row's sum."""
    out.raw[...] = np.sum(x.load(), axis=-1, keepdims=True, dtype=np.float64)


def mean(node: Tensor, out: Operand, x: Operand) -> None:
    """Each row's mean."""
    out.raw[...] = np.mean(x.load(), axis=-1, keepdims=True, dtype=np.float64)


def argsort(node: Tensor, out: Operand, x: Operand) -> None:
    """Indices that sort each row, equal values in their order, NaN last."""
    values = x.load()
    keys = -values if Argsort.of(node).descending else values
    out.store(np.argsort(keys, axis=-1, kind="stable"))


def best(node: Tensor, out: Operand, x: Operand) -> None:
    """Each row's k largest and their indices; of equal ones the first, NaN before all."""
    values = x.load()
    order = np.lexsort((-values, ~np.isnan(values)), axis=-1)[..., : Best.of(node).k]
    largest = np.take_along_axis(values, order, -1)
    out.store(np.concatenate([largest, order.astype(np.float32)], -1))
