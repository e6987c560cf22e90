"""Kernels with a fault put in: the self test must find each of them."""

from collections.abc import Iterator

import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.opencl import program
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import list_devices, open_device
from engine.selftest.check import check
from engine.selftest.table import chosen

SOURCE = program.source
# What stands in the kernels, what is put there instead, the cases that have to notice.
FAULTS = {
    "wrong stride": ("i1 * a1", "i1 * a2", "^add views F32"),
    "missing tail": ("for (; i < end; i++)", "for (; i < end - 1; i++)", "^mul F32 .10,5,4,3"),
    "scale off by one": ("b[192 + part * 2]", "b[193 + part * 2]", "^rows Q6_K .256,5"),
}


@pytest.fixture(params=sorted({d.name for d in list_devices() if d.default}))
def device(request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    backend = OpenCLBackend(open_device(request.param))
    yield backend
    backend.close()


@pytest.mark.device
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_fails(
    fault: str, device: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong, pattern = FAULTS[fault]
    touched = []

    def broken(family: str) -> str:
        text = SOURCE(family)
        touched.append(right in text)
        return text.replace(right, wrong)

    cases = chosen(pattern)
    assert {check(case, device, HostBackend()).status for case in cases} == {"passed"}
    monkeypatch.setattr(program, "source", broken)
    fresh = OpenCLBackend(open_device(device.name))
    found = [check(case, fresh, HostBackend()) for case in cases]
    fresh.close()
    assert any(touched)
    assert {one.status for one in found} == {"failed"}, found
    assert all(one.problem for one in found)
