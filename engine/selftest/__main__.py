"""`python -m engine.selftest '{"device": ...}'`: a line of JSON a case.

A process of its own, so that a driver which crashes takes nobody with it.
"""

import sys
from zlib import crc32

import msgspec

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import open_device
from engine.errors import CutawayError
from engine.graph.work import work_of
from engine.protocol import CaseResult, SelfTest, SelfTestPlan
from engine.selftest.case import Case
from engine.selftest.check import check, measure
from engine.selftest.operands import Operands
from engine.selftest.table import chosen, few_of


def main(text: str) -> None:
    """Say how many cases are wanted, then run them in order, each announced before it starts."""
    wanted = msgspec.json.decode(text, type=SelfTest)
    try:
        cases = chosen(wanted.pattern, wanted.quick) if wanted.checks else []
        cases += chosen(wanted.pattern, speed=True) if wanted.speed else []
        backend = OpenCLBackend(open_device(wanted.device))
    except CutawayError as error:
        _print(SelfTestPlan(0, str(error)))
        return
    host = HostBackend()
    cases = few_of(cases, wanted.each) if wanted.each else cases
    cases = [case for case in cases if share_of(case, wanted.shares) == wanted.share]
    _print(SelfTestPlan(len(cases)))
    for case in cases[wanted.first :]:
        _print(CaseResult(case.op, case.label, "started"))
        _print(_speed(case, backend) if case.speed else check(case, backend, host))
    backend.close()


def share_of(case: Case, shares: int) -> int:
    """Whose a case is: cases of one program stay together, since building it takes longest."""
    program = f"{case.op} {case.label.split('[')[0]}"
    return crc32(program.encode()) % shares


def _speed(case: Case, backend: OpenCLBackend) -> CaseResult:
    operands = Operands()
    node = case.build(operands)
    work = work_of(node, operands.values)
    try:
        seconds = measure(case, backend)
    except CutawayError as error:
        return CaseResult(case.op, case.label, "failed", problem=str(error))
    rates = (work.bytes / seconds / 1e9, work.flops / seconds / 1e9)
    return CaseResult(case.op, case.label, "measured", gb_per_s=rates[0], gflop_per_s=rates[1])


def _print(result: CaseResult | SelfTestPlan) -> None:
    print(msgspec.json.encode(result).decode(), flush=True)  # noqa: T201  the child's answer


if __name__ == "__main__":
    main(sys.argv[1])
