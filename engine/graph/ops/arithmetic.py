"""Elementwise arithmetic. A second operand tiles into the first, whose shape the result has."""

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.op import Op
from engine.graph.tensor import Tensor, node


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


def neg(a: Tensor) -> Tensor:
    """-a."""
    return scale(a, -1.0)


def clamp(a: Tensor, low: float, high: float) -> Tensor:
    """a, bounded to [low, high]."""
    if low > high:
        raise ShapeError("clamp", f"the lower bound {low} is above the upper {high}", a.shape)
    return node(Op.CLAMP, a.fmt, a.shape, a, low=float(low), high=float(high))


def sqr(a: Tensor) -> Tensor:
    """a * a."""
    return node(Op.SQR, a.fmt, a.shape, a)


def sqrt(a: Tensor) -> Tensor:
    """The square root."""
    return node(Op.SQRT, a.fmt, a.shape, a)


def sin(a: Tensor) -> Tensor:
    """The sine of radians."""
    return node(Op.SIN, a.fmt, a.shape, a)


def cos(a: Tensor) -> Tensor:
    """The cosine of radians."""
    return node(Op.COS, a.fmt, a.shape, a)


def softcap(a: Tensor, cap: float) -> Tensor:
    """cap * tanh(a / cap): squeezes values into (-cap, cap)."""
    if cap <= 0:
        raise ShapeError("softcap", f"the cap {cap} must be above 0", a.shape)
    return node(Op.SOFTCAP, a.fmt, a.shape, a, cap=float(cap))


def add_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """out[:, u, t] = a[:, u, t] + b[:, ids[u, t]]: f32 a [D, U, T], b [D, E], ids i32 [U, T]."""
    if a.fmt != F32 or b.fmt != F32 or ids.fmt != I32:
        raise ShapeError("add_id", "needs f32 a and b, and i32 ids", a.shape, b.shape, ids.shape)
    if b.dims != b.shape[:2] or b.shape[0] != a.shape[0] or ids.shape[:2] != a.shape[1:3]:
        raise ShapeError("add_id", "a, b and ids do not fit", a.shape, b.shape, ids.shape)
    return node(Op.ADD_ID, F32, a.shape, a, b, ids)


def _binary(op: Op, a: Tensor, b: Tensor) -> Tensor:
    if any(n % m for n, m in zip(a.shape, b.shape, strict=True)):
        raise ShapeError(op, "the second operand does not tile into the first", a.shape, b.shape)
    return node(op, a.fmt, a.shape, a, b)
