"""What puts tensors together, cuts them and fills them up."""

from collections.abc import Sequence
from functools import reduce
from math import ceil

import numpy as np

from engine.errors import ShapeError
from engine.gguf.formats import F32
from engine.graph.op import Op
from engine.graph.ops.copy import contiguous
from engine.graph.tensor import Tensor, node


def arange(start: float, stop: float, step: float = 1.0) -> Tensor:
    """f32: start, start + step, ... below `stop`. Whole numbers are made on the host instead."""
    n = ceil((stop - start) / step) if step else 0
    if n < 1:
        raise ShapeError("arange", f"nothing lies from {start} to {stop} in steps of {step}", ())
    return node(Op.ARANGE, F32, (n,), start=float(start), step=float(step))


def concat(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """a, then b, along `dim`; the other dimensions and the types are the same."""
    _check_dim("concat", a, dim)
    others = [axis for axis in range(4) if axis != dim]
    if a.fmt != b.fmt or any(a.shape[axis] != b.shape[axis] for axis in others):
        raise ShapeError("concat", f"do not join along dimension {dim}", a.shape, b.shape)
    shape = [n + (b.shape[dim] if axis == dim else 0) for axis, n in enumerate(a.shape)]
    return node(Op.CONCAT, a.fmt, shape, a, b, dim=dim)


def stack(dim: int, *tensors: Tensor) -> Tensor:
    """All of them along the existing dimension `dim`, in order."""
    return reduce(lambda rest, t: concat(t, rest, dim), reversed(tensors))


def repeat(x: Tensor, dim: int, n: int) -> Tensor:
    """x tiled n times along `dim`."""
    _check_dim("repeat", x, dim)
    if n < 1:
        raise ShapeError("repeat", f"{n} times is below 1", x.shape)
    shape = [size * (n if axis == dim else 1) for axis, size in enumerate(x.shape)]
    return node(Op.REPEAT, x.fmt, shape, x)


def pad(x: Tensor, *pads: int) -> Tensor:
    """Zeros at the end of each dimension; a negative count crops there."""
    counts = (*pads, *(0,) * (4 - len(pads)))
    shape = tuple(n + p for n, p in zip(x.shape, counts, strict=True))
    if len(counts) != 4 or min(shape) < 1:
        raise ShapeError("pad", f"by {pads} leaves nothing", x.shape)
    kept = [min(n, m) for n, m in zip(x.shape, shape, strict=True)]
    cropped = x if tuple(kept) == x.shape else x.view(0, kept, x.strides[1:])
    return cropped if cropped.shape == shape else node(Op.PAD, x.fmt, shape, cropped)


def set_(x: Tensor, values: Tensor, offset: int, strides: Sequence[int] = ()) -> Tensor:
    """A copy of x with `values` written from byte `offset` on.

    Rows of values lie `strides[0]` bytes apart in x, planes `strides[1]`, ...; packed where absent.
    """
    if x.fmt != values.fmt or not x.is_contiguous:
        raise ShapeError("set", "needs two of one type, the first packed", x.shape, values.shape)
    window = x.view(offset, values.shape, strides)
    attr = {"offset": offset, "strides": window.strides}
    return node(Op.SET, x.fmt, x.shape, x, values, **attr)


def slice_(x: Tensor, dim: int, low: int, high: int, step: int = 1) -> Tensor:
    """Elements low, low + step, ... below `high` along `dim`: a view, or packed for steps in rows.

    Blocks of quantised rows cannot be cut.
    """
    _check_dim("slice", x, dim)
    if not 0 <= low < high <= x.shape[dim] or step < 1:
        raise ShapeError("slice", f"invalid: {low} to {high} by {step}", x.shape)
    if dim == 0 and x.fmt.quantized:
        raise ShapeError("slice", f"{x.fmt} rows cannot be cut", x.shape)
    shape, strides = list(x.shape), list(x.strides)
    shape[dim] = -(-(high - low) // step)
    strides[dim] *= step
    if dim == 0 and step > 1:  # Only permuted views may step within rows: packed at once.
        columns = x.view(low * x.strides[0], (high - low, *x.shape[1:]), x.strides[1:])
        return _every(columns, step)
    return x.view(low * x.strides[dim], shape, strides[1:])


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
        raise ShapeError("chunk_sections", f"{list(sizes)} do not sum to dimension {dim}", x.shape)
    starts = np.cumsum([0, *sizes]).tolist()
    return [slice_(x, dim, low, high) for low, high in zip(starts, starts[1:], strict=False)]


def _every(x: Tensor, step: int) -> Tensor:
    """Every `step`-th element of each row, packed."""
    n = -(-x.shape[0] // step)
    whole = pad(x, n * step - x.shape[0]) if n * step != x.shape[0] else contiguous(x)
    columns = contiguous(whole).reshape(step, n, x.shape[1], x.shape[2] * x.shape[3])
    first = columns.view(0, (1, *columns.shape[1:]), columns.strides[1:])
    return contiguous(first, n, *x.shape[1:])


def _check_dim(op: str, x: Tensor, dim: int) -> None:
    if not 0 <= dim <= 3:
        raise ShapeError(op, f"invalid dimension {dim}", x.shape)
