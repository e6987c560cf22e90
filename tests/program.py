"""`cutaway` as a person runs it: to its end, on a pseudo-terminal, and without leftovers."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from filelock import FileLock

from engine.settings import cache_folder

ROOT = Path(__file__).parent.parent
RUN = (sys.executable, "-m", "app")
# Whatever was said becomes likelier: on a question that repeats a letter, an answer without an end.
# It takes a form, as a loop ends an answer without one, and shifts, as a full context does too.
UNBOUNDED = ("--regex", "(?s:.*)", "--when-full", "shift")
ENDLESS = ("--temp", "0", "--frequency-penalty=-100", *UNBOUNDED, "--max-tokens", "1000000")
REPEATS = "zzzzzzzzzzzz"
MARK = "CUTAWAY_TEST_MARK"
Ended = subprocess.CompletedProcess[str]
PATIENCE = 300.0  # seconds until something hangs, on whatever machine


def run(*words: str | bytes, given: str | bytes = "", seconds: float = PATIENCE) -> Ended:
    """`cutaway WORDS` with `given` on stdin, to its end."""
    given = given.encode() if isinstance(given, str) else given
    ended = subprocess.run(
        [*RUN, *words], cwd=ROOT, input=given, capture_output=True, timeout=seconds, check=False
    )
    return Ended(words, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def type_check(platform: str = sys.platform, *paths: str) -> Ended:
    """Mypy over the files that pyproject.toml names, or over `paths`.

    What was found of a file holds in every checkout that has the same: one cache a platform, as of
    kernels, used by one at a time.
    """
    folder = cache_folder() / "mypy" / platform
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "mypy", "--platform", platform, "--cache-dir", str(folder)]
    with FileLock(f"{folder}.lock"):
        return subprocess.run(
            [*command, *paths], cwd=ROOT, capture_output=True, text=True, check=False
        )


def assert_one_line_error(ended: Ended, *parts: str, status: int = 1) -> None:
    """It failed, and said why in one line."""
    assert ended.returncode == status, ended
    assert ended.stdout == "", ended
    assert ended.stderr.startswith("cutaway: error: "), ended
    assert ended.stderr.count("\n") == 1, ended
    for part in parts:
        assert part in ended.stderr


def engine_of(pid: int, seconds: float = PATIENCE) -> psutil.Process:
    """The worker that a running `cutaway` has started."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children():
            if "engine.worker" in child.cmdline():
                return child
        time.sleep(0.02)
    raise AssertionError("no worker was started")


def assert_ends(process: psutil.Process, seconds: float = PATIENCE) -> None:
    """It ends by itself; in a container nobody may collect what is left of it."""
    deadline = time.monotonic() + seconds
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, f"{process} still runs"
            time.sleep(0.02)


def still_there(mark: str) -> Iterator[psutil.Process]:
    """Processes that were started, at whatever depth, with this mark in their environment."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                yield process


class Terminal:
    """`cutaway WORDS` on a terminal of its own: keys go in, what it shows is waited for."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
        self.process = subprocess.Popen(
            [*RUN, *words],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "dumb", "NO_COLOR": "1"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
        )
        os.close(theirs)
        self._unread = b""

    def expect(self, text: str, seconds: float = PATIENCE) -> str:
        """All that is shown up to `text`, which is read as well."""
        wanted, deadline = text.encode(), time.monotonic() + seconds
        while wanted not in self._unread:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} after {seconds} s, but {self._unread[-500:]!r}"
            if not select.select([self._ours], [], [], left)[0]:
                continue
            try:
                chunk = os.read(self._ours, 65536)
            except OSError:  # how a terminal without programs ends
                chunk = b""
            assert chunk, f"it ended without {text!r}: {self._unread[-500:]!r}"
            self._unread += chunk
        before, self._unread = self._unread.split(wanted, 1)
        return before.decode()

    def expect_more(self) -> None:
        """Until anything more than ends of lines is shown."""
        while not self._unread.strip():
            self._unread += os.read(self._ours, 65536)

    def settle(self) -> None:
        """Until the program waits for keys: a prompt is shown a moment before."""
        before, looks = None, 0
        while looks < 3 and self.process.poll() is None:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            now = fields[0], *fields[11:13]  # its state, and the processor's time that it took
            looks = looks + 1 if now == before and now[0] == "S" else 0
            before = now
            time.sleep(0.01)

    def send(self, keys: str) -> None:
        """Types."""
        os.write(self._ours, keys.encode())

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit status."""
        return self.process.wait(seconds)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
