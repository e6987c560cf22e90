"""Split files: any part may be named, the others lie beside it.

Names are `<prefix>-00001-of-0000N.gguf`; every part says `split.no` (from 0) and `split.count`,
the first also `split.tensors.count` and all metadata.
"""

import mmap
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine.errors import BadFile
from engine.gguf.excerpt import Excerpt, excerpt_of
from engine.gguf.header import FileHeader, read_architecture, read_header

_NAME = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.I)


class FileIdentity(NamedTuple):
    """Which file it was, and when it was last written and changed, as it was opened. Programs can
    set the first of these times; the second, `changed`, is the system's.
    """

    path: Path
    device: int
    inode: int
    size: int
    written: int
    changed: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> "FileIdentity":
        """Make the identity from a `stat` result."""
        times = status.st_mtime_ns, status.st_ctime_ns
        return cls(path.absolute(), status.st_dev, status.st_ino, status.st_size, *times)

    @property
    def is_there(self) -> bool:
        """True if its path leads to that file still, as it was written."""
        try:
            return self == self.of(self.path, os.stat(self.path))
        except OSError:
            return False

    @property
    def is_written(self) -> bool:
        """True if its path leads to other bytes: a file that is gone, linked or of other rights is
        none such.
        """
        try:
            now = self.of(self.path, os.stat(self.path))
        except OSError:
            return False
        return now[:-1] != self[:-1]


@dataclass(frozen=True)
class FilePart:
    """A mapped file and its header; `excerpt` where the file holds only parts of the model's."""

    path: Path
    data: memoryview
    header: FileHeader
    identity: FileIdentity
    excerpt: Excerpt | None = None

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.data) if self.excerpt is None else self.excerpt.size


def open_parts(path: Path) -> tuple[FilePart, ...]:
    """The file at `path`, or all the parts it belongs to, in order. BadFile if any is wrong."""
    named = _open(path, 0)
    count = named.header.metadata.get("split.count", int, 0)
    if count <= 1:
        return (named,)
    paths = _part_paths(path, count)
    parts = tuple(_open(paths[i], i) for i in range(count))
    for i, part in enumerate(parts):
        _check_part(part, i, parts)
    _check_tensors(parts)
    return parts


def architecture_of(path: Path) -> str | None:
    """`general.architecture` of the file at `path`, None where it is no text; of its header only
    what stands before that is read. BadFile if that is wrong.
    """
    data, _ = _mapped(path)
    return read_architecture(str(path), data)


def _open(path: Path, number: int) -> FilePart:
    data, identity = _mapped(path)
    excerpt = excerpt_of(data)
    if excerpt is None:
        return FilePart(path, data, read_header(str(path), data, number), identity)
    begin = data[: excerpt.parts[0][1]]
    header = read_header(str(path), begin, number, excerpt.size)
    return FilePart(path, data, header, identity, excerpt)


def _mapped(path: Path) -> tuple[memoryview, FileIdentity]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its other end
            raise BadFile(path, "not a file")
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size == 0:
                raise BadFile(path, "the file is empty")
            data = memoryview(mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ))
    except OSError as error:
        raise BadFile(path, (error.strerror or str(error)).lower()) from None
    except ValueError:
        raise BadFile(path, "a file's name cannot have a NUL character") from None
    return data, FileIdentity.of(path, status)


def _part_paths(path: Path, count: int) -> list[Path]:
    match = _NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise BadFile(
            path,
            f"one of {count} parts, but its name does not end in -0000N-of-{count:05}.gguf; "
            "restore the original names",
        )
    prefix, suffix = match["prefix"], match["suffix"]
    paths = [path.with_name(f"{prefix}-{i:05}-of-{count:05}{suffix}") for i in range(1, count + 1)]
    missing = [part.name for part in paths if not part.exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if missing[3:] else ""
        raise BadFile(
            path,
            (
                f"{len(missing)} of {count} parts are not in the same folder:"
                f" {', '.join(missing[:3])}{more}"
            ),
        )
    return paths


def _check_part(part: FilePart, i: int, parts: Sequence[FilePart]) -> None:
    metadata, count = part.header.metadata, len(parts)
    number = metadata.get("split.no", int)
    if (number, metadata.get("split.count", int)) != (i, count):
        raise BadFile(
            part.path,
            f"named part {i + 1} of {count}, but its 'split.no' is {number} (from 0) of "
            f"{metadata.get('split.count', int)}; a part was copied or renamed",
        )
    if part.header.order != parts[0].header.order:
        raise BadFile(part.path, "its byte order is not that of the first part")


def _check_tensors(parts: Sequence[FilePart]) -> None:
    owner: dict[str, FilePart] = {}
    for part in parts:
        for tensor in part.header.tensors:
            if tensor.name in owner:
                other = owner[tensor.name].path.name
                raise BadFile(part.path, f"tensor {tensor.name!r} is also in {other}")
            owner[tensor.name] = part
    first = parts[0]
    expected = first.header.metadata.get("split.tensors.count", int, len(owner))
    if expected != len(owner):
        raise BadFile(
            first.path,
            (
                f"the parts hold {len(owner)} tensors, but the header lists {expected}; download"
                " them again"
            ),
        )
