"""Reductions and orders over the last axis (dimension 0)."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.ops.reduce import Argsort
from engine.graph.tensor import Tensor


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
