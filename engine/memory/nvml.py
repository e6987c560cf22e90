"""Free memory of an NVIDIA card, from the driver's own library where it is there.

The functions are those of NVML's C interface; nothing but the library that the driver installs is
needed.
"""

import ctypes
import sys
from functools import cache
from typing import Any

SUCCESS = 0


class _Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def free_bytes(bus_id: str) -> int | None:
    """Free bytes of the card at a PCI address (`01:00.0`); None if the driver cannot tell."""
    library = _library()
    if library is None:
        return None
    handle, memory = ctypes.c_void_p(), _Memory()
    place = f"00000000:{bus_id}".encode()
    if library.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(handle)) != SUCCESS:
        return None
    if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != SUCCESS:
        return None
    return int(memory.free)


@cache
def _library() -> Any:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        library = ctypes.CDLL(name)
        return library if library.nvmlInit_v2() == SUCCESS else None
    except (OSError, AttributeError):  # no such driver, or one from before these functions
        return None
