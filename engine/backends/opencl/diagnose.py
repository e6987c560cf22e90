"""Every installed driver tried for real: loaded, one kernel built and run on each of its devices.

`python -m engine.backends.opencl.diagnose` prints a `DriverCheck` as JSON a line; with a library's
path it checks that one only. Each driver gets a process of its own, so that one which crashes or
hangs is reported like any other.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from engine.backends.opencl.drivers.find import ONLY, PACKAGES, Driver, find_drivers
from engine.errors import CutawayError
from engine.protocol import DeviceCheck, DriverCheck

if TYPE_CHECKING:
    from engine.backends.opencl.drivers.device import Device

TIMEOUT = 60.0  # seconds for one driver, building included


def diagnose() -> Iterator[DriverCheck]:
    """One result a driver, as each is done."""
    for driver in find_drivers():
        yield check_apart(driver)


def check_apart(driver: Driver, timeout: float = TIMEOUT) -> DriverCheck:
    """`check` in another process, whose end by force, crash or silence becomes the problem."""
    command = [sys.executable, "-m", "engine.backends.opencl.diagnose", driver.library]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            env=os.environ | {ONLY: driver.library},
        )
    except subprocess.TimeoutExpired:
        return _failed(driver, f"no answer within {timeout:g} s")
    if done.returncode == 0:
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=DriverCheck)
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    end = (
        signal.Signals(-done.returncode).name
        if done.returncode < 0
        else f"exit code {done.returncode}"
    )
    return _failed(driver, f"its process ended by {end}: {words[-1] if words else 'no last words'}")


def check(driver: Driver) -> DriverCheck:
    """Load only this driver and try its devices. For a process that may crash."""
    from engine.backends.opencl.drivers.device import find_devices
    from engine.backends.opencl.drivers.loader import platforms
    from engine.backends.opencl.drivers.trials import summary

    if not platforms():
        return _failed(driver, why_not_loaded(driver.library))
    devices, advice = [], ""
    for device in find_devices():
        start = time.perf_counter()
        problem = device.info.problem
        if not problem:
            try:
                run_kernel(device)
            except CutawayError as error:
                problem, advice = str(error), advice_for(driver)
        seconds, tried = time.perf_counter() - start, summary(device.info.tried)
        devices.append(DeviceCheck(device.info.title, seconds, problem, tried))
    if not devices:
        return _failed(driver, "it shows no CPU or GPU: its hardware is not here")
    return DriverCheck(driver.library, driver.origin, devices, advice=advice)


def run_kernel(device: "Device") -> None:
    """x + x on the device, as the engine would run it. Raises `DeviceError` for a wrong result."""
    from engine.backends.opencl.backend import OpenCLBackend
    from engine.device.backend import Component, Location, Owner
    from engine.errors import DeviceError
    from engine.gguf.formats import F32
    from engine.graph.ops import add
    from engine.graph.tensor import Role, leaf

    backend = OpenCLBackend(device)
    x = leaf("x", F32, (1000,), Role.INPUT)
    values = np.arange(1000, dtype=np.float32)
    node = add(x, x)
    kind = backend.buffer_type(F32, x.shape)
    places = {
        t: Location(backend.allocate(kind, t.nbytes, Owner(Component.GRAPH)), 0) for t in (x, node)
    }
    places[x].buffer.write(0, values.view(np.uint8))
    backend.compile([node], places.__getitem__).run()
    result = places[node].buffer.read(0, node.nbytes).view(np.float32)
    if not np.array_equal(result, values * 2):
        raise DeviceError(device.info.name, "a kernel gave wrong results")
    for place in places.values():
        place.buffer.free()
    backend.close()


def why_not_loaded(library: str) -> str:
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return f"it does not load: {error}"
    return "it loads but offers no platform"


def _failed(driver: Driver, problem: str) -> DriverCheck:
    return DriverCheck(driver.library, driver.origin, problem=problem, advice=advice_for(driver))


def advice_for(driver: Driver) -> str:
    if driver.origin in (*PACKAGES, "pocl-binary-distribution"):
        return f"pip install --force-reinstall {driver.origin}"
    return f"repair or remove the driver that {driver.origin} names"


def main(libraries: list[str]) -> None:
    """Print the results, each as soon as it is there."""
    if libraries:
        results = iter([check(d) for d in find_drivers() if d.library == libraries[0]])
    else:
        results = diagnose()
    for result in results:
        print(msgspec.json.encode(result).decode(), flush=True)  # noqa: T201  the child's answer


if __name__ == "__main__":
    main(sys.argv[1:])
