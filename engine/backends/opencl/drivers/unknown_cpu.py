"""PoCL on a CPU newer than its compiler.

The PoCL of the package index holds LLVM 14. A CPU made later it calls "generic" (Zen 5), a name
that its own front end refuses, so that no program builds, or by its predecessor's name (Zen 4:
"znver3"), which lacks AVX-512. Its built-in functions it still takes from a library for AVX-512:
compiled for a CPU without, they crash the compiler or keep it busy forever. Nothing outside can
change the name: no variable, no build option. It lies in the driver's record of the device, which
is what an OpenCL handle points to, so there it is replaced by an older CPU with the same
instructions; or, where vectors are to be narrower (vectors.py), by one that has no wider ones.
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.drivers.vectors import limit

TARGET = "x86_64-unknown-linux-gnu-"
RECORD_BYTES = 1024
# Names that LLVM 14 knows and what /proc/cpuinfo must list for them, best first.
KNOWN = (
    (b"cascadelake", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}),
    (b"skylake-avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    (b"haswell", {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}),
    (b"ivybridge", {"avx", "f16c", "popcnt", "pclmulqdq", "rdrand", "fsgsbase"}),
    (b"sandybridge", {"avx", "popcnt", "pclmulqdq"}),
    (b"nehalem", {"sse4_2", "popcnt"}),
    (b"x86-64", set[str]()),
)

VECTOR_INTS = {b"cascadelake": 16, b"skylake-avx512": 16, b"nehalem": 4, b"x86-64": 4}
"""32-bit integers that their vectors hold, where not 8."""

# The driver keeps pointing to these for as long as the process lives.
_names = {name: ctypes.create_string_buffer(name) for name, _ in KNOWN}


def name_unknown_cpu(device: cl.Device) -> None:
    """Give the device a CPU its compiler knows; does nothing where it has the right one."""
    if not can_be_renamed(device):
        return
    target, narrow = device.version.rpartition(TARGET)[2], limit()
    best = known_cpu(_cpuinfo(), narrow.ints if narrow else 16)
    if narrow or target == "generic" or (target == "znver3" and _ints(best) == 16):
        rename(device, best)


def can_be_renamed(device: cl.Device) -> bool:
    """True if it is of the package index's PoCL."""
    return sys.platform == "linux" and TARGET in device.version


def rename(device: cl.Device, name: bytes) -> None:
    """Have a PoCL device compile for one of `KNOWN`."""
    target = device.version.rpartition(TARGET)[2].encode() + b"\0"
    for address in pointers_to(target, device.int_ptr, RECORD_BYTES):
        ctypes.c_void_p.from_address(address).value = ctypes.addressof(_names[name])


def known_cpu(cpuinfo: str, ints: int = 16) -> bytes:
    """The best known CPU whose instructions are all listed, with vectors of at most `ints`."""
    listed = _flags_in(cpuinfo)
    return next(name for name, needed in KNOWN if needed <= listed and _ints(name) <= ints)


def flags() -> set[str]:
    """The processor's features by Linux's names; empty where they are unknown."""
    return _flags_in(_cpuinfo())


def _cpuinfo() -> str:
    if sys.platform != "linux":
        return ""
    return Path("/proc/cpuinfo").read_text("ascii", "replace")


def _flags_in(cpuinfo: str) -> set[str]:
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    return set(line.split())


def _ints(name: bytes) -> int:
    return VECTOR_INTS.get(name, 8)


def pointers_to(text: bytes, start: int, size: int) -> list[int]:
    """Addresses in [start, start + size) of pointers to `text`. Never touches unmapped memory."""
    if sys.platform != "linux":
        return []
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        record = os.pread(memory, size, start)
        found = []
        for offset in range(0, len(record) - 7, 8):
            (pointer,) = struct.unpack_from("<Q", record, offset)
            if _read(memory, pointer, len(text)) == text:
                found.append(start + offset)
        return found
    finally:
        os.close(memory)


def _read(memory: int, address: int, size: int) -> bytes:
    if sys.platform != "linux" or address >> 47:
        return b""
    try:
        return os.pread(memory, size, address)
    except OSError:
        return b""
