"""One case on one device against the host."""

from time import perf_counter

import numpy as np

from engine.device.backend import Backend
from engine.errors import CutawayError
from engine.graph.arrays import decode, raw_array
from engine.graph.tensor import Tensor
from engine.protocol import CaseResult
from engine.selftest.case import Case
from engine.selftest.guarded import Array, prepared, refused, run_all
from engine.selftest.operands import Operands

MEASURE_SECONDS = 0.3
WRONG = 1e300
"""The error of results that cannot be compared: JSON has no infinity."""


def check(case: Case, backend: Backend, host: Backend) -> CaseResult:
    """Run it on both, fused on the device; never raises for what the device does wrong."""
    operands = Operands()
    node = case.build(operands)
    if refused(backend, [node], matmul_only=case.tiled) is not None:
        return CaseResult(case.op, case.label, "unsupported", most=case.most)
    try:
        (got,) = run_all(backend, [node], operands.values, matmul_only=case.tiled, fused=True)
    except CutawayError as failure:
        return CaseResult(case.op, case.label, "failed", most=case.most, problem=str(failure))
    (wanted,) = run_all(host, [node], operands.values)
    problem, error = compare(numbers(got, node), numbers(wanted, node), case.most)
    status = "failed" if problem else "passed"
    return CaseResult(case.op, case.label, status, error, case.most, problem)


def measure(case: Case, backend: Backend) -> float:
    """Seconds a run of a case takes, the best of many; `NoMem` and others as they come."""
    operands = Operands()
    node = case.build(operands)
    best, end = float("inf"), perf_counter() + MEASURE_SECONDS
    made = prepared(backend, [node], operands.values, matmul_only=case.tiled, fused=True)
    with made as ready:
        ready.commands.run()
        backend.synchronize()
        while perf_counter() < end or best == float("inf"):
            start = perf_counter()
            ready.commands.run()
            backend.synchronize()
            best = min(best, perf_counter() - start)
    return best


def numbers(stored: Array, node: Tensor) -> Array:
    """A result as numbers: blocks decoded."""
    if node.fmt.quantized:
        stored = raw_array(stored, node)
    return decode(stored, node.fmt)


def compare(got: Array, wanted: Array, most: float) -> tuple[str, float]:
    """A description of the mismatch ("" if none), and the NMSE: sum((x - ref)^2) / sum(ref^2)."""
    if got.shape != wanted.shape:
        return f"the shape is {got.shape}, not {wanted.shape}", WRONG
    if wanted.dtype.kind == "i":
        different = int(np.count_nonzero(got != wanted))
        return (f"{different} of {wanted.size} differ" if different else ""), float(different)
    x, ref = got.astype(np.float64), wanted.astype(np.float64)
    whole = np.isfinite(ref)
    if not np.array_equal(np.isfinite(x), whole):
        return f"{np.count_nonzero(np.isfinite(x) != whole)} are not finite", WRONG
    if not np.array_equal(x[~whole], ref[~whole], equal_nan=True):
        return "infinities or NaNs are others", WRONG
    off = float(np.square(x[whole] - ref[whole]).sum())
    error = off / max(float(np.square(ref[whole]).sum()), 1e-300) if off else 0.0
    return (f"NMSE {error:.1e}, at most {most:g}" if error > most else ""), error
