"""Files of prepared weights: which there are, and away with them. The program reads and writes them
by itself (engine/weights/prepared); a person sees how much they are, and may delete them.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engine.settings import cache_folder

BLOCK = 512
"""What a file's blocks are counted in."""


class KeptFile(NamedTuple):
    """Its bytes on the disk, and when it was used last, in nanoseconds."""

    path: Path
    size: int
    used: int


def prepared_folder() -> Path:
    """Where they lie."""
    return cache_folder() / "prepared"


def prepared_files() -> list[KeptFile]:
    """All of them, what was used longest ago first."""
    found = []
    with suppress(OSError):  # there is no folder yet
        for path in prepared_folder().iterdir():
            with suppress(OSError):  # it was there a moment ago
                told = path.lstat()
                found.append(KeptFile(path, told.st_blocks * BLOCK, told.st_mtime_ns))
    return sorted(found, key=lambda one: one.used)


def delete_prepared() -> None:
    """Remove them all; models that use one keep it until they are closed. Raises `OSError`."""
    for one in prepared_files():
        one.path.unlink(missing_ok=True)


def read_kept(path: Path) -> bytes:
    """The content of a file of ours. Raises `OSError`, also where it is not a regular file: reading
    a pipe would wait for its writer.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "not a regular file", str(path))
        return file.read()
