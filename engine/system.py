"""Calls that operating systems have in different forms, or not at all: files, locks, memory."""

import ctypes
import mmap
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import psutil

if sys.platform == "win32":
    import msvcrt

    Pipe: TypeAlias = "Connection[Any, Any] | PipeConnection[Any, Any]"
else:
    import fcntl
    import resource

    Pipe: TypeAlias = "Connection[Any, Any]"

if TYPE_CHECKING and sys.platform == "win32":
    from multiprocessing.connection import PipeConnection

Advice = Literal["HUGEPAGE", "DONTNEED", "WILLNEED", "POPULATE_READ"]
MOVES_OPEN_FILES = sys.platform != "win32"
"""Whether an open file can be renamed, replaced and deleted."""
BLOCK = 512  # bytes of st_blocks, whatever the file system's are (POSIX)
_NEWER = {"POPULATE_READ": 22, "POPULATE_WRITE": 23}  # of Linux 5.14, without names in Python 3.11
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_seeking = threading.Lock()
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # before any fork
_handlers: list[object] = []


def open_to_read(path: str | os.PathLike[str], follow: bool = True) -> int:
    """A handle of a file; opening a pipe does not wait for its writer. Raises `OSError`."""
    flags = os.O_RDONLY | _COMMON | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))


def open_new(path: str | os.PathLike[str]) -> int:
    """A handle of a new file that only this user may read. Raises `OSError`."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _COMMON, 0o600)


def read_at(handle: int, data: memoryview, start: int) -> int:
    """Read into `data` from byte `start` of a file; how many bytes there were. Raises `OSError`."""
    if sys.platform != "win32":
        return os.preadv(handle, [data], start)
    with _seeking:
        os.lseek(handle, start, os.SEEK_SET)
        found = os.read(handle, len(data))
    data[: len(found)] = found
    return len(found)


def has_come(file: IO[bytes], seconds: float) -> bool:
    """Wait until a file or pipe has bytes or has ended; return False after `seconds`. On Windows,
    which can wait for sockets only, return True at once: reading may then wait for a writer.
    """
    if sys.platform == "win32":
        return True
    return bool(select.select([file], [], [], seconds)[0])


def write_at(handle: int, data: memoryview, start: int) -> int:
    """Write at byte `start` of a file; how many bytes were written. Raises `OSError`."""
    if sys.platform != "win32":
        return os.pwrite(handle, data, start)
    with _seeking:
        os.lseek(handle, start, os.SEEK_SET)
        return os.write(handle, data)


def sync_data(handle: int) -> None:
    """Wait until the bytes of a file are on the disk. Raises `OSError`."""
    if sys.platform == "linux":
        os.fdatasync(handle)
    else:
        os.fsync(handle)


def drop_cached(handle: int) -> None:
    """Have the system forget what it keeps in memory of a file. Raises `OSError`."""
    if sys.platform == "linux":
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def end_where_a_file_is_cut() -> None:
    """End the process with a sentence where a mapped file has lost the bytes that are read. The
    signal alone ends it without one, and a handler of Python's would never run, since the read is
    repeated before it.
    """
    if _LIBC is None or sys.platform == "win32":
        return
    with suppress(MemoryError, OSError):  # some systems allow no code that is made at run time
        handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end)
        _LIBC.signal(signal.SIGBUS, handler)
        _handlers.append(handler)


def _end(number: int) -> None:
    cut = ", ".join(sorted(set(_cut_files()))) or "a file"
    message = f"cutaway: error: {cut} was cut or became unreadable while in use; restore it\n"
    os.write(2, message.encode(errors="replace"))
    os._exit(1)


def _cut_files() -> Iterator[str]:
    """The files that are shorter than what this process has mapped of them."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, may, start, _, inode, *path = line.rstrip("\n").split(maxsplit=5)
            first, _, last = span.partition("-")
            if may.endswith("s") and path and inode != "0":  # libraries are mapped privately
                end = int(start, 16) + int(last, 16) - int(first, 16)
                with suppress(OSError):
                    if os.stat(path[0]).st_size <= end - mmap.PAGESIZE:
                        yield path[0]


def lock(handle: int, wait: bool = True) -> None:
    """Lock a file for this process alone, until the handle is closed. Raises `OSError`."""
    if sys.platform == "win32":
        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def size_on_disk(status: os.stat_result) -> int:
    """Bytes that a file takes there."""
    if sys.platform == "win32":
        return status.st_size
    return status.st_blocks * BLOCK


def user() -> int:
    """The number of the user whose files this process may read, as in `st_uid`."""
    if sys.platform == "win32":
        return 0
    return os.geteuid()


def fresh_pages(size: int) -> mmap.mmap:
    """Zeroed memory that takes none of the machine's before it is touched. Raises `OSError`."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def advise(memory: mmap.mmap, advice: Advice, start: int = 0, size: int | None = None) -> None:
    """Advise the system on pages of a map. Raises `OSError`, also where it takes no such advice."""
    newer = _NEWER.get(advice) if sys.platform == "linux" else None
    number = getattr(mmap, f"MADV_{advice}", newer)
    if sys.platform == "win32" or number is None:
        raise OSError(f"this system has no advice {advice}")
    memory.madvise(number, start, len(memory) - start if size is None else size)


def populate(memory: mmap.mmap, start: int, size: int) -> None:
    """Have these bytes' pages now, to write to; other threads of Python go on meanwhile. Raises
    `OSError`, also where there is no such call (Linux before 5.14, other systems).
    """
    if _LIBC is None:
        raise OSError("this system has no advice POPULATE_WRITE")
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory, start))
    if _LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _NEWER["POPULATE_WRITE"]):
        raise OSError(f"the system gives no pages for {size} bytes")


class Usage(NamedTuple):
    """Seconds of processors that a process and all its threads spent in their own code and in the
    system's, and faults of pages: major ones waited for a disk.
    """

    user_s: float
    system_s: float
    minor_faults: int
    major_faults: int


def usage() -> Usage | None:
    """The usage of this process; None where the system does not count it so (Windows)."""
    if sys.platform != "win32":
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Usage(usage.ru_utime, usage.ru_stime, usage.ru_minflt, usage.ru_majflt)
    return None


def limit_process(memory: int, seconds: int) -> None:
    """Bound the memory (bytes) and processor time of this process, where the system can: Linux
    bounds the address space, Windows what is committed, macOS the time alone. Raises `OSError`.
    """
    if sys.platform == "win32":
        put_in_job(os.getpid(), memory, seconds)
    else:
        with suppress(ValueError):  # macOS refuses this one
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def limit_growth(process: int, memory: int) -> None:
    """Bound how many bytes another process of this user takes beyond those it has; macOS cannot.
    Raises `OSError`, also where there is no such process any more.
    """
    try:
        most = psutil.Process(process).memory_info().vms + memory  # Windows: what is committed
    except psutil.Error as error:
        raise ProcessLookupError(f"process {process} has ended") from error
    if sys.platform == "win32":
        put_in_job(process, most)
    elif sys.platform == "linux":
        resource.prlimit(process, resource.RLIMIT_AS, (most, most))


class JobLimits(ctypes.Structure):
    """Windows' JOBOBJECT_EXTENDED_LIMIT_INFORMATION. Times are in units of 100 ns."""

    _fields_ = (
        ("process_time", ctypes.c_int64),
        ("job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("least_working_set", ctypes.c_size_t),
        ("most_working_set", ctypes.c_size_t),
        ("processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority", ctypes.c_uint32),
        ("scheduling", ctypes.c_uint32),
        ("transfers", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    )


EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
LIMITS_TIME, LIMITS_MEMORY = 0x2, 0x100  # JOB_OBJECT_LIMIT_PROCESS_TIME, _PROCESS_MEMORY
MAY_BE_LIMITED = 0x100 | 0x1  # PROCESS_SET_QUOTA | PROCESS_TERMINATE


if sys.platform == "win32":

    def put_in_job(process: int, memory: int, seconds: int = 0) -> None:
        """Bound what a process commits (bytes) and, unless 0, its processor time. The limits hold
        until it ends: a job lives as long as its processes. Raises `OSError`.
        """
        system = ctypes.WinDLL("kernel32", use_last_error=True)
        for function in (system.CreateJobObjectW, system.OpenProcess):
            function.restype = ctypes.c_void_p
        limits = JobLimits(
            process_time=seconds * 10**7,
            flags=LIMITS_MEMORY | (LIMITS_TIME if seconds else 0),
            process_memory=memory,
        )
        about = ctypes.byref(limits), ctypes.c_uint32(ctypes.sizeof(limits))
        job = ctypes.c_void_p(system.CreateJobObjectW(None, None))
        handle = ctypes.c_void_p(system.OpenProcess(MAY_BE_LIMITED, False, process))
        try:
            if not (
                job
                and handle
                and system.SetInformationJobObject(job, EXTENDED_LIMITS, *about)
                and system.AssignProcessToJobObject(job, handle)
            ):
                raise ctypes.WinError(ctypes.get_last_error())
        finally:
            system.CloseHandle(handle)
            system.CloseHandle(job)


def end_with_parent() -> None:
    """Have the system end this process once the thread that started it has ended, where it can
    (Linux: PR_SET_PDEATHSIG).
    """
    if sys.platform == "linux":
        assert _LIBC is not None
        _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)


def start_with_pipe(
    command: Sequence[str], log: IO[bytes], environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], Pipe]:
    """A process with a pipe to it; its last argument names its end for `pipe_of`. Ctrl+C in a
    terminal does not reach it. Raises `OSError`.
    """
    if sys.platform == "win32":
        return start_by_address(command, log, environment, "AF_PIPE")
    ours, theirs = socket.socketpair()
    with theirs:
        os.set_inheritable(theirs.fileno(), True)
        process = subprocess.Popen(
            [*command, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            process_group=0,
        )
    return process, Connection(ours.detach())


def start_by_address(
    command: Sequence[str], log: IO[bytes], environment: dict[str, str], family: str
) -> tuple[subprocess.Popen[bytes], Pipe]:
    """Do as `start_with_pipe` where processes inherit no handles: the process connects to an
    address, with a key that it reads from its input.
    """
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    key = secrets.token_bytes(32)
    with Listener(None, family, authkey=key) as listener:
        process = subprocess.Popen(
            [*command, str(listener.address)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            creationflags=flags,
        )
        assert process.stdin is not None
        with suppress(OSError), process.stdin as stdin:
            stdin.write(key)
        waits = (process, listener.address, key)
        threading.Thread(target=_connect_at_end, args=waits, daemon=True).start()
        return process, listener.accept()


def _connect_at_end(process: "subprocess.Popen[bytes]", address: Any, key: bytes) -> None:
    """Connect in place of a process that ends before it has: else nobody would stop waiting."""
    process.wait()
    with suppress(OSError, EOFError):
        Client(address, authkey=key).close()


def pipe_of(name: str) -> Pipe:
    """This process's end of the pipe that `start_with_pipe` names. Raises `OSError`."""
    if name.isdigit() and sys.platform != "win32":
        return Connection(int(name))
    return Client(name, authkey=sys.stdin.buffer.read())


def program_file(command: str, path: str | None) -> str:
    """Return the file to start for `command`, from the folders of `path`. By a bare name Windows
    finds .exe files only, and `npx` is npx.cmd there.
    """
    if sys.platform == "win32":
        return shutil.which(command, path=path) or command
    return command


def end_group(leader: int, force: bool) -> None:
    """End the processes of a group that `leader` was started to lead; on Windows it and those that
    it started, as long as it runs.
    """
    if sys.platform != "win32":
        with suppress(OSError):
            os.killpg(leader, signal.SIGKILL if force else signal.SIGTERM)
        return
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(leader)
        for one in (*process.children(recursive=True), process):
            with suppress(psutil.Error):
                one.kill()


def cores() -> int:
    """How many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def local_socket() -> socket.socket:
    """A socket whose address is a path. Raises `OSError` where there are none."""
    if sys.platform == "win32":
        raise OSError("this system has no sockets at paths")
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def claim_address(one: socket.socket) -> None:
    """Prepare a server's socket, before it is bound, to take the port of a server that has just
    ended, and to share its own with no other socket. SO_REUSEADDR would share it on Windows.
    """
    if sys.platform == "win32":
        one.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
