"""The table that users run, on every driver found, each in a process of its own."""

from collections import Counter

import pytest

from app.checks.processes import cases
from engine.backends.host.backend import HostBackend
from engine.backends.opencl.drivers.device import list_devices
from engine.backends.opencl.launches import KERNEL_FAMILIES
from engine.errors import BadSetting
from engine.graph.op import LOWERED_OPS, VIEW_OPS, Op
from engine.protocol import CaseResult, SelfTest
from engine.selftest.case import Case
from engine.selftest.operands import Operands
from engine.selftest.table import chosen


def drivers() -> list[str]:
    """The first device of every driver."""
    found = {(d.platform, d.driver_version): d.name for d in reversed(list_devices())}
    return sorted(found.values())


def results(device: str, quick: bool) -> list[CaseResult]:
    told = [result for _, _, result in cases(SelfTest(device, quick=quick))]
    return [result for result in told if result.status != "started"]


def part(one: CaseResult) -> float:
    """How much of what is allowed it is off by."""
    return one.error / (one.most or 1.0)


def check(found: list[CaseResult], n_cases: int) -> None:
    assert len(found) == n_cases
    failed = [f"{r.op} {r.label}: {r.problem}" for r in found if r.status == "failed"]
    assert not failed, failed
    unsupported = [r for r in found if r.status == "unsupported"]
    assert len(unsupported) < n_cases / 20, [f"{r.op} {r.label}" for r in unsupported]
    passed = Counter(r.op for r in found if r.status == "passed")
    assert not {r.op for r in found} - set(passed), "an operation without any case that passes"


@pytest.mark.full
@pytest.mark.device
@pytest.mark.parametrize("device", drivers())
def test_short_table(device: str) -> None:
    check(results(device, quick=True), len(chosen(quick=True)))


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("device", drivers())
def test_whole_table(device: str) -> None:
    found = results(device, quick=False)
    check(found, len(chosen()))
    worst: dict[str, CaseResult] = {}
    for one in found:
        if part(one) >= part(worst.get(one.op, one)):
            worst[one.op] = one
    print(f"\n{device}: {len(found)} cases")
    for op, one in worst.items():
        print(f"  {op:<14} worst {one.error:.1e} of {one.most:g}: {one.label}")


def test_every_operation_of_a_device_has_a_quick_case() -> None:
    tried: set[Op] = set()
    for case in chosen(quick=True):
        stack = [case.build(Operands())]
        while stack:
            node = stack.pop()
            tried.add(node.op)
            stack.extend(s for s in node.src if s is not None)
    assert set(KERNEL_FAMILIES) - LOWERED_OPS - VIEW_OPS <= tried


def test_names_are_distinct() -> None:
    names = Counter(case.name for case in chosen())
    assert not [name for name, n in names.items() if n > 1]


@pytest.mark.parametrize("pattern", ["(", "no such operation"])
def test_patterns_that_choose_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(BadSetting):
        chosen(pattern)


def test_the_host_takes_every_case() -> None:
    """It is what the others are compared with."""
    host = HostBackend()

    def refused(case: Case) -> bool:
        node = case.build(Operands())
        return not host.supports(node, lambda tensor: None)

    assert not [case.name for case in chosen(quick=True) if refused(case)]
