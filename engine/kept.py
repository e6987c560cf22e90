"""Files that the program keeps: written as a whole, read with care; and the list of those that hold
prepared weights (engine/weights/prepared), which a person may delete.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.settings import cache_folder
from engine.system import MOVES_OPEN_FILES, lock, open_new, open_to_read, size_on_disk

LEFT_AFTER = 3600.0  # seconds without a write, after which nobody writes a file any more
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of msgspec where a file was damaged."""
DIGEST = 32
"""Bytes of a SHA-256."""
LONGEST_MAGIC = 64
PART = ".part"
"""The suffix of a file of `new_file` while it is written."""


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
    return files_in(prepared_folder())


def files_in(folder: Path) -> list[KeptFile]:
    """The files of a folder, the longest unused first."""
    found = []
    with suppress(OSError):  # there is no folder yet
        for path in folder.iterdir():
            with suppress(OSError):  # it was there a moment ago
                status = path.lstat()
                found.append(KeptFile(path, size_on_disk(status), status.st_mtime_ns))
    return sorted(found, key=lambda one: one.used)


def delete_prepared() -> None:
    """Remove them all; models that use one keep it until they are closed. Raises `OSError`."""
    for one in prepared_files():
        one.path.unlink(missing_ok=True)


def free_on_disk(folder: Path) -> int:
    """Free bytes of the disk on which a folder is, or will be."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(there).free


@contextmanager
def new_file(path: Path) -> Iterator[int]:
    """A file that gets its name only once everything inside has gone well, else it is removed.
    Raises `FileExistsError` while another process writes it, `OSError`.
    """
    part = path.with_suffix(PART)
    handle = open_new(part)
    try:
        try:
            lock(handle)
            yield handle
            os.fsync(handle)
            if MOVES_OPEN_FILES:  # still locked, so that nobody takes it for a file left behind
                part.replace(path)
        finally:
            os.close(handle)
        if not MOVES_OPEN_FILES:
            part.replace(path)
    except BaseException:
        remove(part)
        raise
    sync_folder(path.parent)


def remove_parts(folder: Path) -> None:
    """Remove what processes were writing that are no more: nobody holds the lock."""
    for part in folder.glob(f"*{PART}"):
        with suppress(OSError):
            handle = open_to_read(part, follow=False)
            try:
                lock(handle, wait=False)
                if MOVES_OPEN_FILES:
                    part.unlink()
            finally:
                os.close(handle)
            if not MOVES_OPEN_FILES:
                part.unlink()


def read_kept(path: Path) -> bytes:
    """The content of a file of ours. Raises `OSError`, also where it is not a regular file: reading
    a pipe would wait for its writer.
    """
    handle = open_to_read(path)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "not a regular file", str(path))
        return file.read()


def seal(magic: bytes, content: bytes) -> bytes:
    """A content behind one line of `magic` and its SHA-256, by which damage is found."""
    return magic + sha256(content).digest() + content


def unsealed(magic: bytes, whole: bytes) -> bytes | None:
    """The content of `seal`; None where it is damaged, or of another kind."""
    content = whole[len(magic) + DIGEST :]
    return content if whole[: len(magic) + DIGEST] == magic + sha256(content).digest() else None


def is_sealed(whole: bytes) -> bool:
    """True if these are the bytes of a `seal`, of whatever kind."""
    magic = whole[: whole[:LONGEST_MAGIC].find(b"\n") + 1]
    return bool(magic) and unsealed(magic, whole) is not None


def read_sealed(path: Path, magic: bytes) -> bytes:
    """The content of a file of `write_sealed`. Raises OSError, also for one that is damaged."""
    content = unsealed(magic, read_kept(path))
    if content is None:
        raise OSError(None, "it is damaged", str(path))
    return content


def write_sealed(path: Path, magic: bytes, content: bytes) -> None:
    """`write_atomically` with a checksum, without which one changed bit would be believed. Raises
    OSError.
    """
    write_atomically(path, seal(magic, content))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file at once, so that there is the old or the new content, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = new_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        remove(Path(name))
        raise
    sync_folder(path.parent)


def new_beside(path: Path) -> tuple[int, str]:
    """A new file that is to replace `path`, open, and its name; what a process left there that was
    killed is removed. Raises OSError.
    """
    for left in path.parent.glob(f".{escape(path.name)}.????????"):
        with suppress(OSError):
            if left.lstat().st_mtime < time.time() - LEFT_AFTER:
                left.unlink()
    return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")


def remove(path: Path) -> None:
    """Remove what is not needed any more, if it is there and that is possible."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names of its files on the disk, as `fsync` does with a file's bytes. Raises OSError,
    but not for a folder that may not be read.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
