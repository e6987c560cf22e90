"""Cases: what moves and converts."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from engine.gguf.formats import (
    BF16,
    F16,
    F32,
    I8,
    I32,
    I64,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q6_K,
    Q8_0,
    Format,
)
from engine.graph import ops
from engine.selftest.case import EXACT, F32_MOST, Case, bound, dims, most_of
from engine.selftest.operands import QUANTIZED

FLOATS = (F32, F16, BF16)
WRITTEN = (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1)
# One step of a code in a few blocks, where a device rounds a tie to the other side.
STEP_MOST = {Q8_0: 1e-5, Q4_0: 2e-3, Q4_1: 2e-3, Q5_0: 5e-4, Q5_1: 5e-4}
A = (7, 5, 3, 2)


def moves() -> Iterator[Case]:
    """Gathers, scatters and copies."""
    for fmt in (*FLOATS, I32, *QUANTIZED):
        yield from _rows(fmt)
    many = bound(lambda o: ops.rows(o.make(F32, 256, 80000), o.ids(80000, 7000)))
    yield Case("rows", "F32 [256,80000] pick 7000", many, EXACT)
    for fmt in (*FLOATS, *WRITTEN):
        yield from _set_rows(fmt)
    for source in (*FLOATS, *QUANTIZED):
        for target in (*FLOATS, *(WRITTEN if source == F32 else ())):
            if source != target and not (source.quantized and target == BF16):
                yield from _casts(source, target)
    wide = bound(lambda o: ops.cast(o.make(F32, 2, 1 << 20), F16))
    yield Case("cast", "F32 to F16 [2,1048576]", wide, most_of(F16))
    for order in permutations(range(4)):
        for fmt in (F32, F16, I8, I64):
            packed = bound(lambda o, t, p: ops.contiguous(o.permuted(t, p, *A)), t=fmt, p=order)
            label = f"{fmt} {dims(*A)} permuted {dims(*order)}"
            yield Case("contiguous", label, packed, EXACT, order == (1, 0, 2, 3))
    for fmt in (Q4_0, Q8_0, Q6_K):
        blocks = bound(lambda o, t: ops.contiguous(o.permuted(t, (0, 2, 1, 3), 256, 5, 3)), t=fmt)
        yield Case("contiguous", f"{fmt} [256,5,3] permuted [0,2,1]", blocks, EXACT, fmt == Q4_0)
    yield from _copies_into()


def _rows(fmt: Format) -> Iterator[Case]:
    most = EXACT if fmt in FLOATS or fmt == I32 else F32_MOST
    k = max(256, fmt.block)
    few = bound(lambda o: ops.rows(o.make(fmt, k, 5), o.ids(5, 4)))
    yield Case("rows", f"{fmt} {dims(k, 5)} pick 4", few, most, True)
    for n2 in (1, 7):
        each = bound(lambda o, n2: ops.rows(o.make(fmt, 2 * k, 5, n2), o.ids(5, 3, n2)), n2=n2)
        yield Case("rows", f"{fmt} {dims(2 * k, 5, n2)} pick 3 of each", each, most)
    view = bound(lambda o: ops.rows(o.view(fmt, k, 33), o.ids(33, 9)))
    yield Case("rows", f"view {fmt} {dims(k, 33)} pick 9", view, most)
    if fmt in (F32, Q4_0):
        wide = bound(lambda o: ops.rows(o.make(fmt, 76800, 5), o.ids(5, 4)))
        yield Case("rows", f"{fmt} [76800,5] pick 4", wide, most)
        deep = bound(lambda o: ops.rows(o.make(fmt, 32, 5, 70, 10), o.ids(5, 4, 70, 10)))
        yield Case("rows", f"{fmt} [32,5,70,10] pick 4 of each", deep, most)


def _set_rows(fmt: Format) -> Iterator[Case]:
    most = STEP_MOST.get(fmt, most_of(fmt))
    for n in (256, 96) if fmt.quantized else (256, 31, 33):
        for ids_type in (I32, I64):
            for n2, n3 in ((3, 1), (1, 2), (4, 3)):
                scatter = bound(
                    lambda o, n, ids, n2, n3: ops.set_rows(
                        o.make(fmt, n, 11, n2, n3),
                        o.make(F32, n, 7, n2, n3),
                        o.ids(11, 7, n3, fmt=ids, distinct=True).reshape(7, 1, n3),
                    ),
                    n=n,
                    ids=ids_type,
                    n2=n2,
                    n3=n3,
                )
                label = f"{fmt} {dims(n, 11, n2, n3)} by {ids_type}"
                yield Case("set_rows", label, scatter, most, ids_type == I32 and n2 == 3)
    skipped = bound(
        lambda o: ops.set_rows(
            o.view(fmt, 96, 11), o.view(F32, 96, 4), o.put(I32, np.array([7, -1, 0, -1]))
        )
    )
    yield Case("set_rows", f"view {fmt} [96,11] with ids of -1", skipped, most)


def _casts(source: Format, target: Format) -> Iterator[Case]:
    most = STEP_MOST.get(target, most_of(target))
    k = 256 if source.quantized or target.quantized else 65
    quick = F32 in (source, target)
    label = f"{source} to {target} {dims(k, 2, 3, 4)}"
    packed = bound(lambda o: ops.cast(o.make(source, k, 2, 3, 4), target))
    view = bound(lambda o: ops.cast(o.view(source, k, 2, 3, 4), target))
    yield Case("cast", label, packed, most, quick)
    yield Case("cast", f"view {label}", view, most)
    orders = ((0, 2, 1, 3), (0, 3, 1, 2)) if k == 256 else ((0, 2, 1, 3), (1, 0, 2, 3))
    for order in orders:
        permuted = bound(lambda o, p: ops.cast(o.permuted(source, p, k, 2, 3, 4), target), p=order)
        yield Case("cast", f"{label} permuted {dims(*order)}", permuted, most)


def _copies_into() -> Iterator[Case]:
    for source in FLOATS:
        for target in FLOATS:
            into = bound(
                lambda o, s, t: ops.copy_into(o.view(s, 12, 5, 4), o.view(t, 10, 8, 3)),
                s=source,
                t=target,
            )
            label = f"view {source} [12,5,4] to view {target} [10,8,3]"
            yield Case("copy_into", label, into, most_of(target), source == F32)
    for fmt in (Q4_0, Q8_0, Q6_K):
        whole = bound(lambda o, t: ops.copy_into(o.make(t, 256, 6), o.view(t, 256, 3, 2)), t=fmt)
        yield Case("copy_into", f"{fmt} [256,6] to view [256,3,2]", whole, EXACT)
        read = bound(lambda o, t: ops.copy_into(o.make(t, 256, 6), o.view(F32, 256, 6)), t=fmt)
        yield Case("copy_into", f"{fmt} [256,6] to view F32", read)
