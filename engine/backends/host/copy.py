"""Packed copies and conversions."""

from engine.backends.host.operand import Operand
from engine.graph.tensor import Tensor


def copy(node: Tensor, out: Operand, x: Operand) -> None:
    """The same elements, packed, in the type of the result."""
    if out.fmt == x.fmt:
        out.raw[...] = x.raw
    else:
        out.store(x.load())
