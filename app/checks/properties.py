"""Properties that a driver reports, and measured speeds."""

from collections.abc import Callable

import msgspec

from app.terminal.child import child, never
from engine.errors import DeviceError
from engine.protocol import DeviceProperties, DeviceRoof

SILENCE = 120.0  # seconds; building two kernels and reading 320 MiB take less


def properties(
    device: str, stop: Callable[[], bool] = never
) -> tuple[DeviceProperties, DeviceRoof | None]:
    """Both, or what it says alone where nothing can be measured.

    Raises `Cancelled`, `DeviceError`.
    """
    module = "engine.backends.opencl.properties"
    with child(module, device, timeout=SILENCE, stop=stop) as process:
        lines = list(process.lines())
        problem = process.problem()
    if not lines:
        raise DeviceError(device, problem or "no message")
    roof = msgspec.json.decode(lines[1], type=DeviceRoof) if len(lines) > 1 else None
    return msgspec.json.decode(lines[0], type=DeviceProperties), roof
