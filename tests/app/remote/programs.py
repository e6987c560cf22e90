"""Programs that serve a model to others, each in a process of its own: ours, and llama.cpp's.

llama-server is the program that CUTAWAY_LLAMA_SERVER names, else the one on the PATH.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.program import ROOT, RUN

KEY = "sk-secret-123"


class RunningServer:
    """A program that serves a model at one port, and can be ended and started again."""

    def __init__(self, command: Callable[[int], list[str]]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._command = command(self._port)
        self.url = f"http://127.0.0.1:{self._port}"
        self._program: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it answers."""
        self._program = subprocess.Popen(
            self._command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self._program.poll() is None, self._command
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}/health", timeout=5, verify=False).status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{self._command} does not answer")

    def kill_engine(self) -> None:
        """End by force what it has started: the process that has the model."""
        assert self._program is not None
        for child in psutil.Process(self._program.pid).children():
            child.kill()

    def end(self) -> None:
        if self._program is not None:
            self._program.terminate()
            self._program.wait(60)
            self._program = None


def ours(model: Path, *more: str) -> Callable[[int], list[str]]:
    """`cutaway serve` of a model, on the host."""
    words = ("serve", str(model), "--device", "host", "--ctx", "2048", "--api-key", KEY, *more)
    return lambda port: [*RUN, *words, "--port", str(port)]


def llama(model: Path, *more: str) -> Callable[[int], list[str]]:
    """llama-server of a model; skips where there is none."""
    program = os.environ.get("CUTAWAY_LLAMA_SERVER") or shutil.which("llama-server")
    if program is None:
        pytest.skip("no llama-server: CUTAWAY_LLAMA_SERVER names one")
    words = ("-m", str(model), "-c", "2048", "-np", "1", "--api-key", KEY, "--no-webui", *more)
    return lambda port: [program, *words, "--port", str(port)]


@contextmanager
def running(command: Callable[[int], list[str]]) -> Iterator[RunningServer]:
    server = RunningServer(command)
    try:
        server.start()
        yield server
    finally:
        server.end()
