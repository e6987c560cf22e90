"""The memory that devices share: RAM for every CPU driver and the host, a GPU's own."""

from functools import cache
from pathlib import Path

import psutil

from engine.backends.base import MemoryPool

SYSTEM = "system"
CGROUPS = Path("/sys/fs/cgroup")
# What the rest of the program and of the machine may still want after we took all of our limit.
LEAST_RESERVE = 256 << 20
RESERVED_SHARE = 1 / 16


@cache
def system_pool() -> MemoryPool:
    """This process's one pool of RAM: what was available at the first call, less a reserve."""
    left = min(psutil.virtual_memory().available, cgroup_room())
    reserve = max(LEAST_RESERVE, int(left * RESERVED_SHARE))
    return MemoryPool(SYSTEM, max(left - reserve, 0))


@cache
def device_pool(key: str, size: int) -> MemoryPool:
    """The pool of a device with memory of its own; devices of one `key` share it."""
    return MemoryPool(key, size)


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
