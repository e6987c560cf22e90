"""Reductions and orders over dimension 0."""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.node import Arguments, Unary, node
from engine.graph.op import Op
from engine.graph.ops.arithmetic import sqr, sqrt, sub
from engine.graph.ops.checks import check_floats
from engine.graph.ops.copy import cast
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Argsort(Arguments):
    """The order of each row of x."""

    x: Tensor
    _: KW_ONLY
    descending: bool


def sum_rows(x: Tensor) -> Tensor:
    """f32 [1, d1, d2, d3]: each row's sum."""
    check_floats("sum_rows", x)
    return node(Op.SUM_ROWS, F32, (1, *x.shape[1:]), Unary(x))


def mean(x: Tensor) -> Tensor:
    """f32 [1, d1, d2, d3]: each row's mean."""
    check_floats("mean", x)
    return node(Op.MEAN, F32, (1, *x.shape[1:]), Unary(x))


def variance(x: Tensor) -> Tensor:
    """f32 [1, d1, d2, d3]: the population variance of each row, mean((x - mean)^2)."""
    wide = x if x.fmt == F32 else cast(x, F32)  # Squares of f16 would overflow.
    return mean(sqr(sub(wide, mean(x))))


def stddev(x: Tensor) -> Tensor:
    """The square root of `variance`."""
    return sqrt(variance(x))


def argsort(x: Tensor, *, descending: bool = False) -> Tensor:
    """i32: the indices that sort each row of f32 x. Equal values keep their order; NaN is last."""
    if x.fmt != F32:
        raise ShapeError("argsort", f"sorts f32, not {x.fmt}", x.shape)
    return node(Op.ARGSORT, I32, x.shape, Argsort(x, descending=descending))


def top_k(x: Tensor, k: int) -> Tensor:
    """i32 [k, d1, d2, d3]: the indices of each row's k largest, the largest first.

    A view of the whole order, so that its rows lie as far apart as x's are long.
    """
    if not 1 <= k <= x.shape[0]:
        raise ShapeError("top_k", f"a row has no {k} elements", x.shape)
    order = argsort(x, descending=True)
    return order.view(0, (k, *x.shape[1:]), order.strides[1:])
