"""Gather and scatter of rows; a negative id is padding."""

import numpy as np

from engine.backends.host.operand import Operand
from engine.graph.tensor import Tensor


def rows(node: Tensor, out: Operand, x: Operand, ids: Operand) -> None:
    """out[:, i, j, k] = x[:, ids[i, j, k], j, k]; zeros where an id is negative."""
    wanted = ids.load((0,))  # [n3, n2, n]
    k, j, i = np.nonzero(wanted >= 0)
    out.raw[...] = 0
    out.raw[k, j, i] = x.load((k, j, wanted[k, j, i]))


def set_rows(node: Tensor, out: Operand, target: Operand, values: Operand, ids: Operand) -> None:
    """target[:, ids[i, j, k], j, k] = values[:, i, j, k], in place; ids are repeated over j, k."""
    shape = values.raw.shape
    given = ids.load((0,))  # [i3, i2, n]
    wanted = np.tile(given, (*np.floor_divide(shape[:2], given.shape[:2]), 1))
    k, j, i = np.nonzero(wanted >= 0)
    out.store(values.load((k, j, i)), (k, j, wanted[k, j, i]))
