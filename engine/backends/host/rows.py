"""Gather and scatter of rows."""

from engine.backends.host.operand import Operand
from engine.graph.tensor import Tensor


def rows(node: Tensor, out: Operand, x: Operand, ids: Operand) -> None:
    """out[:, i] = x[:, ids[i]]; zeros where an id is negative."""
    wanted = ids.load((0, 0, 0))
    named = wanted >= 0
    out.raw[0, 0, ~named] = 0
    out.raw[0, 0, named] = x.load((0, 0, wanted[named]))


def set_rows(node: Tensor, out: Operand, target: Operand, values: Operand, ids: Operand) -> None:
    """target[:, ids[i]] = values[:, i], in place; nothing where an id is negative."""
    wanted = ids.load((0, 0, 0))
    named = wanted >= 0
    rounded = Operand(out.fmt, out.raw[0, 0, wanted[named]])
    rounded.store(values.load((0, 0, named)))
    out.raw[0, 0, wanted[named]] = rounded.raw
