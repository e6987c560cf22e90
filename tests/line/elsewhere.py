"""A process as if on Windows, as far as that can be here: what Linux alone has is taken away.

`python -m tests.line.elsewhere` imports every module then, and prints how many. Packages of others
and Python's own are imported before: they know their systems.
"""

import ctypes
import gc
import importlib
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARK = "CUTAWAY_AS_WINDOWS"  # names the folder of a run by tests/line/as_windows.py
MODULES = ("fcntl", "resource", "readline", "pwd", "grp", "termios")
NAMES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (socket, ("AF_UNIX", "SO_PEERCRED")),
    (signal, ("SIGKILL", "SIGBUS", "SIGHUP")),
    (mmap, ("MAP_SHARED", "MAP_PRIVATE", "MAP_ANONYMOUS")),
    (os, ("fork", "geteuid", "getuid", "killpg", "pread", "preadv", "pwrite", "pwritev")),
    (os, ("fdatasync", "posix_fadvise", "sched_getaffinity", "O_CLOEXEC", "O_NOFOLLOW")),
)
FOLDERS = ("/proc/", "/sys/")
KNOW_THEIRS = ("psutil", "multiprocessing", "numpy")  # packages with a part for each system
WAYS = ("pathlib", "os", "io", "codecs", "glob", "genericpath", "posixpath")


def own() -> list[str]:
    """Every module of ours but programs, which act when they are imported."""
    files = (path for top in ("engine", "app") for path in sorted((ROOT / top).rglob("*.py")))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    return [name.removesuffix(".__init__") for name in names if not name.endswith(".__main__")]


def take_away() -> None:
    """Make this process one of another system. Our own modules are imported anew after it."""
    sysconfig.get_config_vars()  # read once, from a file of this system
    for name in own():
        importlib.import_module(name)
    for name in [n for n in sys.modules if n.partition(".")[0] in ("engine", "app")]:
        del sys.modules[name]
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for owner, names in NAMES:
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    for name in [n for n in dir(mmap) if n.startswith("MADV_")]:
        delattr(mmap, name)
    sys.addaudithook(_refuse)
    sys.modules["msvcrt"] = locking_stand_in()
    vars(ctypes).update(jobs_stand_in())
    sys.platform = "win32"


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if of_linux(event, arguments) and caller() not in KNOW_THEIRS:
        refuse(arguments[0])


def of_linux(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an event of `sys.addaudithook` opens a file that Linux alone has."""
    opens = event in ("open", "os.listdir", "os.scandir") and arguments
    return bool(opens) and isinstance(arguments[0], str) and arguments[0].startswith(FOLDERS)


def caller() -> str:
    """The top-level package whose code opens a file, by way of Python's modules or by itself."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if top not in WAYS:
            return top
        frame = frame.f_back
    return ""


def refuse(path: str) -> None:
    """Raises `FileNotFoundError`."""
    raise FileNotFoundError(2, "another system has no such file", path)


def locking_stand_in() -> types.ModuleType:
    """Stand in for the module that locks files on Windows: a second lock of a file is refused."""
    module = types.ModuleType("msvcrt")
    locked: dict[tuple[int, int], int] = {}

    def locking(handle: int, mode: int, size: int) -> None:
        told = os.fstat(handle)
        file = told.st_dev, told.st_ino
        holder = locked.get(file)
        if holder is not None and holder != handle:
            try:
                still = os.fstat(holder)
            except OSError:
                still = None
            if still is not None and (still.st_dev, still.st_ino) == file:
                raise OSError(36, "the file is locked")
        locked[file] = handle

    module.LK_LOCK, module.LK_NBLCK, module.locking = 1, 2, locking  # type: ignore[attr-defined]
    return module


def jobs_stand_in() -> dict[str, Any]:
    """Names of ctypes on Windows, for what our module loads of kernel32: jobs, whose limits hold
    here, too.
    """
    limits: dict[int, tuple[int, int, int]] = {}

    def create(security: None, name: None) -> int:
        return len(limits) + 1

    def set_limits(job: ctypes.c_void_p, kind: int, about: Any, size: ctypes.c_uint32) -> bool:
        if (kind, size.value) != (9, 144):  # JobObjectExtendedLimitInformation, of 64 bits
            return False
        data = ctypes.string_at(ctypes.cast(about, ctypes.c_void_p), size.value)
        time, _, flags, *_, memory, _, _, _ = struct.unpack("<qqI4xQQI4xQII6Q4Q", data)
        limits[job.value or 0] = time // 10**7, flags, memory
        return True

    def open_process(rights: int, inherit: bool, process: int) -> int:
        return process if rights == 0x101 and Path(f"/proc/{process}").exists() else 0

    def assign(job: ctypes.c_void_p, process: ctypes.c_void_p) -> bool:
        seconds, flags, memory = limits[job.value or 0]
        if flags & 0x100:
            resource.prlimit(process.value or 0, resource.RLIMIT_AS, (memory, memory))
        if flags & 0x2:
            resource.prlimit(process.value or 0, resource.RLIMIT_CPU, (seconds, seconds))
        return True

    kernel = types.SimpleNamespace(
        CreateJobObjectW=create,
        SetInformationJobObject=set_limits,
        OpenProcess=open_process,
        AssignProcessToJobObject=assign,
        CloseHandle=bool,
    )
    return {
        "WinDLL": lambda name, use_last_error: kernel,
        "get_last_error": lambda: 87,
        "WinError": lambda code: OSError(code, "The parameter is incorrect"),
    }


if __name__ == "__main__":
    gc.disable()  # what is imported stays
    take_away()
    for name in own():
        importlib.import_module(name)
    print(len(own()))
