"""Normalisation over dimension 0."""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.ops.checks import check_floats
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
