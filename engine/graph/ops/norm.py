"""Normalisation over dimension 0."""

from engine.errors import ShapeError
from engine.graph.tensor import Op, Tensor, node


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight, over dimension 0 (Zhang & Sennrich 2019)."""
    if weight is not None and weight.dims != (x.shape[0],):
        raise ShapeError("rms_norm", f"{weight.name} is no row of x", x.shape, weight.shape)
    return node(Op.RMS_NORM, x.fmt, x.shape, x, weight, eps=float(eps))
