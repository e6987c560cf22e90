"""Nothing of one operating system outside the module for it; and what that module does here."""

import ast
import ctypes
import mmap
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from engine import system
from engine.errors import WorkerDied
from engine.protocol import ListDevices
from engine.worker import handle
from tests.line.elsewhere import MARK
from tests.program import type_check

ROOT = Path(__file__).parents[2]
OF_ONE_SYSTEM = {"fcntl", "resource", "msvcrt", "winreg", "pwd", "grp", "termios", "pty"}
SOCKETS_ALONE = {"select", "selectors"}  # on Windows: no pipes, no files


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_one_module_imports_what_one_system_has() -> None:
    files = [p for top in ("app", "engine") for p in (ROOT / top).rglob("*.py")]
    named = re.compile(rf"\b({'|'.join(OF_ONE_SYSTEM | SOCKETS_ALONE)})\b")
    files = [path for path in files if named.search(path.read_text("utf-8"))]
    found = {path for path in files if imported(path) & (OF_ONE_SYSTEM | SOCKETS_ALONE)}
    assert found == {ROOT / "engine" / "system.py"}


def test_one_module_knows_what_windows_means_by_reuse() -> None:
    files = [p for top in ("app", "engine") for p in (ROOT / top).rglob("*.py")]
    found = {path for path in files if "SO_REUSEADDR" in path.read_text("utf-8")}
    assert found == {ROOT / "engine" / "system.py"}


def test_a_claimed_port_is_nobody_elses_and_free_after_its_server() -> None:
    def bound(address: tuple[str, int]) -> socket.socket:
        one = socket.socket()
        system.claim_address(one)
        try:
            one.bind(address)
        except OSError:
            one.close()
            raise
        one.listen()
        return one

    with bound(("127.0.0.1", 0)) as first:
        address = first.getsockname()
        with pytest.raises(OSError, match="in use"):
            bound(address)
        with socket.create_connection(address) as client:
            first.accept()[0].close()  # its end waits for late packets of the other's now
            assert client.recv(1) == b""
    bound(address).close()


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_the_types_hold_on_other_systems(platform: str) -> None:
    files = ("engine/system.py", "engine/kept.py", "app/shared/host.py", "app/weights.py")
    ended = type_check(platform, *files)
    assert ended.returncode == 0, ended.stdout


def test_bytes_are_read_and_written_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    handle = system.open_new(path)
    try:
        assert system.write_at(handle, memoryview(b"345\r\n"), 3) == 5
        assert system.write_at(handle, memoryview(b"012"), 0) == 3
        system.sync_data(handle)
        system.drop_cached(handle)
        data = bytearray(4)
        assert system.read_at(handle, memoryview(data), 2) == 4
        assert bytes(data) == b"2345"
        assert system.read_at(handle, memoryview(data), 6) == 2
    finally:
        os.close(handle)
    assert path.read_bytes() == b"012345\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        system.open_new(path)


@pytest.mark.only_linux("the lock is a stand-in elsewhere")
def test_a_lock_is_of_one_handle(tmp_path: Path) -> None:
    first = system.open_new(tmp_path / "file")
    second = os.open(tmp_path / "file", os.O_RDWR)
    system.lock(first)
    with pytest.raises(OSError, match="unavailable"):
        system.lock(second, wait=False)
    os.close(first)
    system.lock(second, wait=False)
    os.close(second)


@pytest.mark.only_linux("named pipes in folders")
def test_a_link_and_a_pipe_do_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.close(system.open_to_read(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic"):
        system.open_to_read(tmp_path / "link", follow=False)


@pytest.mark.only_linux("it takes advice on pages")
def test_pages_are_zero_and_advice_is_taken_or_refused() -> None:
    pages = system.fresh_pages(2 * mmap.PAGESIZE)
    assert pages[:] == bytes(2 * mmap.PAGESIZE)
    pages[0] = 1
    system.advise(pages, "DONTNEED", 0, mmap.PAGESIZE)
    assert pages[0] == 0
    pages.close()


@pytest.mark.only_linux("its signal for a cut file")
def test_a_process_ends_with_a_sentence_where_a_mapped_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(bytes(5 * mmap.PAGESIZE))
    code = """
import mmap, os, sys
from engine.system import end_where_a_file_is_cut
end_where_a_file_is_cut()
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(sys.argv[1], mmap.PAGESIZE)
print(data[-1])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    said = f"cutaway: error: {path} was cut or became unreadable while in use; restore it\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", said)


def limited(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", f"from engine.system import limit_process; {code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_limits_hold_in_a_process_of_its_own() -> None:
    assert "MemoryError" in limited("limit_process(1 << 30, 9); bytes(1 << 31)").stderr
    ended = limited("limit_process(1 << 30, 1)\nwhile True: pass")
    assert ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL)


def test_another_process_is_limited_beyond_what_it_has() -> None:
    code = "import sys; sys.stdin.readline(); bytes(100 << 20); bytes(300 << 20)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    system.limit_growth(process.pid, 256 << 20)
    assert "MemoryError" in process.communicate("\n")[1]
    with pytest.raises(OSError, match="has ended"):
        system.limit_growth(process.pid, 256 << 20)


def test_limits_of_a_job_are_laid_out_as_windows_reads_them() -> None:
    """Offsets of mingw-w64's winnt.h, compiled for x86_64."""
    fields = ("process_time", "flags", "most_working_set", "processes", "affinity", "priority")
    fields += ("transfers", "process_memory", "job_memory", "peak_job_memory")
    offsets = [getattr(system.JobLimits, name).offset for name in fields]
    assert offsets == [0, 16, 32, 40, 48, 56, 64, 112, 120, 136]
    assert ctypes.sizeof(system.JobLimits) == 144


def test_a_command_is_looked_up_where_the_system_does_not(tmp_path: Path) -> None:
    program = tmp_path / "npx"
    program.write_text("")
    program.chmod(0o700)
    looks = MARK in os.environ
    assert system.program_file("npx", str(tmp_path)) == (str(program) if looks else "npx")
    assert system.program_file("no-such", str(tmp_path)) == "no-such"


@pytest.mark.only_linux("it counts blocks")
def test_a_size_on_disk_is_counted_in_blocks() -> None:
    """A file with a hole, or one that is not on the disk yet, takes less than its length."""
    told = os.stat_result([0] * 6 + [10**6, 0, 0, 0], {"st_blocks": 3})
    assert system.size_on_disk(told) == 3 * 512


def test_a_worker_is_reached_by_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where a process inherits no pipe; sockets at paths stand in for its pipes."""

    def start(
        command: Sequence[str], log: IO[bytes], environment: dict[str, str]
    ) -> tuple[subprocess.Popen[bytes], Any]:
        return system.start_by_address(command, log, environment, "AF_UNIX")

    monkeypatch.setattr(handle, "start_with_pipe", start)
    with handle.Worker() as worker:
        assert worker.get(ListDevices(worker.new_id())) is not None
    assert not worker.alive
    with handle.Worker("engine.no_such_module") as worker, pytest.raises(WorkerDied) as told:
        worker.get(ListDevices(worker.new_id()))
    assert "No module named engine.no_such_module" in str(told.value)
