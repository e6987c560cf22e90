"""Packed copies and conversions."""

from engine.gguf.formats import Format
from engine.graph.tensor import Op, Tensor, node


def contiguous(x: Tensor) -> Tensor:
    """A packed copy of the same type; x itself where it is packed already."""
    return x if x.is_contiguous else node(Op.COPY, x.fmt, x.shape, x)


def cast(x: Tensor, fmt: Format) -> Tensor:
    """A packed copy in another type (f32, f16, bf16 and i32 among themselves)."""
    return node(Op.COPY, fmt, x.shape, x)
