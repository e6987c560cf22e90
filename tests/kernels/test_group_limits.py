"""Groups as large as a kernel takes, which may be fewer than its device says; compilers without
halves as numbers and without sub-groups; numbers in memory where a driver refuses structs by value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.opencl import commands, program
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.commands import OpenCLCommands
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.launch import Launch
from engine.backends.opencl.program import ProgramKey, Programs
from engine.backends.opencl.source import OPTIONS, source
from engine.device.backend import Where
from engine.graph.tensor import Tensor
from engine.selftest.check import check
from engine.selftest.table import chosen

SMALL = 64
CASES = "rms_norm matmul attention softmax rope rows add silu argsort route"


class SmallGroups(Programs):
    """Kernels that take so many registers that groups are small; larger ones are not started."""

    def group_limit(self, key: ProgramKey, kernel: str) -> int:
        return SMALL


LAPTOP: dict[str, Any] = {
    "max_work_group": SMALL,
    "local_memory": 32 << 10,
    "dot4": "",
    "matrix": "",
}
"""A GPU beside a processor that has nothing but what OpenCL asks for, and says so."""

SUB_GROUPS = "barrier ballot broadcast shuffle shuffle_xor reduce_add reduce_max block_read"
NOTHING_OPTIONAL = "\n".join(
    [
        "#pragma OPENCL EXTENSION all : disable",
        "#pragma GCC poison get_sub_group_local_id get_sub_group_id get_sub_group_size",
        *(
            f"#pragma GCC poison sub_group_{name} intel_sub_group_{name}"
            for name in SUB_GROUPS.split()
        ),
        "",
    ]
)
"""What makes a compiler refuse halves as numbers (cl_khr_fp16) and functions of sub-groups."""


@pytest.fixture(params=["kernels", "device", "compiler"])
def small(
    backend: OpenCLBackend, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenCLBackend]:
    """`backend` as a GPU that says 1024 and refuses more than 64; as one that says 64; and as that
    with a compiler that knows no halves and no sub-groups.
    """
    handle = open_device(backend.name).handle
    traits = replace(backend.info.traits, is_cpu=False, max_work_group=1024)
    programs: Programs = SmallGroups(backend.context, backend.name, handle)
    if request.param != "kernels":
        traits, programs = replace(traits, **LAPTOP), backend.programs
    if request.param == "compiler":
        monkeypatch.setattr(program, "source", lambda family: NOTHING_OPTIONAL + source(family))
        programs = Programs(backend.context, backend.name, handle)
    device = Device(replace(backend.info, traits=traits), handle)
    opened = OpenCLBackend(device, context=backend.context, programs=programs)
    prepare = OpenCLBackend.prepare

    def refusing(
        self: OpenCLBackend, launches: Sequence[tuple[Tensor, Launch]], where: Where
    ) -> OpenCLCommands:
        for _, launch in launches:
            assert prod(launch.local_size or (1,)) <= SMALL, launch.name
        return prepare(self, launches, where)

    monkeypatch.setattr(OpenCLBackend, "prepare", refusing)
    yield opened
    opened.close()


# "compiler" is "device" but for what its compiler lacks, and starts the same kernels.
@pytest.mark.full_cases("device")
@pytest.mark.parametrize("op", CASES.split())
def test_operations_run_on_small_devices(small: OpenCLBackend, op: str) -> None:
    cases = chosen(f"^{op}", quick=True)[:6]
    statuses = {check(case, small, HostBackend()).status for case in cases}
    assert "passed" in statuses
    assert "failed" not in statuses


@pytest.mark.parametrize(
    "plain",
    ["half v = (half)x[0]; x[0] = (float)(v * v);", "x[0] = sub_group_reduce_add(x[0]);"],
    ids=["halves", "sub-groups"],
)
def test_such_a_compiler_refuses_what_is_optional(backend: OpenCLBackend, plain: str) -> None:
    """What the simulation above is worth."""
    text = f"{NOTHING_OPTIONAL}__kernel void k(__global float *x) {{ {plain} }}"
    with pytest.raises(cl.Error, match="not allowed|poisoned"):
        cl.Program(backend.context, text).build(list(OPTIONS))


@pytest.mark.parametrize("op", ["norm_chain", "rope_store", "matmul_tiled"])
def test_operations_run_without_structs_by_value(
    backend: OpenCLBackend, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a driver as rusticl is, in the manner of processors."""
    set_bytes = commands.set_bytes

    def refusing(kernel: Any, i: int, value: bytes) -> None:
        set_bytes(kernel, i, value + bytes(8) if len(value) > 8 else value)

    monkeypatch.setattr(commands, "set_bytes", refusing)
    device = open_device(backend.name)
    programs = Programs(backend.context, backend.name, device.handle)
    opened = OpenCLBackend(device, context=backend.context, programs=programs)
    statuses = [
        check(case, opened, HostBackend()).status for case in chosen(f"^{op}", quick=True)[:2]
    ]
    assert set(statuses) == {"passed"}
    assert programs.numbers_in_memory
    opened.close()
