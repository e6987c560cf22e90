"""Concatenate, slice and pad tensors."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from itertools import accumulate, pairwise
from math import ceil

from engine.errors import ShapeError
from engine.gguf.formats import F32
from engine.graph.node import Arguments, Unary, node
from engine.graph.op import Op
from engine.graph.ops.copy import contiguous
from engine.graph.tensor import Shape, Tensor


@dataclass(frozen=True)
class Arange(Arguments):
    """start + step * i."""

    _: KW_ONLY
    start: float
    step: float


@dataclass(frozen=True)
class Concat(Arguments):
    """a, then b, along `dim`."""

    a: Tensor
    b: Tensor
    _: KW_ONLY
    dim: int


@dataclass(frozen=True)
class Set(Arguments):
    """x with `values` from byte `offset` on, in steps of `strides`."""

    x: Tensor
    values: Tensor
    _: KW_ONLY
    offset: int
    strides: Shape


def arange(start: float, stop: float, step: float = 1.0) -> Tensor:
    """f32: start, start + step, ... below `stop`. Whole numbers are made on the host instead."""
    n = ceil((stop - start) / step) if step else 0
    if n < 1:
        raise ShapeError("arange", f"empty range from {start} to {stop} in steps of {step}", ())
    return node(Op.ARANGE, F32, (n,), Arange(start=float(start), step=float(step)))


def concat(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """a, then b, along `dim`; the other dimensions and the types are the same."""
    _check_dim("concat", a, dim)
    others = [axis for axis in range(4) if axis != dim]
    if a.fmt != b.fmt or any(a.shape[axis] != b.shape[axis] for axis in others):
        problem = f"{a.fmt} and {b.fmt} do not join along dimension {dim}"
        raise ShapeError("concat", problem, a.shape, b.shape)
    shape = [n + (b.shape[dim] if axis == dim else 0) for axis, n in enumerate(a.shape)]
    return node(Op.CONCAT, a.fmt, shape, Concat(a, b, dim=dim))


def stack(dim: int, *tensors: Tensor) -> Tensor:
    """All of them along the existing dimension `dim`, in order."""
    if not tensors:
        raise ShapeError("stack", "there is nothing to concatenate")
    return reduce(lambda rest, t: concat(t, rest, dim), reversed(tensors))


def repeat(x: Tensor, dim: int, n: int) -> Tensor:
    """x tiled n times along `dim`."""
    _check_dim("repeat", x, dim)
    if n < 1:
        raise ShapeError("repeat", f"{n} times is below 1", x.shape)
    shape = [size * (n if axis == dim else 1) for axis, size in enumerate(x.shape)]
    return node(Op.REPEAT, x.fmt, shape, Unary(x))


def pad(x: Tensor, *pads: int) -> Tensor:
    """Zeros at the end of each dimension; a negative count crops there."""
    counts = (*pads, *(0,) * (4 - len(pads)))
    shape = [n + p for n, p in zip(x.shape, counts, strict=False)]
    if len(counts) != 4 or min(shape) < 1:
        raise ShapeError("pad", f"by {pads} is too much", x.shape)
    if shape[0] % x.fmt.block:
        raise ShapeError("pad", f"{x.fmt} rows cannot be cut", x.shape, shape)
    kept = [min(n, m) for n, m in zip(x.shape, shape, strict=True)]
    cropped = x if tuple(kept) == x.shape else x.window(0, kept, x.strides)
    return cropped if kept == shape else node(Op.PAD, x.fmt, shape, Unary(cropped))


def set_(x: Tensor, values: Tensor, offset: int, strides: Sequence[int] = ()) -> Tensor:
    """A copy of x with `values` written from byte `offset` on.

    Rows of values lie `strides[0]` bytes apart in x, planes `strides[1]`, ...; packed where absent.
    """
    if x.fmt != values.fmt or not x.is_contiguous:
        raise ShapeError("set", "needs two of one type, the first packed", x.shape, values.shape)
    window = x.view(offset, values.shape, strides)
    arguments = Set(x, values, offset=offset, strides=window.strides)
    return node(Op.SET, x.fmt, x.shape, arguments)


def slice_(x: Tensor, dim: int, low: int, high: int, step: int = 1) -> Tensor:
    """Elements low, low + step, ... below `high` along `dim`: a view, or packed for steps in rows.

    Blocks of quantised rows cannot be cut.
    """
    _check_dim("slice", x, dim)
    if not 0 <= low < high <= x.shape[dim] or step < 1:
        raise ShapeError("slice", f"invalid slice parameters: {low} to {high} by {step}", x.shape)
    if dim == 0 and x.fmt.quantized:
        raise ShapeError("slice", f"{x.fmt} rows cannot be cut", x.shape)
    shape, strides = list(x.shape), list(x.strides)
    shape[dim] = -(-(high - low) // step)
    strides[dim] *= step
    part = x.window(low * x.strides[dim], shape, strides)
    return contiguous(part) if dim == 0 and step > 1 else part


def chunk(x: Tensor, dim: int, size: int) -> list[Tensor]:
    """Slices of `size` along `dim`; the last may be shorter."""
    _check_dim("chunk", x, dim)
    if size < 1:
        raise ShapeError("chunk", f"a size of {size} is below 1", x.shape)
    n = x.shape[dim]
    return [slice_(x, dim, low, min(low + size, n)) for low in range(0, n, size)]


def chunk_sections(x: Tensor, dim: int, sizes: Sequence[int]) -> list[Tensor]:
    """Slices of the given sizes along `dim`, which they sum to."""
    _check_dim("chunk_sections", x, dim)
    if sum(sizes) != x.shape[dim]:
        problem = f"sections {list(sizes)} do not sum to tensor dimension {dim}"
        raise ShapeError("chunk_sections", problem, x.shape)
    ends = [0, *accumulate(sizes)]
    return [slice_(x, dim, low, high) for low, high in pairwise(ends)]


def _check_dim(op: str, x: Tensor, dim: int) -> None:
    if not 0 <= dim <= 3:
        raise ShapeError(op, f"invalid dimension {dim}", x.shape)
