"""Cases: what moves, converts and puts together."""

from collections.abc import Iterator
from itertools import permutations

from engine.gguf.formats import (
    BF16,
    F16,
    F32,
    I32,
    I64,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Format,
)
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.selftest.blocks import QUANTIZED
from engine.selftest.case import EXACT, F32_MOST, Case, bound, dims, most_of
from engine.selftest.operands import Operands

FLOATS = (F32, F16, BF16)
WRITTEN = (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1)
# One step of a code in a few blocks, where a device rounds a tie to the other side.
STEP_MOST = {Q8_0: 1e-5, Q4_0: 2e-3, Q4_1: 2e-3, Q5_0: 5e-4, Q5_1: 5e-4}


def moves() -> Iterator[Case]:
    """Gathers, scatters, copies, and shapes."""
    yield from _rows()
    yield from _set_rows()
    yield from _copies()
    yield from _shapes()


def _rows() -> Iterator[Case]:
    for fmt in (*FLOATS, I32, *QUANTIZED):
        most = EXACT if fmt in FLOATS or fmt == I32 else F32_MOST
        k = max(256, fmt.block)
        yield Case(
            "rows",
            f"{fmt} {dims(k, 5)} pick 4",
            bound(lambda o, t, k: ops.rows(o.make(t, k, 5), o.ids(5, 4)), t=fmt, k=k),
            most,
            True,
        )
        yield Case(
            "rows",
            f"{fmt} {dims(2 * k, 5, 7)} pick 3 of each",
            bound(lambda o, t, k: ops.rows(o.make(t, 2 * k, 5, 7), o.ids(5, 3, 7)), t=fmt, k=k),
            most,
        )
        yield Case(
            "rows",
            f"view {fmt} {dims(k, 33)} pick 9",
            bound(lambda o, t, k: ops.rows(o.view(t, k, 33), o.ids(33, 9)), t=fmt, k=k),
            most,
        )
    yield Case(
        "rows",
        "F32 [256,80000] pick 7000",
        lambda o: ops.rows(o.make(F32, 256, 80000), o.ids(80000, 7000)),
        EXACT,
    )


def _set_rows() -> Iterator[Case]:
    for fmt in (*FLOATS, *WRITTEN):
        widths = (256,) if fmt.quantized else (256, 31, 33)
        most = STEP_MOST.get(fmt, most_of(fmt))
        for n in widths:
            for i, ids_type in enumerate((I32, I64)):
                scatter = bound(
                    lambda o, t, n, ids: ops.set_rows(
                        o.make(t, n, 11, 3),
                        o.make(F32, n, 7, 3),
                        o.ids(11, 7, 1, fmt=ids, distinct=True),
                    ),
                    t=fmt,
                    n=n,
                    ids=ids_type,
                )
                label = f"{fmt} {dims(n, 11, 3)} by {ids_type}"
                yield Case("set_rows", label, scatter, most, i == 0)


def _copies() -> Iterator[Case]:
    for source in (*FLOATS, *QUANTIZED):
        for target in (*FLOATS, *(WRITTEN if source == F32 else ())):
            if source == target or (source.quantized and target == BF16):
                continue
            most = STEP_MOST.get(target, most_of(target))
            k = 256 if source.quantized or target.quantized else 65
            yield Case(
                "cast",
                f"{source} to {target} {dims(k, 2, 3, 4)}",
                bound(
                    lambda o, s, t, k: ops.cast(o.make(s, k, 2, 3, 4), t), s=source, t=target, k=k
                ),
                most,
                source == F32 or target == F32,
            )
    for order in permutations(range(4)):
        for fmt in (F32, F16, I32):
            yield Case(
                "contiguous",
                f"{fmt} [10,5,4,3] permuted {dims(*order)}",
                bound(
                    lambda o, t, p: ops.contiguous(o.permuted(t, p, 10, 5, 4, 3)), t=fmt, p=order
                ),
                EXACT,
                order == (1, 0, 2, 3),
            )

    def into(o: Operands, source: Format, target: Format) -> Tensor:
        return ops.copy_into(o.view(source, 12, 5, 4), o.view(target, 10, 8, 3))

    for source in (F32, F16):
        for target in (F32, F16, BF16):
            label = f"view {source} [12,5,4] to view {target} [10,8,3]"
            yield Case(
                "copy_into",
                label,
                bound(lambda o, s, t: into(o, s, t), s=source, t=target),
                most_of(target),
                source == F32,
            )


def _shapes() -> Iterator[Case]:
    a, b = (7, 5, 3, 2), (7, 5, 3, 2)
    for fmt in (F32, F16, I32):
        for dim in range(4):
            quick = fmt == F32
            yield Case(
                "concat",
                f"{fmt} {dims(*a)} dim {dim}",
                bound(
                    lambda o, t, d: ops.concat(o.make(t, *a), o.permuted(t, (1, 0, 2, 3), *b), d),
                    t=fmt,
                    d=dim,
                ),
                EXACT,
                quick,
            )
            yield Case(
                "repeat",
                f"{fmt} {dims(*a)} dim {dim}",
                bound(lambda o, t, d: ops.repeat(o.view(t, *a), d, 3), t=fmt, d=dim),
                EXACT,
                quick,
            )
            yield Case(
                "slice",
                f"{fmt} {dims(*a)} dim {dim}",
                bound(
                    lambda o, t, d: ops.contiguous(ops.slice_(o.make(t, *a), d, 0, a[d], 2)),
                    t=fmt,
                    d=dim,
                ),
                EXACT,
                quick,
            )
    for fmt in (F32, F16):
        for pads in ((1, 0, 0, 0), (3, 2, 1, 0), (-2, 3, 0, 0)):
            yield Case(
                "pad",
                f"{fmt} {dims(*a)} by {dims(*pads)}",
                bound(lambda o, t, p: ops.pad(o.view(t, *a), *p), t=fmt, p=pads),
                EXACT,
                pads == (3, 2, 1, 0),
            )
        yield Case(
            "set",
            f"{fmt} [4,3] into [10,7]",
            bound(
                lambda o, t: ops.set_(
                    o.make(t, 10, 7), o.make(t, 4, 3), 12 * t.bytes, (10 * t.bytes,)
                ),
                t=fmt,
            ),
            EXACT,
            True,
        )
    for start, stop, step in ((0, 10, 1), (0.5, 300, 0.25), (5, -5, -0.5)):
        yield Case(
            "arange",
            f"{start} to {stop} by {step}",
            bound(lambda o, x, y, z: ops.arange(x, y, z), x=start, y=stop, z=step),
            F32_MOST,
            True,
        )
