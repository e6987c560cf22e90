"""Elementwise arithmetic. A second operand tiles into the first, whose shape the result has."""

from dataclasses import KW_ONLY, dataclass

from engine.errors import ShapeError
from engine.gguf.formats import F32, I32
from engine.graph.node import Arguments, Unary, node
from engine.graph.op import Op
from engine.graph.ops.checks import check_floats
from engine.graph.tensor import Tensor


@dataclass(frozen=True)
class Binary(Arguments):
    """Two operands, of which the second tiles into the first."""

    a: Tensor
    b: Tensor


@dataclass(frozen=True)
class Scale(Unary):
    """x * factor."""

    _: KW_ONLY
    factor: float


@dataclass(frozen=True)
class Clamp(Unary):
    """x, bounded to [low, high]."""

    _: KW_ONLY
    low: float
    high: float


@dataclass(frozen=True)
class Softcap(Unary):
    """cap * tanh(x / cap)."""

    _: KW_ONLY
    cap: float


@dataclass(frozen=True)
class AddId(Arguments):
    """Rows of b, chosen by ids, added to a."""

    a: Tensor
    b: Tensor
    ids: Tensor


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
    return _unary(Op.SCALE, a, Scale(a, factor=float(factor)))


def neg(a: Tensor) -> Tensor:
    """-a."""
    return scale(a, -1.0)


def clamp(a: Tensor, low: float, high: float) -> Tensor:
    """a, bounded to [low, high]; NaN stays."""
    if not low <= high:
        raise ShapeError("clamp", f"the lower bound {low} is above the upper {high}", a.shape)
    return _unary(Op.CLAMP, a, Clamp(a, low=float(low), high=float(high)))


def sqr(a: Tensor) -> Tensor:
    """a * a."""
    return _unary(Op.SQR, a)


def sqrt(a: Tensor) -> Tensor:
    """The square root."""
    return _unary(Op.SQRT, a)


def sin(a: Tensor) -> Tensor:
    """The sine of radians."""
    return _unary(Op.SIN, a)


def cos(a: Tensor) -> Tensor:
    """The cosine of radians."""
    return _unary(Op.COS, a)


def exp(a: Tensor) -> Tensor:
    """e to the power of a."""
    return _unary(Op.EXP, a)


def softplus(a: Tensor) -> Tensor:
    """ln(1 + e^a): `a` itself above 20, where the two are equal in f32."""
    return _unary(Op.SOFTPLUS, a)


def softcap(a: Tensor, cap: float) -> Tensor:
    """cap * tanh(a / cap): squeezes values into (-cap, cap)."""
    if not cap > 0:
        raise ShapeError("softcap", f"the cap {cap} must be above 0", a.shape)
    return _unary(Op.SOFTCAP, a, Softcap(a, cap=float(cap)))


def add_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """out[:, u, t] = a[:, u, t] + b[:, ids[u, t]]: f32 a [D, U, T], b [D, E], ids i32 [U, T]."""
    if a.fmt != F32 or b.fmt != F32 or ids.fmt != I32:
        raise ShapeError("add_id", "needs f32 a and b, and i32 ids", a.shape, b.shape, ids.shape)
    flat = b.shape[2:] == (1, 1) and a.shape[3] == ids.shape[3] == ids.shape[2] == 1
    if not flat or b.shape[0] != a.shape[0] or ids.shape[:2] != a.shape[1:3]:
        raise ShapeError("add_id", "a, b and ids do not fit", a.shape, b.shape, ids.shape)
    return node(Op.ADD_ID, F32, a.shape, AddId(a, b, ids))


def _unary(op: Op, a: Tensor, arguments: Arguments | None = None) -> Tensor:
    check_floats(op, a)
    return node(op, a.fmt, a.shape, arguments or Unary(a))


def _binary(op: Op, a: Tensor, b: Tensor) -> Tensor:
    check_floats(op, a, b)
    if any(n % m for n, m in zip(a.shape, b.shape, strict=True)):
        raise ShapeError(op, "the second operand does not tile into the first", a.shape, b.shape)
    return node(op, a.fmt, a.shape, Binary(a, b))
