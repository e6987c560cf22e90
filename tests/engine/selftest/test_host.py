"""The host is what devices are compared with; here it is compared with float64 and `gguf`."""

import warnings
from collections import Counter

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.graph.op import LOWERED_OPS, VIEW_OPS, Op
from engine.selftest.case import Case
from engine.selftest.check import compare, numbers
from engine.selftest.guarded import run_all
from engine.selftest.operands import Operands
from engine.selftest.table import chosen
from tests.engine.selftest.definitions import OPS, WRITES
from tests.engine.selftest.oracle import exact


def error_of(case: Case) -> tuple[str, float]:
    """What is wrong with the host's result, and the NMSE."""
    operands = Operands()
    node = case.build(operands)
    (got,) = run_all(HostBackend(), [node], operands.values)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        want = exact(node, operands.values)
    found = numbers(got, node)
    if found.dtype.kind == "i":
        return compare(found.astype(np.int64), want.astype(np.int64), case.most)
    return compare(found, want, case.most)


def check(cases: list[Case]) -> None:
    """All of them, and the worst of each operation in print."""
    worst: dict[str, tuple[float, str]] = {}
    failed = []
    for case in cases:
        problem, error = error_of(case)
        if problem:
            failed.append(f"{case.name}: {problem}")
        worst[case.op] = max(worst.get(case.op, (0.0, "")), (error, case.label))
    print(f"\nhost: {len(cases)} cases")
    for op, (error, label) in worst.items():
        print(f"  {op:<19} worst {error:.1e}: {label}")
    assert not failed, (Counter(name.split()[0] for name in failed), failed)


def test_every_operation_has_an_oracle() -> None:
    assert set(Op) - VIEW_OPS - LOWERED_OPS - {Op.NONE} == set(OPS) | set(WRITES)


def test_short_table() -> None:
    check(chosen(quick=True))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_whole_table() -> None:
    check(chosen())
