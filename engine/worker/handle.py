"""The handle that starts the engine's process and talks to it.

The worker is a fresh interpreter, never a fork. It ends when the handle's end of the pipe closes,
so that nothing is left behind, and its death is distinguished by exit code and signal.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import IO, Any, cast

from engine.errors import CutawayError, WorkerDied
from engine.protocol import Cancel, Failed, Heartbeat, Order, R, Reply, Request
from engine.protocol.wire import decoder_of_replies, encode
from engine.system import start_with_pipe

PROGRAM = "engine.worker"
GRACE = 2.0  # seconds to end by itself
STARTS = 60.0  # seconds that a start may take
_TAIL = 2000
WENT_ON = "The engine continues after this error."
"""Ends the log of an error that was answered: what stands before it ended no process."""


class RemoteError(CutawayError):
    """An error of the worker, under the name it had there; `pictures` as in `Failed`."""

    def __init__(self, failed: Failed) -> None:
        self._kind = failed.kind
        self.pictures = tuple(failed.pictures)
        super().__init__(failed.message)

    @property
    def kind(self) -> str:
        return self._kind


class Worker:
    """A running engine process. Not for several threads at once, but for one that sends and one
    that receives.

    `program` is the module that the process runs.
    """

    def __init__(self, program: str = PROGRAM) -> None:
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self._process, self.pipe = start_with_pipe(
            [sys.executable, "-m", program],
            self.log,
            os.environ | {"PYTHONPATH": _import_path()},
        )
        self._decode = decoder_of_replies()
        self._next_id = 0
        self._began = self.last_message = monotonic()
        """When the last message came, heartbeats included."""
        self.started = 0.0
        """When the first message came; 0 before."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self._process.poll() is None

    @property
    def starting(self) -> bool:
        """True until the first message, for at most STARTS seconds: until then the worker imports
        modules, maybe from a slow disk, and reads no request.
        """
        return not self.started and monotonic() - self._began < STARTS

    def new_id(self) -> int:
        """An id no request had yet."""
        self._next_id += 1
        return self._next_id

    def send(self, message: Request[Any] | Order) -> None:
        """Hand over a request or an order. Raises `WorkerDied`."""
        try:
            self.pipe.send_bytes(encode(message))
        except OSError as error:
            raise self._death() from error

    def receive(self, timeout: float | None = None) -> Reply | None:
        """The next message but heartbeats, or None when `timeout` seconds pass. Raises
        `WorkerDied`.
        """
        end = None if timeout is None else monotonic() + timeout
        try:
            while end is None or self.pipe.poll(max(0.0, end - monotonic())):
                message = self._decode(self.pipe.recv_bytes())
                self.last_message = monotonic()
                self.started = self.started or self.last_message
                if not isinstance(message, Heartbeat):
                    return message
            return None
        except (EOFError, OSError) as error:
            raise self._death() from error

    def run(
        self,
        request: Request[Any],
        stop: Callable[[], bool] = lambda: False,
        tick: float | None = None,
    ) -> Iterator[Reply | None]:
        """Send a request and give all its replies, the one that ends it last.

        With `tick`, None comes after so many seconds of silence. Once `stop` says so the request
        is cancelled, and still ends with a reply. Raises `RemoteError` for a request that fails,
        `WorkerDied`.
        """
        self.send(request)
        stopped = False
        while True:
            if not stopped and stop():
                stopped = True
                self.send(Cancel(request.id))
            reply = self.receive(tick)
            if reply is not None and reply.id != request.id:
                continue  # what is for everybody, such as its memory
            if isinstance(reply, Failed):
                raise RemoteError(reply)
            yield reply
            if isinstance(reply, request.ends):
                return

    def get(self, request: Request[R]) -> R:
        """Send a request and give the reply that ends it. Raises `RemoteError`, `WorkerDied`."""
        *_, last = self.run(request)
        assert isinstance(last, request.ends)
        return cast(R, last)

    def kill(self) -> None:
        """End the process by force and at once, from any thread; `close` is still to be called."""
        self._process.kill()

    def close(self) -> None:
        """End the process, by force where it does not listen. Harmless when done twice."""
        with contextlib.suppress(OSError):
            self.pipe.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.log.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _death(self) -> WorkerDied:
        try:
            code: int | None = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            code = None
        return WorkerDied(code, _reason(code, self._last_words()))

    def _last_words(self) -> str:
        try:
            self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - _TAIL))
            log = self.log.read().decode("utf-8", "replace")
            lines = log.rpartition(WENT_ON)[2].split("\n")
        except ValueError:  # closed
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _reason(code: int | None, last_words: str) -> str:
    if code is None:
        return "it closed its pipe but is still running"
    known = {
        "SIGKILL": "it was killed (signal 9), most often because memory ran out",
        "SIGBUS": "the model file shrank or became unreadable while in use (SIGBUS)",
        "SIGSEGV": "it crashed (SIGSEGV), most often inside a device driver",
        "SIGABRT": "it was aborted (SIGABRT), most often by a device driver",
    }
    name = next((one.name for one in signal.Signals if one == -code), "")
    text = known.get(name) or (f"signal {-code}" if code < 0 else f"exit code {code}")
    if name == "SIGKILL":
        return text  # it had no time for last words: what it wrote is of something else
    return f"{text}; last words: {last_words}" if last_words else text


def _import_path() -> str:
    """Where this package lies, so that the worker finds it however we were started."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(p for p in (root, inherited) if p)
