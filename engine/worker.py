"""The engine's process (receive, step, send), and the handle that starts it and talks to it.

The worker is a fresh interpreter, never a fork. It ends when the handle's end of the pipe closes,
so that nothing is left behind, and its death is told apart by exit code and signal.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import IO

import msgspec

from engine import protocol
from engine.errors import CutawayError, WorkerDied

FINAL = (
    protocol.Loaded,
    protocol.Unloaded,
    protocol.Finished,
    protocol.PerplexityDone,
    protocol.BenchDone,
    protocol.ProfileDone,
    protocol.Devices,
    protocol.Memory,
    protocol.Planned,
    protocol.Failed,
)
_GRACE = 2.0
_TAIL = 2000


class RemoteError(CutawayError):
    """An error of the worker, under the name it had there."""

    def __init__(self, failed: protocol.Failed) -> None:
        self._kind = failed.kind
        super().__init__(failed.message)

    @property
    def kind(self) -> str:
        return self._kind


class Worker:
    """A running engine process. Not for several threads at once, but for one that sends and one
    that receives.
    """

    def __init__(self) -> None:
        ours, theirs = socketpair()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=os.environ | {"PYTHONPATH": _import_path()},
                process_group=0,  # Ctrl+C is the terminal's word to the app, not to us
            )
        self._pipe = Connection(ours.detach())
        self._decode = msgspec.msgpack.Decoder(protocol.Reply).decode
        self._next_id = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def new_id(self) -> int:
        """An id no request had yet."""
        self._next_id += 1
        return self._next_id

    def send(self, request: protocol.Request) -> None:
        """Hand over a request. Raises `WorkerDied`."""
        try:
            self._pipe.send_bytes(msgspec.msgpack.encode(request))
        except OSError as error:
            raise self._death() from error

    def receive(self, timeout: float | None = None) -> protocol.Reply | None:
        """The next message, or None when `timeout` seconds pass. Raises `WorkerDied`."""
        try:
            if timeout is not None and not self._pipe.poll(timeout):
                return None
            reply: protocol.Reply = self._decode(self._pipe.recv_bytes())
            return reply
        except (EOFError, OSError) as error:
            raise self._death() from error

    def ask(self, request: protocol.Request) -> Iterator[protocol.Reply]:
        """Send a request and give all its messages, the final one last.

        Raises `RemoteError` for a failed request, `WorkerDied`. On KeyboardInterrupt inside the
        loop the caller may `send(Cancel(request.id))` and go on.
        """
        self.send(request)
        while True:
            reply = self.receive()
            if reply is None or reply.id != request.id:
                continue
            if isinstance(reply, protocol.Failed):
                raise RemoteError(reply)
            yield reply
            if isinstance(reply, FINAL):
                return

    def close(self) -> None:
        """End the process, by force where it does not listen. Harmless when done twice."""
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _death(self) -> WorkerDied:
        try:
            code: int | None = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            code = None
        return WorkerDied(code, _reason(code, self._last_words()))

    def _last_words(self) -> str:
        try:
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _TAIL))
            lines = self._log.read().decode("utf-8", "replace").split("\n")
        except ValueError:  # closed
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _reason(code: int | None, last_words: str) -> str:
    if code is None:
        return "it closed its pipe but still runs"
    known = {
        -signal.SIGKILL: "it was killed (signal 9), most often because memory ran out",
        -signal.SIGBUS: "the model file shrank or became unreadable while in use (SIGBUS)",
        -signal.SIGSEGV: "it crashed (SIGSEGV), most often inside a device driver",
        -signal.SIGABRT: "a device driver gave up (SIGABRT)",
    }
    text = known.get(code) or (f"signal {-code}" if code < 0 else f"exit code {code}")
    return f"{text}; last words: {last_words}" if last_words else text


def _import_path() -> str:
    """Where this package lies, so that the worker finds it however we were started."""
    root = str(Path(__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(p for p in (root, inherited) if p)


if __name__ == "__main__":
    from engine.runner.serve import serve

    serve(Connection(int(sys.argv[1])))
