"""A disk that loses power: which files are there, from the log of calls, with what was synced."""

import os
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

HEAD = struct.Struct("=c3I2Q")
BLOCK = 4096
Loss = Literal["data", "names", "torn"]
LOSSES: tuple[Loss, ...] = ("data", "names", "torn")
"""All names are there, with what was synced; names, too, only as of the last sync; names are there,
and of each write since the sync some blocks."""


class Record(NamedTuple):
    """`kind` is a letter of calls.c; C is a call that begins, N a note."""

    kind: str
    path: str
    to: str
    inode: int
    at: int
    data: bytes


def read_log(log: Path) -> list[Record]:
    """All whole records: the last one may be cut by a kill."""
    content, records, at = log.read_bytes() if log.exists() else b"", [], 0
    while at + HEAD.size <= len(content):
        kind, *lengths, inode, where = HEAD.unpack_from(content, at)
        at += HEAD.size
        if at + sum(lengths) > len(content):
            break
        parts = []
        for length in lengths:
            parts.append(content[at : at + length])
            at += length
        path, to, data = parts
        records.append(Record(kind.decode(), path.decode(), to.decode(), inode, where, data))
    return records


def notes(records: Sequence[Record]) -> list[str]:
    """What the process noted, in order."""
    return [record.data.decode() for record in records if record.kind == "N"]


@dataclass
class _File:
    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)


class Disk:
    """Begins with the files of a folder, which are all synced, and takes records in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, _File] = {}
        self._names: dict[str, _File] = {}
        self._folders: set[str] = set()
        self._links: dict[str, str] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                self._folders.add(str(path))
            elif path.is_symlink():
                self._links[str(path)] = os.readlink(path)
            else:
                content = path.read_bytes()
                inode = path.stat().st_ino
                self._files.setdefault(inode, _File(bytearray(content), content))
                self._names[str(path)] = self._files[inode]
        self._durable = dict(self._names), set(self._folders)

    def take(self, record: Record) -> None:
        """A call that went well."""
        path, file = record.path, self._files.get(record.inode)
        if record.kind == "O":
            self._files[record.inode] = self._names[path] = _File()
        elif record.kind == "D":
            self._folders.add(path)
        elif record.kind == "U":
            self._names.pop(path, None)
            self._folders.discard(path)
        elif record.kind == "R":
            self._rename(path, record.to)
        elif record.kind == "L":
            self._names[record.to] = self._names[path]
        elif record.kind == "S":
            if file is not None:
                file.synced, file.unsynced = bytes(file.now), []
            self._durable = dict(self._names), set(self._folders)
        elif record.kind in "WT" and file is not None:
            change = record.at, record.data if record.kind == "W" else None
            file.unsynced.append(change)
            _change(file.now, *change)

    def write(self, folder: Path, loss: Loss, seed: int) -> None:
        """Put down below `folder` what is left after a power loss now."""
        draw = random.Random(seed)
        names, folders = self._durable if loss == "names" else (self._names, self._folders)
        for name in sorted(folders):
            self._in(folder, name).mkdir(parents=True, exist_ok=True)
        for name, target in self._links.items():
            self._in(folder, name).symlink_to(target)
        for name, file in sorted(names.items()):
            if name.endswith("-shm"):  # SQLite makes it anew
                continue
            content = bytearray(file.synced)
            for at, data in file.unsynced if loss == "torn" else ():
                if data is None:
                    _change(content, at, None)
                    continue
                for first in range(0, len(data), BLOCK):
                    if draw.random() < 0.5:
                        _change(content, at + first, data[first : first + BLOCK])
            place = self._in(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def _rename(self, old: str, new: str) -> None:
        for name in [name for name in self._names if name == old or name.startswith(f"{old}/")]:
            self._names[new + name[len(old) :]] = self._names.pop(name)
        for name in [name for name in self._folders if name == old or name.startswith(f"{old}/")]:
            self._folders.remove(name)
            self._folders.add(new + name[len(old) :])

    def _in(self, folder: Path, name: str) -> Path:
        return folder / Path(name).relative_to(self._folder)


def _change(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
        content.extend(bytes(at - len(content)))
    else:
        content.extend(bytes(max(0, at - len(content))))
        content[at : at + len(data)] = data
