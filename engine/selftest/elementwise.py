"""Cases: arithmetic, activations, norms, reductions."""

from collections.abc import Callable, Iterator

from engine.gguf.formats import BF16, F16, F32, Format
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.selftest.case import EXACT, Case, bound, dims, most_of
from engine.selftest.operands import Operands

FLOATS = (F32, F16, BF16)
SHAPES = ((128, 2, 2, 2), (5, 7, 11, 13))
SWAPPED = (0, 2, 1, 3)

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "sqr": ops.sqr,
    "sin": ops.sin,
    "cos": ops.cos,
    "neg": ops.neg,
    "scale": lambda x: ops.scale(x, 0.3),
    "clamp": lambda x: ops.clamp(x, -0.5, 0.7),
    "softcap": lambda x: ops.softcap(x, 2.0),
    "silu": ops.silu,
    "gelu": ops.gelu,
    "quick_gelu": ops.quick_gelu,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
    "sqrt": lambda x: ops.sqrt(ops.sqr(x)),
}
GATED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "silu": ops.silu,
    "gelu": ops.gelu,
    "quick_gelu": ops.quick_gelu,
    "relu": ops.relu,
    "swiglu_limit 1.702": lambda g, u: ops.swiglu_limit(g, u, 1.702, 7.0),
    "swiglu_limit 0.5": lambda g, u: ops.swiglu_limit(g, u, 0.5, 2.0),
}
BINARY = {"add": ops.add, "sub": ops.sub, "mul": ops.mul, "div": ops.div}
# First and second operand: equal, a row, a column, tiles in every dimension, a scalar.
BROADCASTS = (
    ((10, 5, 4, 3), (10, 5, 4, 3)),
    ((1280, 16, 2, 1), (1280, 1, 1, 1)),
    ((33, 5, 1, 1), (1, 5, 1, 1)),
    ((20, 10, 8, 6), (10, 5, 4, 3)),
    ((7, 3, 1, 1), (1, 1, 1, 1)),
)
ROW_LENGTHS = (64, 1025, 33, 132, 260, 1, 511, 8192, 16896)
EPSILONS = (0.0, 1e-6, 1e-1, 10.0)


def elementwise() -> Iterator[Case]:
    """Everything that keeps or reduces a shape."""
    for name, unary in UNARY.items():
        for fmt in FLOATS:
            yield from _forms(name, fmt, unary)
    for name, gated in GATED.items():
        op, _, what = name.partition(" ")
        for fmt in FLOATS:
            for shape in SHAPES:
                pair = bound(
                    lambda o, f, t, s: f(o.make(t, *s), o.make(t, *s)), f=gated, t=fmt, s=shape
                )

                label = f"gated {what} {fmt} {dims(*shape)}"
                yield Case(op, label, pair, most_of(fmt), shape == SHAPES[1])
    for name, binary in BINARY.items():
        yield from _binary(name, binary)
    yield from _norms()
    yield from _reductions()
    yield Case("add", "F32 [4096,2048]", lambda o: _large(o, ops.add), speed=True)
    yield Case("silu", "gated F32 [4096,2048]", lambda o: _large(o, ops.silu), speed=True)
    yield Case(
        "rms_norm",
        "F32 [4096,2048]",
        lambda o: ops.rms_norm(o.make(F32, 4096, 2048), o.make(F32, 4096), 1e-5),
        speed=True,
    )


def _large(o: Operands, made: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return made(o.make(F32, 4096, 2048), o.make(F32, 4096, 2048))


def _forms(op: str, fmt: Format, made: Callable[[Tensor], Tensor]) -> Iterator[Case]:
    """Packed, as a view and permuted."""
    most = most_of(fmt)
    for shape in SHAPES:
        odd = shape == SHAPES[1]
        yield Case(
            op,
            f"{fmt} {dims(*shape)}",
            bound(lambda o, s: made(o.make(fmt, *s)), s=shape),
            most,
            odd,
        )
        yield Case(
            op,
            f"view {fmt} {dims(*shape)}",
            bound(lambda o, s: made(o.view(fmt, *s)), s=shape),
            most,
        )
        yield Case(
            op,
            f"permuted {fmt} {dims(*shape)}",
            bound(lambda o, s: made(o.permuted(fmt, SWAPPED, *s)), s=shape),
            most,
        )


def _binary(op: str, made: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Case]:
    for fmt in FLOATS:
        for i, (a, b) in enumerate(BROADCASTS):
            both = bound(lambda o, t, a, b: made(o.make(t, *a), o.make(t, *b)), t=fmt, a=a, b=b)

            yield Case(op, f"{fmt} {dims(*a)} {dims(*b)}", both, most_of(fmt), i in (0, 3))

        permuted = bound(
            lambda o, t: made(o.view(t, 10, 5, 4, 3), o.permuted(t, (1, 0, 2, 3), 10, 5, 4, 3)),
            t=fmt,
        )

        yield Case(op, f"views {fmt} [10,5,4,3]", permuted, most_of(fmt))
    if op == "add":
        for wide, experts, used, tokens in ((32, 4, 1, 1), (129, 8, 4, 129), (129, 4, 2, 32)):
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
            yield Case("add_id", label, by_id, quick=tokens == 129)


def _norms() -> Iterator[Case]:
    for n in ROW_LENGTHS:
        for eps in EPSILONS:
            quick = n in (33, 1025) and eps == 1e-6
            label = f"F32 {dims(n, 5, 4)} eps {eps:g}"

            if n > 1:  # the norm of a single element is the sign of a difference of equals
                yield Case(
                    "layer_norm",
                    label,
                    bound(
                        lambda o, n, e: ops.layer_norm(
                            o.make(F32, n, 5, 4), o.make(F32, n), o.make(F32, n), e
                        ),
                        n=n,
                        e=eps,
                    ),
                    quick=quick,
                )
            yield Case(
                "rms_norm",
                label,
                bound(
                    lambda o, n, e: ops.rms_norm(o.make(F32, n, 5, 4), o.make(F32, n), e),
                    n=n,
                    e=eps,
                ),
                quick=quick,
            )
            yield Case(
                "l2_norm",
                label,
                bound(lambda o, n, e: ops.l2_norm(o.make(F32, n, 5, 4), e), n=n, e=eps),
                quick=quick,
            )
    for name, made in (
        ("layer_norm", lambda x: ops.layer_norm(x, None, None, 1e-5)),
        ("rms_norm", lambda x: ops.rms_norm(x, None, 1e-5)),
        ("l2_norm", lambda x: ops.l2_norm(x, 1e-5)),
    ):
        yield from _forms(name, F32, made)


def _reductions() -> Iterator[Case]:
    for name, made in (
        ("sum_rows", ops.sum_rows),
        ("mean", ops.mean),
        ("variance", ops.variance),
        ("stddev", ops.stddev),
    ):
        yield from _forms(name, F32, made)
    for n in (1, 2, 31, 33, 1000, 16384, 200001):
        for down in (False, True):
            order = "descending" if down else "ascending"
            yield Case(
                "argsort",
                f"{order} {dims(n, 3)}",
                bound(lambda o, n, d: ops.argsort(o.make(F32, n, 3), descending=d), n=n, d=down),
                EXACT,
                n in (33, 1000),
            )
    yield Case(
        "top_k", "40 of [1000,3]", lambda o: ops.top_k(o.make(F32, 1000, 3), 40), EXACT, True
    )
