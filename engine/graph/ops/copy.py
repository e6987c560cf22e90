"""Copies and conversions."""

from dataclasses import dataclass

from engine.errors import ShapeError
from engine.gguf.formats import Format
from engine.graph.node import Arguments, Unary, node, writing
from engine.graph.op import Op
from engine.graph.ops.checks import check_writable
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class CopyInto(Arguments):
    """The elements of x, in linear order, into `target`."""

    target: Tensor
    x: Tensor


def contiguous(x: Tensor, *shape: int) -> Tensor:
    """x packed, reshaped where a shape is given (one -1 is inferred); no copy if it is already."""
    packed = x if x.is_contiguous else duplicate(x)
    return packed.reshape(*shape) if shape else packed


def duplicate(x: Tensor) -> Tensor:
    """A packed copy of the same type."""
    return node(Op.COPY, x.fmt, x.shape, Unary(x))


def cast(x: Tensor, fmt: Format) -> Tensor:
    """A packed copy in another type: blocks as ggml quantises, integers truncated."""
    check_writable("cast", x.fmt, fmt)
    if x.shape[0] % fmt.block:
        raise ShapeError("cast", f"rows are not a multiple of {fmt}'s {fmt.block}", x.shape)
    return node(Op.COPY, fmt, x.shape, Unary(x))


def copy_into(x: Tensor, target: Tensor) -> Tensor:
    """Write x into `target` in its type, element by element in linear order; shapes may differ.

    The result is a view of all of `target`: reading through it orders the read after the write.
    """
    check_writable("copy_into", x.fmt, target.fmt)
    if x.nelements != target.nelements:
        raise ShapeError("copy_into", "element counts differ", x.shape, target.shape)
    if (x.fmt.quantized or target.fmt.quantized) and x.shape[0] != target.shape[0]:
        raise ShapeError("copy_into", "blocks cannot be cut", x.shape, target.shape)
    return writing(Op.COPY_INTO, target, CopyInto(target, x))
