"""Activations; with `up` they are gated: act(gate) * up."""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.graph.node import Arguments, node
from engine.graph.op import Op
from engine.graph.ops.checks import check_floats
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Gated(Arguments):
    """act(gate), times `up` where given."""

    gate: Tensor
    up: Tensor | None


@dataclass(frozen=True)
class SwigluLimit(Gated):
    """g sigmoid(alpha g) (u + 1) with g and u bounded by `limit`."""

    _: KW_ONLY
    alpha: float
    limit: float


@dataclass(frozen=True)
class Xielu(Gated):
    """above x^2 + slope x where x is above zero, below (e^x - 1 - x) + slope x elsewhere."""

    _: KW_ONLY
    above: float
    below: float
    slope: float


def silu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """x * sigmoid(x), times `up` where given (SwiGLU)."""
    return _gated(Op.SILU, gate, up)


def gelu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), times `up` where given (GeGLU)."""
    return _gated(Op.GELU, gate, up)


def gelu_erf(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """0.5 x (1 + erf(x / sqrt(2))), which `gelu` approximates, times `up` where given."""
    return _gated(Op.GELU_ERF, gate, up)


def quick_gelu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """x * sigmoid(1.702 x), times `up` where given."""
    return _gated(Op.QUICK_GELU, gate, up)


def relu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """max(x, 0), times `up` where given (ReGLU)."""
    return _gated(Op.RELU, gate, up)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return _gated(Op.TANH, x, None)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return _gated(Op.SIGMOID, x, None)


def swiglu_limit(gate: Tensor, up: Tensor, alpha: float, limit: float) -> Tensor:
    """g * sigmoid(alpha g) * (u + 1), g = min(gate, limit), u = up within +-limit (gpt-oss)."""
    _check_gated(Op.SWIGLU_LIMIT, gate, up)
    arguments = SwigluLimit(gate, up, alpha=float(alpha), limit=float(limit))
    return node(Op.SWIGLU_LIMIT, gate.fmt, gate.shape, arguments)


def xielu(x: Tensor, above: float, below: float, slope: float) -> Tensor:
    """above x^2 + slope x where x > 0, else below (e^x - 1 - x) + slope x (Apertus)."""
    _check_gated(Op.XIELU, x, None)
    numbers = {"above": float(above), "below": float(below), "slope": float(slope)}
    return node(Op.XIELU, x.fmt, x.shape, Xielu(x, None, **numbers))


def _gated(op: Op, gate: Tensor, up: Tensor | None) -> Tensor:
    _check_gated(op, gate, up)
    return node(op, gate.fmt, gate.shape, Gated(gate, up))


def _check_gated(op: Op, gate: Tensor, up: Tensor | None) -> None:
    check_floats(op, gate, up)
    if up is not None and up.shape != gate.shape:
        raise ShapeError(op, "gate and up differ", gate.shape, up.shape)
