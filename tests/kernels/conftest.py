"""`backend`: every OpenCL driver here in turn, by its first device."""

from collections.abc import Iterator

import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.device import INSTALL, list_devices, open_device


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a driver, marked `device`; skipped with the reason where there is none."""
    if "backend" not in metafunc.fixturenames:
        return
    platforms: dict[tuple[str, str], str] = {}
    for info in list_devices():
        platforms.setdefault((info.platform, info.driver_version), info.name)
    skip = pytest.mark.skip(reason=f"no OpenCL driver; {INSTALL}")
    params = [pytest.param(name, marks=pytest.mark.device) for name in platforms.values()]
    params = params or [pytest.param("none", marks=[pytest.mark.device, skip])]
    metafunc.parametrize("backend", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """An open device; one for all tests of the session."""
    opened = OpenCLBackend(open_device(request.param))
    yield opened
    opened.close()
