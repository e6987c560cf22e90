"""The files of pictures, each under the hash of its bytes: equal pictures are one file."""

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from app.files import write_atomically
from app.language import tr
from engine.errors import CutawayError
from engine.kept import read_kept
from engine.settings import MOST_PICTURE_BYTES

CHUNK = 1 << 20  # bytes hashed at once, so that the window's thread gets its turn


class PictureError(CutawayError):
    """A picture could not be kept or read."""

    def __init__(self, name: object, problem: str) -> None:
        self.name = str(name)
        super().__init__(f"{name}: {problem}")


class PictureFiles:
    """One folder. Writes and removals of other windows are kept apart by the database's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, hash: str) -> Path:
        """Where the picture is, if it is kept."""
        return self.folder / hash

    def has(self, hash: str) -> bool:
        return self.path(hash).is_file()

    def keep(self, data: bytes, name: str) -> str:
        """Write a picture's file, if there is none yet; its hash. Raises PictureError."""
        hash = hash_of(data)
        try:
            if self.has(hash):
                self.touch(hash)
            else:
                write_atomically(self.path(hash), data)
        except OSError as error:
            raise PictureError(
                name, tr("could not be saved: {strerror}", strerror=error.strerror)
            ) from error
        return hash

    def read(self, hash: str, name: str) -> bytes:
        """A kept picture's file. Raises PictureError."""
        try:
            return read_kept(self.path(hash))
        except OSError as error:
            raise PictureError(
                name, tr("is no longer stored: {strerror}", strerror=error.strerror)
            ) from error

    def touch(self, hash: str) -> None:
        """It was used just now."""
        os.utime(self.path(hash))

    def remove(self, hash: str) -> None:
        """Harmless when done twice. Raises OSError."""
        self.path(hash).unlink(missing_ok=True)

    def idle(self, seconds: float) -> Iterator[str]:
        """The names of files that nobody wrote or touched for so long. Raises OSError."""
        if not self.folder.is_dir():
            return
        latest = time.time() - seconds
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and entry.stat().st_mtime < latest:
                    yield entry.name


def hash_of(data: bytes) -> str:
    """Return the file name of a picture: the SHA-256 of its bytes."""
    digest = sha256()
    for first in range(0, len(data), CHUNK):
        digest.update(data[first : first + CHUNK])
    return digest.hexdigest()


def read_picture(path: Path) -> bytes:
    """The bytes of a file that a person gave. Raises PictureError with the reason."""
    try:
        if not path.is_file():  # a pipe or a device may never end
            raise PictureError(
                path.name, tr("is not a file") if path.exists() else tr("no such file")
            )
        size = path.stat().st_size
        if size > MOST_PICTURE_BYTES:
            raise PictureError(
                path.name,
                tr(
                    "has {size} MiB; pictures of up to {most_picture_bytes} MiB are read",
                    size=size >> 20,
                    most_picture_bytes=MOST_PICTURE_BYTES >> 20,
                ),
            )
        if size == 0:
            raise PictureError(path.name, tr("is empty"))
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise PictureError(
            path.name, tr("could not be read: {problem}", problem=problem)
        ) from error
