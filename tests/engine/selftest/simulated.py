"""`oclgrind ... python -m tests.engine.selftest.simulated`: a reduced table on Oclgrind's device,
with the kernels of CPUs and of GPUs. The simulator reports bad accesses and races; this, results.
"""

import os
from dataclasses import replace

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import Device, open_device
from engine.graph.op import Op
from engine.graph.work import work_of
from engine.selftest.case import Case
from engine.selftest.check import check
from engine.selftest.operands import Operands
from engine.selftest.table import chosen

MOST = 60_000  # float operations of a case; the simulator takes seconds for more


def reduced() -> list[Case]:
    """The smallest case of every operation and type, with one row and with several."""
    found: dict[str, tuple[int, Case]] = {}
    for case in chosen(quick=True):
        operands = Operands()
        node = case.build(operands)
        work = work_of(node, operands.values)
        size = max(work.flops, node.nelements * (40 if node.op is Op.ARGSORT else 1))
        kind = f"{case.op} {case.label.split('[')[0]}{node.shape[1] > 1}"
        if size < found.get(kind, (MOST, case))[0]:
            found[kind] = (size, case)
    return [case for _, case in found.values()]


def main() -> None:
    """Print what failed, and how many passed, for each kind of device."""
    one = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {one})  # Oclgrind crashes where two threads build programs
    device = open_device("oclgrind:0")
    for is_cpu in (True, False):
        traits = replace(device.info.traits, is_cpu=is_cpu)
        backend = OpenCLBackend(Device(replace(device.info, traits=traits), device.handle))
        results = [check(case, backend, HostBackend()) for case in reduced()]
        for one in results:
            if one.status == "failed":
                print(f"failed: {one.op} {one.label}: {one.problem}", flush=True)
        print(f"passed: {sum(one.status == 'passed' for one in results)}", flush=True)
        backend.close()


if __name__ == "__main__":
    main()
