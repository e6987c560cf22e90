"""`oclgrind ... python -m tests.engine.selftest.simulated cpu 1`: a reduced table on Oclgrind's
device, with the kernels of CPUs or of GPUs. The simulator reports bad accesses and races; this,
results.
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from engine.backends.host.backend import HostBackend
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.commands import OpenCLCommands
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.launch import Launch
from engine.device.backend import Where
from engine.graph.op import Op
from engine.graph.tensor import Tensor
from engine.graph.work import work_of
from engine.selftest.case import Case
from engine.selftest.check import check
from engine.selftest.operands import Operands
from engine.selftest.table import chosen
from tests.kernels import test_attention

MOST = 60_000  # float operations of a case; the simulator takes seconds for more
# A row is a group's work on a GPU: a thousand rows of five take seconds and show one thing, so only
# one such case stays; the other reductions have eight rows of 128.
MANY_ROWS = re.compile(r"^(sum_rows (F16|BF16)|(mean|variance|stddev) \S+) \[5,")
FEW_ROWS = r"^(sum_rows|mean|variance|stddev) \S+ \[128,"
CONVOLUTION = "conv_2d"  # im2col and a product, which are cases of their own


def table() -> list[Case]:
    """The quick table without what costs the simulator most."""
    quick = [case for case in chosen(quick=True) if case.op != CONVOLUTION]
    return [case for case in quick if not MANY_ROWS.match(case.name)] + chosen(FEW_ROWS)


def reduced() -> list[Case]:
    """The smallest case of every operation and type, with one row and with several."""
    found: dict[str, tuple[int, Case]] = {}
    for case in table():
        operands = Operands()
        node = case.build(operands)
        work = work_of(node, operands.values)
        size = max(work.flops, node.nelements * (40 if node.op is Op.ARGSORT else 1))
        rows = "many" if case.name == "sum_rows F32 [5,7,11,13]" else node.shape[1] > 1
        kind = f"{case.op} {case.label.split('[')[0]}{rows}"
        if size < found.get(kind, (MOST, case))[0]:
            found[kind] = (size, case)
    return [case for _, case in found.values()]


def wide() -> list[Case]:
    """Products of more rows than one group makes, whose last tile is not full."""
    return chosen(r"^matmul Q4_0 tiled \[64,33\]")


def shares() -> list[Case]:
    """Groups that leave parts to the one that is done last, by counters, or to a second launch."""
    products, stored = r"attention then product Q4_1 \[512,1\]", r"rope_store F16 \[64,6,1\] normed"
    return chosen(rf"^(best 64 of \[3000|{products}|{stored})")


def attend(backend: OpenCLBackend) -> int:
    """Compute attention over rows that lanes read four words at once, of few queries and of as many
    as one group makes (attention_wide.cl); return how many cases passed. Raises `AssertionError`.
    """
    few, many = (4, 2, 64, 64, 1, 256, 200), (2, 1, 64, 64, 32, 128, 100)
    for sizes, most in ((few, 1e-11), (many, 1e-6)):
        test_attention.check(backend, "causal", test_attention.Sizes(*sizes), apart=4, most=most)
    return 2


def main(kind: str, every: int) -> None:
    """Print what failed, and how many passed, as a CPU or as a GPU; one case of so many. `dots` are
    the products of a GPU that adds four products of bytes at once, `shares` those of `shares`,
    `attention` what `attend` does on a GPU that has halves for fragments.
    """
    cores = sorted(os.sched_getaffinity(0))
    # Oclgrind crashes where two threads build programs; the two kinds may run beside each other.
    os.sched_setaffinity(0, {cores[0] if kind == "cpu" else cores[-1]})
    device = open_device("oclgrind:0")
    dot4 = "PLAIN" if kind == "dots" else ""
    traits = replace(device.info.traits, is_cpu=kind == "cpu", slow_launches=True, dot4=dot4)
    traits = replace(traits, compute_units=2 if kind == "shares" else traits.compute_units)
    if kind == "attention":
        traits = replace(traits, halves="HALVES", own_local_memory=True, max_work_group=1024)
    backend = OpenCLBackend(Device(replace(device.info, traits=traits), device.handle))
    cases = [case for case in reduced() if not dot4 or case.op.startswith("matmul")][::every]
    if kind == "shares":
        cases = shares()
    defined: set[str] = set()
    prepare = backend.prepare

    def noting(launches: Sequence[tuple[Tensor, Launch]], where: Where) -> OpenCLCommands:
        for _, one in launches:
            defined.update(f"{name}={value}" for name, value in one.defines.items())
        return prepare(launches, where)

    backend.prepare = noting  # type: ignore[method-assign]
    if kind == "attention":
        made = attend(backend)
        print(
            *sorted(defined & {"ALIGNED=1", "PARTS=8", "ROWS=64"}), f"\npassed: {made}", flush=True
        )
        backend.close()
        return
    results = [check(case, backend, HostBackend()) for case in cases]
    if dot4:
        results += [check(case, backend, HostBackend()) for case in wide()]
        halves = replace(traits, matrix="HALVES")
        other = OpenCLBackend(Device(replace(device.info, traits=halves), device.handle))
        results += [check(case, other, HostBackend()) for case in wide()]
        other.close()
    for one in results:
        if one.status == "failed":
            print(f"failed: {one.op} {one.label}: {one.problem}", flush=True)
    if kind == "shares":
        print(*sorted(defined & {"MERGES=1", "MERGES=32", "STORES=1"}), flush=True)
    print(f"passed: {sum(one.status == 'passed' for one in results)}", flush=True)
    backend.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
