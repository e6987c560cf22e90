"""The library that makes calls fail: compiled here, and armed in the process that preloads it."""

import ctypes
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("calls.c")
SHORT = -2
MEMORY = Path("/dev/shm")
"""Where syncs cost nothing: they are played, not needed."""


class Fault(NamedTuple):
    """The call that fails, from 1, and how; `end` is the call at which the process is killed."""

    at: int = 0
    error: int = errno.ENOSPC
    stays: bool = False
    end: int = 0

    def __str__(self) -> str:
        name = "short write" if self.error == SHORT else errno.errorcode[self.error]
        fails = f"call {self.at} fails with {name}{', as all later ones' * self.stays}"
        return "; ".join([fails] * bool(self.at) + [f"killed at call {self.end}"] * bool(self.end))


def compiler() -> str | None:
    """A C compiler of this machine."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def compiled(folder: Path) -> Path:
    """The library, built in `folder`."""
    made = folder / "calls.so"
    command = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-w", "-o", made, SOURCE]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True, capture_output=True)
    return made


def arm(folder: Path, fault: Fault, log: Path) -> None:
    """From here on calls below `folder` are counted and noted in `log`; one fails."""
    at, error, stays, end = fault
    _library().calls_arm(os.fsencode(folder), at, error, int(stays), end, os.fsencode(log))


def disarm() -> None:
    """Every call works again."""
    _library().calls_arm(None, 0, 0, 0, 0, None)


def note(text: str) -> None:
    """A line between the calls in the log: it survives whatever happens to the process."""
    _library().calls_note(text.encode())


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
