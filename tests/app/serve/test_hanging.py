"""A worker that hangs under a server: its clients get an error, and the next request an answer."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app import local_engine
from app.engine import Died
from app.shared.attached import SharedEngine
from app.shared.host import EngineHost
from engine.protocol import Loaded
from tests.app.serve.running import Served, served
from tests.app.serve.test_gate import BODY, CHAT, Asking
from tests.app.shared.test_shared import ENDLESS, Program, folder

__all__ = ["folder"]

STREAM = {"stream": True, "ignore_eos": True, "temperature": 0, "max_tokens": 100_000}


@contextmanager
def kept(served: Served) -> Iterator[None]:
    """The model is opened again where its engine is lost."""
    ends = threading.Event()
    keeping = threading.Thread(target=served.keeper.keep, args=(lambda text: None, ends.is_set))
    keeping.start()
    try:
        yield
    finally:
        ends.set()
        keeping.join()


def hang(served: Served) -> int:
    pid = served.engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def streams(served: Served, count: int) -> list[Asking]:
    """So many answers, all of which have begun."""
    asking = [Asking(served.url, **STREAM) for _ in range(count)]
    until(lambda: len(served.serving.clients.now) == count)
    until(lambda: len(served.engine.sent) >= count)  # the worker has them
    return asking


def until(is_so: object) -> None:
    deadline = time.monotonic() + 60
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def answers_again(served: Served, pid: int) -> None:
    until(lambda: served.get("/health").status_code == 200 and served.engine.pid != pid)
    answer = served.post(CHAT, BODY | {"max_tokens": 2})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "leaves",
    [pytest.param(True, id="one leaves"), pytest.param(False, id="nobody", marks=pytest.mark.full)],
)
def test_clients_get_an_error(
    tiny_path: Path, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon where one of them leaves, which stops its answer; else after the engine's silence."""
    if not leaves:
        monkeypatch.setattr(local_engine, "SILENT", 1.5)
    with served(tiny_path) as running, kept(running):
        leaving, staying = streams(running, 2)
        pid = hang(running)
        if leaves:
            leaving.leave.set()
        told = [staying.told()] if leaves else [leaving.told(), staying.told()]
        for one in told:
            assert '"error"' in one.text
            assert "[DONE]" not in one.text
        answers_again(running, pid)


@pytest.mark.only_linux("sockets at paths")
def test_a_window_beside_the_server_gets_an_error(tiny_path: Path, folder: Path) -> None:
    """Stop in the second window replaces the engine for all; its next question is answered."""
    with served(tiny_path) as running:
        host = EngineHost(running.engine, "cutaway serve", folder)
        host.start()
        running.keeper.host = host
        running.keeper.load(lambda progress: None, lambda: False)
        with kept(running):
            engine = SharedEngine(folder)
            window = Program(engine)
            assert isinstance(window.open(tiny_path), Loaded)
            (client,) = streams(running, 1)
            number = window.client.send(ENDLESS)
            window.next(lambda e: getattr(e, "id", None) == number)
            pid = hang(running)
            window.client.cancel(number)
            ended = window.end_of(number)
            assert getattr(ended, "kind", "Cancelled") in ("Cancelled", "WorkerDied")
            assert '"error"' in client.told().text
            window.next(lambda e: isinstance(e, Loaded))
            assert window.text()
            answers_again(running, pid)
            engine.close()
        host.close()


@pytest.mark.full
def test_a_client_of_the_window_that_serves(tiny_path: Path) -> None:
    """The person's Stop in the window that serves: the client gets an error, not silence."""
    with served(tiny_path) as running, kept(running):
        person = Program(running.engine)
        number = person.client.send(ENDLESS)
        (client,) = streams(running, 1)
        pid = hang(running)
        person.client.cancel(number)
        assert person.end_of(number).kind == "Cancelled"
        assert '"error"' in client.told().text
        assert isinstance(person.next(lambda e: isinstance(e, Died)), Died)
        answers_again(running, pid)
