"""Cases: norms, reductions and orders over dimension 0; concatenation, slices and padding."""

from collections.abc import Iterator

from engine.gguf.formats import BF16, F16, F32, I8, I16, I32, I64, Q4_0, Q8_0, Format
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
    for k, n in ((1, 5), (64, 64), (64, 1000), (64, 5000), (64, 262144)):
        found = bound(lambda o, k, n: ops.best(o.make(F32, n, 3), k), k=k, n=n)
        yield Case("best", f"{k} of {dims(n, 3)}", found, EXACT, n == 5000)
    ties = bound(lambda o: ops.best(o.put(F32, o.rng.integers(0, 9, (2, 3000))), 64))
    yield Case("best", "64 of [3000,2] of nine values", ties, EXACT, True)
    turned = bound(lambda o: ops.best(o.permuted(F32, (1, 0, 2, 3), 300, 7), 5))
    yield Case("best", "5 of [300,7] permuted", turned, EXACT)
    for k, n in ((1, 5), (40, 1000), (256, 70000)):
        best = bound(lambda o, k, n: ops.top_k(o.make(F32, n, 3), k), k=k, n=n)
        yield Case("top_k", f"{k} of {dims(n, 3)}", best, EXACT, n == 1000)


TYPES = (F32, F16, BF16, I8, I16, I32, I64)
"""Of every size; joining and cutting only moves bytes."""

A = (7, 5, 3, 2)
PADS = ((1, 0, 0, 0), (3, 2, 1, 0), (0, 0, 2, 3), (-2, 3, 0, 0))


def shaping() -> Iterator[Case]:
    """concat, repeat, slices, pad, set, arange."""
    for fmt in TYPES:
        for dim in range(4):
            yield from _along(fmt, dim)
    for fmt in (Q4_0, Q8_0):
        for dim in range(4):
            yield from _blocks(fmt, dim)
    for fmt in (F32, F16):
        for pads in PADS:
            padded = bound(lambda o, t, p: ops.pad(o.view(t, *A), *p), t=fmt, p=pads)
            label = f"{fmt} {dims(*A)} by {dims(*pads)}"
            yield Case("pad", label, padded, EXACT, pads == (3, 2, 1, 0))
        written = bound(
            lambda o, t: ops.set_(o.make(t, 10, 7), o.make(t, 4, 3), 12 * t.bytes, (10 * t.bytes,)),
            t=fmt,
        )
        yield Case("set", f"{fmt} [4,3] into [10,7]", written, EXACT, True)
    for start, stop, step in ((0, 10, 1), (0.5, 300, 0.25), (5, -5, -0.5)):
        counted = bound(lambda o, x, y, z: ops.arange(x, y, z), x=start, y=stop, z=step)
        yield Case("arange", f"{start} to {stop} by {step}", counted, quick=True)


def _along(fmt: Format, dim: int) -> Iterator[Case]:
    label, quick = f"{fmt} {dims(*A)} dim {dim}", fmt == F32
    longer = [n + 4 if axis == dim else n for axis, n in enumerate(A)]
    joined = bound(
        lambda o: ops.concat(o.make(fmt, *A), o.permuted(fmt, (1, 0, 2, 3), *longer), dim)
    )
    yield Case("concat", label, joined, EXACT, quick)
    repeated = bound(lambda o: ops.repeat(o.view(fmt, *A), dim, 3))
    yield Case("repeat", label, repeated, EXACT, quick)
    every_second = bound(lambda o: ops.contiguous(ops.slice_(o.make(fmt, *A), dim, 0, A[dim], 2)))
    yield Case("slice", label, every_second, EXACT, quick)


def _blocks(fmt: Format, dim: int) -> Iterator[Case]:
    shape = (64, 5, 3, 2)
    label = f"{fmt} {dims(*shape)} dim {dim}"
    joined = bound(lambda o: ops.concat(o.make(fmt, *shape), o.view(fmt, *shape), dim))
    yield Case("concat", label, joined, EXACT, dim == 1)
    repeated = bound(lambda o: ops.repeat(o.make(fmt, *shape), dim, 3))
    yield Case("repeat", label, repeated, EXACT)
