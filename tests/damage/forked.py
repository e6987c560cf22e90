"""Workers that are forked, as starting a fresh interpreter is half of what opening a door takes."""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from math import inf
from multiprocessing.connection import Connection
from socket import socketpair
from typing import IO, Any

from engine.system import Pipe
from engine.worker import handle
from engine.worker.handle import PROGRAM
from engine.worker.serve import serve

LOOK = 0.002  # seconds between two looks whether it has ended


class ForkedWorker:
    """What the engine's handle uses of `subprocess.Popen`."""

    def __init__(self, pipe: int, log: IO[bytes], env: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(pipe, log, env)

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float = inf) -> int:
        """How it ended. Raises TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(PROGRAM, timeout)
            time.sleep(LOOK)
        return code

    def kill(self) -> None:
        """End it by force."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def fork_workers() -> None:
    """From now on in this process and its children."""
    start = handle.start_with_pipe

    def started(command: Sequence[str], log: IO[bytes], env: dict[str, str]) -> tuple[Any, Pipe]:
        if PROGRAM not in command:
            return start(command, log, env)
        ours, theirs = socketpair()
        with theirs:
            worker = ForkedWorker(theirs.fileno(), log, env)
        return worker, Connection(ours.detach())

    handle.start_with_pipe = started


def _become(pipe: int, log: IO[bytes], env: Mapping[str, str]) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        os.closerange(3, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os.environ |= env
        serve(Connection(pipe))
        status = 0
    except BaseException:  # noqa: BLE001  its last words
        traceback.print_exc()
    finally:
        os._exit(status)
