"""Activations; with `up` they are gated: act(gate) * up."""

from engine.errors import ShapeError
from engine.graph.tensor import Op, Tensor, node


def silu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """x * sigmoid(x), times `up` where given (SwiGLU)."""
    return _gated(Op.SILU, gate, up)


def gelu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), times `up` where given (GeGLU)."""
    return _gated(Op.GELU, gate, up)


def _gated(op: Op, gate: Tensor, up: Tensor | None) -> Tensor:
    if up is not None and up.shape != gate.shape:
        raise ShapeError(op, "gate and up differ", gate.shape, up.shape)
    return node(op, gate.fmt, gate.shape, gate, up)
