"""Instructions that change rows of a result."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backends.host.operand import Operand
from engine.graph.ops.edit import CODE, NUMBERS, RowEdits
from engine.graph.tensor import Tensor

Array = NDArray[Any]


def edit(
    node: Tensor,
    out: Operand,
    x: Operand,
    first: Operand,
    count: Operand,
    code: Operand,
    number: Operand,
    vectors: Operand | None,
    entered: Operand | None,
    experts: Operand | None,
) -> None:
    """Rows with the same instructions together."""
    op = RowEdits.of(node)
    shape = op.n_rows, op.width
    rows = x.load().reshape(shape).copy()
    starts, counts = first.load().reshape(-1), count.load().reshape(-1)
    codes, numbers = code.load((0, 0)), number.load((0, 0))
    table = None if vectors is None else vectors.load((0, 0))
    of_expert = None if experts is None else experts.load().reshape(-1)
    before = None if entered is None else entered.load().reshape(shape)
    for start, n in {
        pair for pair in zip(starts.tolist(), counts.tolist(), strict=True) if pair[1]
    }:
        same = np.flatnonzero((starts == start) & (counts == n))
        part = rows[same] if before is None else rows[same] - before[same]
        for k in range(start, start + n):
            fields = dict(zip(CODE, codes[k].tolist(), strict=False))
            hit = slice(None)
            if of_expert is not None and fields["expert"] >= 0:
                hit = of_expert[same] == fields["expert"]
            part[hit] = _applied(
                part[hit], fields, dict(zip(NUMBERS, numbers[k], strict=False)), table
            )
        rows[same] = part if before is None else part + before[same]
    out.store(rows.reshape(out.raw.shape))


def _applied(
    rows: Array, code: dict[str, int], number: dict[str, Any], table: Array | None
) -> Array:
    """One instruction on rows [n, R]."""
    span = slice(code["low"], code["high"])

    def vector(name: str) -> Array:
        assert table is not None, "an instruction with vectors has a table"
        return np.asarray(table[code[name], span])

    x = rows[:, span]
    z = np.full(len(rows), number["beta"], np.float32)
    if code["u"] >= 0:
        z = z + (x * vector("u")).sum(-1, dtype=np.float32)
    if code["jump"]:
        z = np.where((z > number["theta"]) & (z > 0), z, np.float32(0))
    y = np.zeros_like(x) if number["alpha"] == 0 else x * number["alpha"]
    if number["b"] != 0:
        y = y + number["b"] * (vector("v") if code["v"] >= 0 else np.float32(1))
    if code["w"] >= 0:
        y = y + (number["kappa"] * z + number["gamma"])[:, None] * vector("w")
    changed = rows.copy()
    changed[:, span] = y
    return changed
