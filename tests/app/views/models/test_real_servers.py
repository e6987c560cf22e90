"""The window before real servers in other processes: `cutaway serve`, and llama.cpp's.

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
import pytest
from pytestqt.qtbot import QtBot

from app.remote.connection import Connection
from app.remote.engine import RemoteEngine
from app.remote.engines import Engines
from app.remote.keys import Keys
from app.state.limits import AnswerLimits
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.remote.conftest import Ring
from tests.program import ROOT, RUN

KEY = "sk-secret-123"
LONG = "Count from one to a hundred, each number as a word."


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
                if httpx2.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{self._command} does not answer")

    def end(self) -> None:
        if self._program is not None:
            self._program.terminate()
            self._program.wait(60)
            self._program = None


def ours(model: Path) -> Callable[[int], list[str]]:
    """`cutaway serve` of a random model."""
    words = ("serve", str(model), "--device", "host", "--ctx", "2048", "--api-key", KEY)
    return lambda port: [*RUN, *words, "--port", str(port)]


def llama(model: Path) -> Callable[[int], list[str]]:
    """llama-server; skips where there is none."""
    program = os.environ.get("CUTAWAY_LLAMA_SERVER") or shutil.which("llama-server")
    if program is None:
        pytest.skip("no llama-server: CUTAWAY_LLAMA_SERVER names one")
    words = ("-m", str(model), "-c", "2048", "-np", "1", "--api-key", KEY, "--no-webui")
    return lambda port: [program, *words, "--port", str(port)]


@pytest.fixture
def loopback(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be connected to."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")


@contextmanager
def running(command: Callable[[int], list[str]]) -> Iterator[RunningServer]:
    server = RunningServer(command)
    try:
        server.start()
        yield server
    finally:
        server.end()


@pytest.fixture
def window(theme: Theme, own_home: Path, qtbot: QtBot) -> Iterator[MainWindow]:
    """With servers for real, and no model on this machine."""
    keys = Keys(Ring())
    engine = Engines(ScriptedEngine(), RemoteEngine(keys))
    bench = Workbench(engine, keys=keys)
    window = MainWindow(bench, theme)
    window.show()
    window.start()
    yield window
    window.close()
    bench.close()
    engine.close()


@pytest.mark.usefixtures("loopback")
def test_cutaway_serve(tiny_path: Path, window: MainWindow, qtbot: QtBot) -> None:
    with running(ours(tiny_path)) as server:
        talk_with(server, window, qtbot)


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.usefixtures("loopback")
def test_llama_server(smollm2_path: Path, window: MainWindow, qtbot: QtBot) -> None:
    with running(llama(smollm2_path)) as server:
        talk_with(server, window, qtbot)


def talk_with(server: RunningServer, window: MainWindow, qtbot: QtBot) -> None:
    """Its key, models, answers, probabilities, stop, going on, errors; gone and back."""
    bench, chat = window.bench, window.bench.chat
    lines = window.sheets.chooser.servers.lines

    def answered() -> str:
        qtbot.waitUntil(lambda: not chat.busy)
        return chat.path[-1].text

    window.sheets.show_chooser()
    bench.servers.save(Connection("work", server.url), "wrong")
    qtbot.waitUntil(lambda: bool(bench.servers.all[0].problem))
    assert "key is wrong" in lines["work"].says.text()
    bench.servers.save(Connection("work", server.url), KEY)
    qtbot.waitUntil(lambda: bool(bench.servers.all[0].models))
    lines["work"].chat.click()
    qtbot.waitUntil(lambda: bench.session.status == "ready")
    assert window.top.model.text().endswith("on work  ▾")
    model = bench.session.model
    assert model is not None
    assert model.n_ctx in (256, 2048)  # what the random model was made for, and what was asked for
    assert model.vision is None

    sampling = bench.chat.details.sampling
    bench.chat.details.set_sampling(type(sampling)(temperature=0.0, seed=1))
    bench.chat.details.set_limits(AnswerLimits(max_tokens=16))
    assert chat.send("Hello?")
    assert answered()
    answer, tokens = chat.path[-1], chat.tokens(1)
    assert answer.problem == ""
    assert answer.finish in ("stop", "length")
    assert answer.stats is not None
    assert answer.stats.n_prompt > 0
    assert len(tokens) == answer.stats.n_generated or answer.finish == "stop"
    first = tokens[0]
    assert first.logprob is not None
    assert len(first.top) == 10
    assert any(note.startswith("Network and queue took") for note in answer.stats.notes)
    assert chat.regenerate(1)
    assert answered() == answer.text  # greedy
    assert [other.text for other in chat.tokens(1)[0].top] == [other.text for other in first.top]

    bench.chat.details.set_limits(AnswerLimits())
    chat.open(None)
    assert chat.send(LONG)
    qtbot.waitUntil(lambda: chat.path[-1].n_tokens > 2 or not chat.busy)
    chat.stop()
    began = answered()
    assert began
    assert chat.path[-1].problem == ""
    if chat.path[-1].finish == "cancelled":
        assert chat.continue_answer(1)
        qtbot.waitUntil(lambda: len(chat.path[-1].text) > len(began) or not chat.busy)
        chat.stop()
        assert answered().startswith(began)
        assert chat.path[-1].text.count(began) == 1

    chat.open(None)
    assert chat.send("word " * 3000)
    answered()
    assert "too long" in chat.path[-1].problem

    server.end()
    chat.open(None)
    assert chat.send("Hello?")
    answered()
    assert "nothing answers at 127.0.0.1:" in chat.path[-1].problem
    assert bench.session.status == "ready"
    server.start()
    assert chat.regenerate(1)
    assert answered() != ""
    assert chat.path[-1].problem == ""
