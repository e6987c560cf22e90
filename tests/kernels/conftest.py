"""`backend`: every OpenCL driver here in turn, by its first device; `either`: as CPU and GPU."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import INSTALL, Device, list_devices, open_device
from engine.memory.pools import system_pool


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a driver, marked `device`; skipped with the reason where there is none."""
    if "backend" not in metafunc.fixturenames:
        return
    platforms: dict[tuple[str, str], str] = {}
    for info in list_devices():
        platforms.setdefault((info.platform, info.driver_version), info.name)
    skip = pytest.mark.skip(reason=f"no OpenCL driver; {INSTALL}")
    params = [
        pytest.param(name, marks=[pytest.mark.device, *([pytest.mark.other_driver] if n else [])])
        for n, name in enumerate(platforms.values())
    ]
    params = params or [pytest.param("none", marks=[pytest.mark.device, skip])]
    metafunc.parametrize("backend", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """An open device; one for all tests of the session."""
    opened = OpenCLBackend(open_device(request.param))
    yield opened
    opened.close()


@pytest.fixture(scope="session", params=["own", "other"])
def either(backend: OpenCLBackend, request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """`backend` with the variants of its own kind of device, then with the other kind's.

    Kernels for GPUs must also be right on CPUs; this is what checks them where there is no GPU.
    """
    if request.param == "own":
        yield backend
        return
    traits = replace(backend.info.traits, is_cpu=not backend.info.traits.is_cpu)
    device = Device(replace(backend.info, traits=traits), open_device(backend.name).handle)
    opened = OpenCLBackend(device, context=backend.context, programs=backend.programs)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def everything_is_freed() -> Iterator[None]:
    """What a test leaves allocated would be found in the pools by tests of other folders."""
    before = dict(system_pool().taken)
    yield
    assert system_pool().taken == before
