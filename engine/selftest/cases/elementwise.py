"""Cases: arithmetic and activations."""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from engine.gguf.formats import BF16, F16, F32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.selftest.case import SHAPES, Case, bound, dims, forms, most_of
from engine.selftest.operands import Operands

FLOATS = (F32, F16, BF16)
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "sqr": ops.sqr,
    "sin": ops.sin,
    "cos": ops.cos,
    "exp": ops.exp,
    "softplus": ops.softplus,
    "neg": ops.neg,
    "scale": lambda x: ops.scale(x, 0.3),
    "clamp": lambda x: ops.clamp(x, -0.5, 0.7),
    "softcap": lambda x: ops.softcap(x, 2.0),
    "silu": ops.silu,
    "gelu": ops.gelu,
    "gelu_erf": ops.gelu_erf,
    "quick_gelu": ops.quick_gelu,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
    "xielu": lambda x: ops.xielu(x, 0.8, 0.7, 0.5),
    "sqrt": lambda x: ops.sqrt(ops.sqr(x)),
}
GATED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "silu": ops.silu,
    "gelu": ops.gelu,
    "gelu_erf": ops.gelu_erf,
    "quick_gelu": ops.quick_gelu,
    "relu": ops.relu,
    "swiglu_limit 1.702": lambda g, u: ops.swiglu_limit(g, u, 1.702, 7.0),
    "swiglu_limit 0.5": lambda g, u: ops.swiglu_limit(g, u, 0.5, 2.0),
}
BINARY = {"add": ops.add, "sub": ops.sub, "mul": ops.mul, "div": ops.div}
# What the first operand is as long as the second, in each dimension.
TIMES = ((1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2), (1, 1, 2, 2))
# First and second operand: a row, a column, a scalar, many rows.
BROADCASTS = (
    *((tuple(np.multiply((10, 5, 4, 3), t).tolist()), (10, 5, 4, 3)) for t in TIMES),
    ((20, 10, 8, 6), (10, 5, 4, 3)),
    ((1280, 16, 16, 1), (1280, 1, 1, 1)),
    ((1280, 16, 16, 1), (1280, 16, 1, 1)),
    ((33, 5, 1, 1), (1, 5, 1, 1)),
    ((1, 1, 8, 1), (1, 1, 8, 1)),
    ((7, 3, 1, 1), (1, 1, 1, 1)),
    ((5120, 256, 1, 1), (5120, 1, 1, 1)),
    ((4, 262144, 1, 1), (4, 262144, 1, 1)),
)
QUICK_BROADCASTS = ((10, 5, 4, 3), (20, 10, 8, 6))
# NaN and infinities stay what they are, whatever a driver's fmin and fmax do with them.
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, -1e4, 1e-30)


def elementwise() -> Iterator[Case]:
    """Everything that looks at one element, or at one of each operand."""
    for name, unary in UNARY.items():
        for fmt in FLOATS:
            yield from forms(name, fmt, unary)
        for shape in ((7, 1, 5, 3), (1024, 1024)):
            yield Case(
                name,
                f"F32 {dims(*shape)}",
                bound(lambda o, f, s: f(o.make(F32, *s)), f=unary, s=shape),
            )
        special = bound(lambda o, f: f(o.put(F32, np.array(SPECIAL * 3))), f=unary)
        yield Case(name, "F32 NaN and infinities", special, quick=True)
    for name, gated in GATED.items():
        for fmt in FLOATS:
            yield from _gated(name, gated, fmt)
    for name, binary in BINARY.items():
        for fmt in FLOATS:
            yield from _binary(name, binary, fmt)
    yield from _by_id()
    yield Case("add", "F32 [4096,2048]", lambda o: _large(o, ops.add), speed=True)
    yield Case("silu", "gated F32 [4096,2048]", lambda o: _large(o, ops.silu), speed=True)


def _large(o: Operands, made: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return made(o.make(F32, 4096, 2048), o.make(F32, 4096, 2048))


def _gated(name: str, made: Callable[[Tensor, Tensor], Tensor], fmt: Format) -> Iterator[Case]:
    """Two tensors, and the halves of each row, in both orders."""
    op, _, what = name.partition(" ")
    for shape in SHAPES:
        pair = bound(lambda o, s: made(o.make(fmt, *s), o.make(fmt, *s)), s=shape)
        label = f"{what} {fmt} {dims(*shape)}".strip()
        yield Case(op, f"gated {label}", pair, most_of(fmt), shape == SHAPES[1])
        for swapped in (False, True):
            halves = bound(lambda o, s, r: _halves(o, made, fmt, s, r), s=shape, r=swapped)
            yield Case(op, f"gated halves{' swapped' * swapped} {label}", halves, most_of(fmt))


def _halves(
    o: Operands,
    made: Callable[[Tensor, Tensor], Tensor],
    fmt: Format,
    shape: tuple[int, ...],
    swapped: bool,
) -> Tensor:
    whole = o.make(fmt, 2 * shape[0], *shape[1:])
    parts = [whole.view(i * shape[0] * fmt.bytes, shape, whole.strides[1:]) for i in (0, 1)]
    return made(*(parts[::-1] if swapped else parts))


def _binary(op: str, made: Callable[[Tensor, Tensor], Tensor], fmt: Format) -> Iterator[Case]:
    for a, b in BROADCASTS:
        both = bound(lambda o, a, b: made(o.make(fmt, *a), o.make(fmt, *b)), a=a, b=b)
        quick = a in QUICK_BROADCASTS
        yield Case(op, f"{fmt} {dims(*a)} {dims(*b)}", both, most_of(fmt), quick)
    for order in ((1, 0, 2, 3), (0, 2, 1, 3), (3, 1, 2, 0)):
        permuted = bound(
            lambda o, p: made(o.view(fmt, 10, 5, 4, 3), o.permuted(fmt, p, 10, 5, 4, 3)), p=order
        )
        label = f"views {fmt} [10,5,4,3] {dims(*order)}"
        yield Case(op, label, permuted, most_of(fmt), order == (1, 0, 2, 3))
    overlap = bound(lambda o: _overlapping(o, made, fmt))
    yield Case(op, f"overlapping {fmt} [10,5]", overlap, most_of(fmt))


def _overlapping(o: Operands, made: Callable[[Tensor, Tensor], Tensor], fmt: Format) -> Tensor:
    whole = o.make(fmt, 16, 9)
    step = whole.strides[1:2]
    return made(whole.view(0, (10, 5), step), whole.view(2 * step[0] + fmt.bytes, (10, 5), step))


def _by_id() -> Iterator[Case]:
    for wide, experts, used, tokens in product((32, 129), (4, 8), (1, 2, 4), (1, 32, 129)):
        by_id = bound(
            lambda o, w, e, u, n: ops.add_id(
                o.make(F32, w, u, n), o.make(F32, w, e), o.ids(e, u, n, distinct=True)
            ),
            w=wide,
            e=experts,
            u=used,
            n=tokens,
        )
        label = f"F32 {dims(wide, used, tokens)} of {experts}"
        yield Case("add_id", label, by_id, quick=(wide, experts, used, tokens) == (129, 8, 4, 32))
