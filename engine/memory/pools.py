"""The memory that devices share: RAM for every CPU driver and the host, a GPU's own."""

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import psutil

from engine.device.backend import MemoryPool
from engine.protocol import MemoryEvent
from engine.settings import RESERVE

NVML_SUCCESS = 0


class _Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def free_bytes(bus_id: str) -> int | None:
    """Free bytes of the card at a PCI address (`01:00.0`); None if the driver does not know."""
    library = _library()
    if library is None:
        return None
    handle, memory = ctypes.c_void_p(), _Memory()
    place = f"00000000:{bus_id}".encode()
    if library.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(handle)) != NVML_SUCCESS:
        return None
    if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != NVML_SUCCESS:
        return None
    return int(memory.free)


@cache
def _library() -> Any:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        library = ctypes.CDLL(name)
        return library if library.nvmlInit_v2() == NVML_SUCCESS else None
    except (OSError, AttributeError):  # no such driver, or one from before these functions
        return None


SYSTEM = "system"
CGROUPS = Path("/sys/fs/cgroup")
# What the rest of the program and of the machine may still want after we took all of our limit.
LEAST_RESERVE = 256 << 20
RESERVED_SHARE = 1 / 16

FreeMemorySource = Callable[[], tuple[int, str] | None]
"""Bytes that are free now, and who says so; None where it does not know."""


@dataclass(frozen=True, slots=True)
class Free:
    """Bytes of a pool that are free now. `source` is who says so: the system, nvml, amd, or the
    engine, which only knows the size and what it holds itself.
    """

    size: int
    source: str


@dataclass
class MeasuredPool(MemoryPool):
    """A pool whose limit follows what is free: that and what we hold, less `reserve` bytes.

    `total` bytes are there in all; `sources` are tried in order.
    """

    total: int = 0
    reserve: int = 0
    sources: tuple[FreeMemorySource, ...] = ()

    def free(self) -> Free:
        """Bytes that are free now."""
        for free_of in self.sources:
            answer = free_of()
            if answer is not None:
                size, source = answer
                return Free(max(0, size - self.in_files), source)
        return Free(max(0, self.total - self.used), "engine")

    def measure(self) -> Free:
        """Set the limit anew, before a model is placed."""
        free = self.free()
        self.limit = max(0, free.size + self.used - self.reserve)
        return free


_placing = RLock()
_making = Lock()


@contextmanager
def limits_kept() -> Iterator[None]:
    """While a thread places a model and allocates it, no other moves the limits under it."""
    with _placing:
        yield


def measure_pools(pools: Iterable[MemoryPool]) -> None:
    """Set limits anew; left as they are while another thread has `limits_kept`."""
    if _placing.acquire(blocking=False):
        try:
            for pool in pools:
                if isinstance(pool, MeasuredPool):
                    pool.measure()
        finally:
            _placing.release()


_listeners: list[Callable[[MemoryEvent], None]] = []


def listen(listener: Callable[[MemoryEvent], None]) -> Callable[[], None]:
    """Call the listener with every change of this process's pools, until the result is called."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def _notify(change: MemoryEvent) -> None:
    for listener in _listeners:
        listener(change)


def system_pool() -> MeasuredPool:
    """This process's one pool of RAM, within what its control groups allow."""
    with _making:
        return _system_pool()


@cache
def _system_pool() -> MeasuredPool:
    total = psutil.virtual_memory().total
    reserve = max(LEAST_RESERVE, int(_free_ram() * RESERVED_SHARE))
    pool = MeasuredPool(SYSTEM, 0, {}, _notify, total, reserve, (lambda: (_free_ram(), "system"),))
    pool.measure()
    return pool


_device_pools: dict[str, MeasuredPool] = {}


def device_pool(key: str, size: int, *asks: FreeMemorySource) -> MeasuredPool:
    """The pool of a device with memory of its own; devices of one `key` share it.

    A key that is a PCI address (`pci:01:00.0`) lets NVIDIA's library say what is free.
    """
    with _making:
        if key not in _device_pools:
            reserve = min(RESERVE.get() << 20, size)
            every = (lambda: _read_nvml(key), *asks)
            _device_pools[key] = MeasuredPool(key, 0, {}, _notify, size, reserve, every)
            _device_pools[key].measure()
        return _device_pools[key]


def _read_nvml(key: str) -> tuple[int, str] | None:
    place = key.removeprefix("pci:")
    free = free_bytes(place) if place != key else None
    return None if free is None else (free, "nvml")


def _free_ram() -> int:
    return min(psutil.virtual_memory().available, cgroup_room())


def cgroup_room(root: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that every control group around this process still allows; huge where none limits.

    Page cache that can be dropped does not count as used. Reads the files of both versions.
    """
    room = 1 << 62
    for folder, limit_name, used_name in _groups(root, own):
        limit, used = _number(folder / limit_name), _number(folder / used_name)
        if limit is not None and used is not None:
            room = min(room, max(limit - used + _droppable(folder), 0))
    return room


def _groups(root: Path, own: Path) -> list[tuple[Path, str, str]]:
    try:
        lines = own.read_text("ascii", "replace").splitlines()
    except OSError:
        return []
    groups = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if controllers
            else ("memory.max", "memory.current")
        )
        folder = root / controllers / path.strip("/")
        # Inside a container the path may be the outside's; its own group is then the root.
        for parent in (folder, *folder.parents):
            if parent.is_relative_to(root):
                groups.append((parent, *names))
    return groups


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):  # absent, or the word "max"
        return None


def _droppable(folder: Path) -> int:
    try:
        lines = (folder / "memory.stat").read_text("ascii").splitlines()
    except OSError:
        return 0
    values = dict(line.split(maxsplit=1) for line in lines if " " in line)
    return int(values.get("total_inactive_file", values.get("inactive_file", 0)))
