"""A module of the engine run as a program: its lines as they come, and how it ended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic

import engine
from engine.errors import Cancelled, DeviceError

TICK = 0.1  # seconds between looks at whether it is to stop


def never() -> bool:
    """A stop condition that is never true."""
    return False


class Child:
    """A running child; iterate over its lines, then look at `ended`."""

    def __init__(
        self, process: subprocess.Popen[bytes], timeout: float, stop: Callable[[], bool]
    ) -> None:
        self._process = process
        self._timeout = timeout
        self._stop = stop
        self._silent = False
        self._read: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._reading, daemon=True).start()

    def lines(self) -> Iterator[bytes]:
        """Each as soon as it is there; none any more when the child was silent for too long.

        Raises `Cancelled`.
        """
        while (line := self._next()).endswith(b"\n"):
            yield line.rstrip(b"\r\n")

    def _reading(self) -> None:
        """Read in a thread: Windows waits for sockets with a time limit, for pipes without one."""
        pipe = self._process.stdout
        assert pipe is not None
        try:
            with pipe:
                for line in pipe:
                    self._read.put(line)
        finally:
            self._read.put(b"")

    def _next(self) -> bytes:
        """Return the next line, or an incomplete one if the child ended or was silent too long."""
        latest = monotonic() + self._timeout
        while (left := latest - monotonic()) > 0:
            if self._stop():
                self._process.kill()
                raise Cancelled("what runs on the device")
            with suppress(Empty):
                return self._read.get(timeout=min(left, TICK))
        self._silent = True
        self._process.kill()
        return b""

    def kill(self) -> None:
        """End it; harmless when it has ended."""
        self._process.kill()

    def problem(self) -> str:
        """Describe how the process failed; "" if nothing."""
        code = self._process.wait()
        if self._silent:
            return f"no answer within {self._timeout:g} s"
        if code < 0:
            return f"its process ended by {signal.Signals(-code).name}"
        return f"its process ended with status {code}" if code else ""


@contextmanager
def child(
    module: str, *args: str, timeout: float, stop: Callable[[], bool] = never
) -> Iterator[Child]:
    """`python -m module args`, killed at the end if it still runs; silence for `timeout` seconds
    ends it too, and so does `stop`.
    """
    root = str(Path(engine.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"},
        )
    except OSError as error:
        raise DeviceError("(any)", f"{module} does not start: {error}") from None
    try:
        yield Child(process, timeout, stop)
    finally:
        process.kill()
        process.wait()
