"""Files that are there as a whole or not at all."""

import os
import tempfile
from pathlib import Path

from engine.errors import CutawayError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file at once, so that there is the old or the new content, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_named(path: Path, content: bytes) -> None:
    """Write what a person gave a name. Raises CutawayError where that cannot be."""
    if not path.parent.is_dir():
        raise CutawayError(f"{path} cannot be written: there is no such folder.")
    try:
        write_atomically(path, content)
    except OSError as error:
        raise CutawayError(f"{path} cannot be written: {error.strerror or error}.") from None
