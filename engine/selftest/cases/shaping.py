"""Cases: what puts tensors together, cuts them and fills them up."""

from collections.abc import Iterator

from engine.gguf.formats import BF16, F16, F32, I8, I16, I32, I64, Q4_0, Q8_0, Format
from engine.graph import ops
from engine.selftest.case import EXACT, Case, bound, dims

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
