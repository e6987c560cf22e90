"""What can happen to a file: each damage is a function of its path."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
OTHER = b"\xffsomething else\n" * 600
Damage = Callable[[Path], object]


def _noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def _change(path: Path, at: float, change: Callable[[bytes], bytes]) -> None:
    """A page at a share of the file's length."""
    size = path.stat().st_size
    start = min(int(size * at), max(0, size - PAGE))
    with path.open("r+b") as file:
        file.seek(start)
        before = file.read(PAGE)
        file.seek(start)
        file.write(change(before))


def _flip(page: bytes) -> bytes:
    return page[:100] + bytes([page[min(100, len(page) - 1)] ^ 4]) + page[101:]


def _cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def _replace(path: Path, make: Damage) -> None:
    path.unlink()
    make(path)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "of somebody").write_text("not ours")


def _version(path: Path) -> None:
    """The first number of the file is another: of its magic, its schema or its head."""
    content = path.read_bytes()
    digits = [n for n, byte in enumerate(content[:200]) if chr(byte).isdigit()]
    at = digits[0] if digits else min(4, len(content) - 1)
    path.write_bytes(
        content[:at] + (b"7" if content[at : at + 1] != b"7" else b"8") + content[at + 1 :]
    )


DAMAGES: dict[str, Damage] = {
    "absent": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut at the start": lambda path: _cut(path, 0.01),
    "cut in the middle": lambda path: _cut(path, 0.5),
    "cut at the end": lambda path: os.truncate(path, path.stat().st_size - 1),
    "one bit": lambda path: _change(path, 0.5, _flip),
    "one bit at the start": lambda path: _change(path, 0, _flip),
    "noise": lambda path: _change(path, 0.5, lambda page: _noise(len(page))),
    "noise at the start": lambda path: _change(path, 0, lambda page: _noise(len(page))),
    "zeros": lambda path: _change(path, 0.5, lambda page: bytes(len(page))),
    "of another version": _version,
    "another file": lambda path: path.write_bytes(OTHER),
    "a folder": lambda path: _replace(path, _folder),
    "a pipe": lambda path: _replace(path, os.mkfifo),
    "a link to nothing": lambda path: _replace(path, lambda p: p.symlink_to("/nowhere/at/all")),
    "a loop": lambda path: _replace(path, lambda p: p.symlink_to(p)),
    "unreadable": lambda path: None,
    "read-only": lambda path: None,
    "on a full disk": lambda path: None,
}


def failing(damage: str, path: Path, home: Path) -> dict[str, str]:
    """The calls that fail meanwhile, for tests/failing/calls.c: so it is for root as for others."""
    if damage == "unreadable":
        return {"CALLS_CLOSED": str(path)}
    if damage == "read-only":
        return {"CALLS_FAIL": f"{errno.EACCES}:{path}"}
    return {"CALLS_FAIL": f"{errno.ENOSPC}:{home}"} if damage == "on a full disk" else {}
