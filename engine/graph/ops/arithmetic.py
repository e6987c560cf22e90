"""Elementwise arithmetic. The second operand tiles into the first, whose shape the result has."""

from engine.errors import ShapeError
from engine.graph.tensor import Op, Tensor, node


def add(a: Tensor, b: Tensor) -> Tensor:
    """a + b; every dimension of `a` is a multiple of `b`'s, indices into `b` are modulo."""
    return _binary(Op.ADD, a, b)


def sub(a: Tensor, b: Tensor) -> Tensor:
    """a - b, broadcast as `add`."""
    return _binary(Op.SUB, a, b)


def mul(a: Tensor, b: Tensor) -> Tensor:
    """a * b, broadcast as `add`."""
    return _binary(Op.MUL, a, b)


def div(a: Tensor, b: Tensor) -> Tensor:
    """a / b, broadcast as `add`."""
    return _binary(Op.DIV, a, b)


def scale(a: Tensor, factor: float) -> Tensor:
    """a * factor, the factor taken as f32."""
    return node(Op.SCALE, a.fmt, a.shape, a, factor=float(factor))


def softcap(a: Tensor, cap: float) -> Tensor:
    """cap * tanh(a / cap): squeezes values into (-cap, cap)."""
    if cap <= 0:
        raise ShapeError("softcap", f"the cap {cap} must be above 0", a.shape)
    return node(Op.SOFTCAP, a.fmt, a.shape, a, cap=float(cap))


def _binary(op: Op, a: Tensor, b: Tensor) -> Tensor:
    if any(n % m for n, m in zip(a.shape, b.shape, strict=True)):
        raise ShapeError(op, "the second operand does not tile into the first", a.shape, b.shape)
    return node(op, a.fmt, a.shape, a, b)
