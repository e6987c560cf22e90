"""Cases: instructions that change rows of a result."""

from collections.abc import Iterator

import numpy as np

from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.selftest.case import EXACT, F32_MOST, Case, bound, dims
from engine.selftest.operands import Operands

N_INSTRUCTIONS, N_VECTORS = 16, 8


def editing() -> Iterator[Case]:
    """edit of few and of many rows, with and without what entered and experts."""
    for width, rows in ((1, 3), (33, 1), (129, 9), (2050, 5), (64, 300)):
        for entered, experts in ((False, False), (True, False), (False, True)):
            label = f"F32 {dims(width, rows)}{' entered' * entered}{' experts' * experts}"
            sizes = {"width": width, "rows": rows, "entered": entered, "experts": experts}
            yield Case("edit", label, bound(_edited, **sizes), F32_MOST, (width, rows) == (129, 9))
    for entered in (False, True):
        build = bound(_edited, width=70, rows=9, entered=entered, experts=False, most=0)
        yield Case("edit", f"F32 [70,9]{' entered' * entered} nothing", build, EXACT, True)
    yield Case("edit", "F32 [40,6] NaN and infinities set", _set_special, EXACT, True)


def _edited(
    o: Operands, width: int, rows: int, entered: bool, experts: bool, most: int = 4
) -> Tensor:
    """Any instructions; a row has up to `most`."""
    m, rng = N_INSTRUCTIONS, o.rng
    low = rng.integers(0, width, m)
    high = low + 1 + rng.integers(0, width, m) % (width - low)
    vectors = rng.integers(-1, N_VECTORS, (3, m))
    code = np.stack(
        [low, high, *vectors, rng.integers(0, 2, m), rng.integers(-1, 4, m), 0 * low], 1
    )
    number = rng.standard_normal((m, 8)) * 0.5
    number[::3, 0], number[::4, 1] = 0, 0
    count = rng.integers(0, most + 1, rows)
    return ops.edit(
        o.make(F32, width, rows),
        o.put(I32, rng.integers(0, m - most, rows)),
        o.put(I32, count),
        o.put(I32, code),
        o.put(F32, number),
        o.put(F32, rng.standard_normal((N_VECTORS, width)) / np.sqrt(width)),
        o.make(F32, width, rows) if entered else None,
        o.ids(4, rows) if experts else None,
    )


def _set_special(o: Operands) -> Tensor:
    """Set values over NaN and infinities."""
    rows = o.rng.standard_normal((6, 40))
    rows[:, 10:20] = np.array([np.nan, np.inf, -np.inf, 0, 1, 2])[:, None]
    code, number = np.zeros((2, 1, 8))
    code[0, :7] = 10, 20, -1, -1, -1, 0, -1
    number[0, 1] = -3.5
    each = o.put(I32, np.zeros(6)), o.put(I32, np.ones(6))
    return ops.edit(o.put(F32, rows), *each, o.put(I32, code), o.put(F32, number))
