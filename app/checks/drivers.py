"""Every driver, tried."""

from collections.abc import Callable, Iterator

import msgspec

from app.terminal.child import child, never
from engine.errors import DeviceError
from engine.protocol import DriverCheck

SILENCE = 300.0  # seconds; each driver has less


def check_drivers(stop: Callable[[], bool] = never) -> Iterator[DriverCheck]:
    """Each driver's result as soon as it is there; a process of the engine finds them."""
    with child("engine.backends.opencl.diagnose", timeout=SILENCE, stop=stop) as process:
        for line in process.lines():
            yield msgspec.json.decode(line, type=DriverCheck)
        if problem := process.problem():
            raise DeviceError("(any)", f"searching drivers: {problem}")
