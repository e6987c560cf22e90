"""Cases: norms, reductions and orders over dimension 0."""

from collections.abc import Iterator

from engine.gguf.formats import BF16, F16, F32
from engine.graph import ops
from engine.selftest.case import EXACT, F32_MOST, Case, bound, dims, forms

ROW_LENGTHS = (64, 1025, 33, 132, 260, 1, 511, 8192, 16896)
EPSILONS = (0.0, 1e-6, 1e-4, 1e-1, 10.0)
SORTED = (1, 2, 31, 33, 255, 256, 257, 1000, 1024, 16384, 200001, 1 << 20)


def reducing() -> Iterator[Case]:
    """Cases of operations over whole rows."""
    for n in ROW_LENGTHS:
        for eps in EPSILONS:
            yield from _norms(n, eps)
    for name, made in (
        ("layer_norm", lambda x: ops.layer_norm(x, None, None, 1e-5)),
        ("rms_norm", lambda x: ops.rms_norm(x, None, 1e-5)),
        ("l2_norm", lambda x: ops.l2_norm(x, 1e-5)),
        ("variance", ops.variance),
        ("stddev", ops.stddev),
    ):
        yield from forms(name, F32, made)
    for name, made in (("sum_rows", ops.sum_rows), ("mean", ops.mean)):
        for fmt in (F32, F16, BF16):
            yield from forms(name, fmt, made, F32_MOST)
        for n in (1, 33, 1025, 200001):
            long = bound(lambda o, f, n: f(o.make(F32, n, 3)), f=made, n=n)
            yield Case(name, f"F32 {dims(n, 3)}", long)
    yield from _orders()
    yield Case(
        "rms_norm",
        "F32 [4096,2048]",
        lambda o: ops.rms_norm(o.make(F32, 4096, 2048), o.make(F32, 4096), 1e-5),
        speed=True,
    )


def _norms(n: int, eps: float) -> Iterator[Case]:
    quick = n in (33, 1025) and eps == 1e-6
    label = f"F32 {dims(n, 5, 4)} eps {eps:g}"
    if n > 1:  # the norm of a single element is the sign of a difference of equals
        layer = bound(
            lambda o: ops.layer_norm(o.make(F32, n, 5, 4), o.make(F32, n), o.make(F32, n), eps)
        )
        yield Case("layer_norm", label, layer, quick=quick)
    rms = bound(lambda o: ops.rms_norm(o.make(F32, n, 5, 4), o.make(F32, n), eps))
    yield Case("rms_norm", label, rms, quick=quick)
    yield Case("l2_norm", label, lambda o: ops.l2_norm(o.make(F32, n, 5, 4), eps), quick=quick)


def _orders() -> Iterator[Case]:
    for n in SORTED:
        for down in (False, True):
            order = bound(
                lambda o, n, d: ops.argsort(o.make(F32, n, 3 if n < 1e6 else 1), descending=d),
                n=n,
                d=down,
            )
            label = f"{'descending' if down else 'ascending'} {dims(n)}"
            yield Case("argsort", label, order, EXACT, n in (33, 1000))
    equal = bound(lambda o: ops.argsort(o.put(F32, o.rng.integers(0, 9, (7, 700)))))
    yield Case("argsort", "ascending [700,7] of nine values", equal, EXACT, True)
    views = bound(lambda o: ops.argsort(o.permuted(F32, (1, 0, 2, 3), 300, 7)))
    yield Case("argsort", "ascending [300,7] permuted", views, EXACT)
    for k, n in ((1, 5), (40, 1000), (256, 70000)):
        best = bound(lambda o, k, n: ops.top_k(o.make(F32, n, 3), k), k=k, n=n)
        yield Case("top_k", f"{k} of {dims(n, 3)}", best, EXACT, n == 1000)
