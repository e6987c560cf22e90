"""Norms, reductions and orders over dimension 0."""

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
class L2Norm(Arguments):
    """x over its length."""

    x: Tensor
    _: KW_ONLY
    eps: float


@dataclass(frozen=True)
class RmsNorm(L2Norm):
    """x over its root mean square, times a weight."""

    weight: Tensor | None = None


@dataclass(frozen=True)
class LayerNorm(RmsNorm):
    """x less its mean, over its deviation, times a weight, plus a bias."""

    bias: Tensor | None = None


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight, over dimension 0 (Zhang & Sennrich 2019)."""
    _check_row("rms_norm", x, weight)
    return node(Op.RMS_NORM, x.fmt, x.shape, RmsNorm(x, weight, eps=float(eps)))


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias (Ba, Kiros & Hinton 2016).

    The variance is the population's. A bias needs a weight.
    """
    if bias is not None and weight is None:
        raise ShapeError("layer_norm", "a bias needs a weight", x.shape, bias.shape)
    _check_row("layer_norm", x, weight)
    _check_row("layer_norm", x, bias)
    return node(Op.LAYER_NORM, x.fmt, x.shape, LayerNorm(x, weight, bias, eps=float(eps)))


def l2_norm(x: Tensor, eps: float) -> Tensor:
    """x / max(sqrt(sum(x^2)), eps), over dimension 0."""
    check_floats("l2_norm", x)
    return node(Op.L2_NORM, x.fmt, x.shape, L2Norm(x, eps=float(eps)))


def _check_row(op: str, x: Tensor, weight: Tensor | None) -> None:
    check_floats(op, x, weight)
    if weight is not None and weight.dims != (x.shape[0],):
        raise ShapeError(op, f"{weight.name} is not a row of x", x.shape, weight.shape)


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


@dataclass(frozen=True)
class Best(Arguments):
    """The k largest of each row of x."""

    x: Tensor
    _: KW_ONLY
    k: int


EXACT_INDICES = 1 << 24
"""Indices below are exact as f32."""


def best(x: Tensor, k: int) -> Tensor:
    """f32 [2 * k, d1, d2, d3]: each row's k largest, the largest first, and behind them their
    indices. Of equal values the first index wins; NaN is the largest of all.
    """
    if x.fmt != F32:
        raise ShapeError("best", f"compares f32, not {x.fmt}", x.shape)
    if not 1 <= k <= x.shape[0]:
        raise ShapeError("best", f"a row of {x.shape[0]} elements has no {k}", x.shape)
    if x.shape[0] > EXACT_INDICES:
        raise ShapeError("best", "indices of so long a row are not exact as f32", x.shape)
    return node(Op.BEST, F32, (2 * k, *x.shape[1:]), Best(x, k=k))


def top_k(x: Tensor, k: int) -> Tensor:
    """i32 [k, d1, d2, d3]: the indices of each row's k largest, the largest first.

    A view of the whole order, so that its rows lie as far apart as x's are long.
    """
    if not 1 <= k <= x.shape[0]:
        raise ShapeError("top_k", f"a row has no {k} elements", x.shape)
    order = argsort(x, descending=True)
    return order.view(0, (k, *x.shape[1:]), order.strides[1:])
