"""Files that are there as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine.errors import CutawayError
from engine.kept import new_beside, remove, sync_folder
from engine.kept import write_atomically as write_atomically


def problem(error: OSError) -> str:
    """The file and the system's reason, in one line."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def write_named(path: Path, content: bytes) -> None:
    """Write what a person gave a name. Raises CutawayError where that cannot be."""
    with output(path) as file:
        file.write(content)


@contextmanager
def output(path: Path) -> Iterator[IO[bytes]]:
    """A file that a person named, open for writing. It is replaced as a whole once the block has
    ended, and stays as it was where that raises. A link is followed; a device or a pipe is written
    to as it is. Raises CutawayError where it cannot be written.
    """
    if path == Path() or path.is_dir():
        raise CutawayError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise CutawayError(f"{path} cannot be written: there is no such folder")
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        with _beside(target) as file:
            yield file
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        why = error.strerror if isinstance(error, OSError) else error
        raise CutawayError(f"{path} cannot be written: {why or error}") from None


@contextmanager
def _beside(target: Path) -> Iterator[IO[bytes]]:
    handle, name = new_beside(target)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        remove(Path(name))
        raise
    sync_folder(target.parent)
