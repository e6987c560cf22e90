"""An engine that several clients share: who hears what, what a cancel and a leave stop, hanging."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from app.engine import Client, Died, Engine, Event, Restarted
from app.local_engine import LocalEngine
from app.local_files import LocalFiles
from engine.errors import WorkerDied
from engine.protocol import (
    Cancel,
    Devices,
    Failed,
    Finished,
    Generate,
    HeldMemory,
    ListDevices,
    Live,
    Load,
    Loaded,
    MemoryEvents,
    Piece,
    ProbedTokens,
    PutPicture,
    Reply,
    Request,
    Sampling,
    Unload,
    file,
)
from engine.protocol.wire import kinds
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.app.helpers.scripted import ScriptedEngine

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = EngineOptions(device="host", ctx=64)
ENDLESS = Sampling(temperature=0, frequency_penalty=-100)
FOREVER = Generate(0, prompt="zz", sampling=ENDLESS)


class Person:
    """A client with all that it heard; `until` waits."""

    def __init__(self, engine: Engine) -> None:
        self._queue: Queue[Event] = Queue()
        self.heard: list[Event] = []
        self.client: Client = engine.join(self._queue.put)

    def until(self, enough: Callable[[Event], bool]) -> Event:
        while not enough(event := self._queue.get(timeout=60)):
            self.heard.append(event)
        self.heard.append(event)
        return event

    def ends(self, number: int) -> Any:
        return self.until(lambda e: isinstance(e, Failed | Loaded | Finished) and e.id == number)

    def all(self) -> list[Event]:
        while not self._queue.empty():
            self.heard.append(self._queue.get())
        return self.heard

    def ids(self) -> set[int]:
        return {event.id for event in self.all() if isinstance(event, Reply)}


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    engine = LocalEngine()
    yield engine
    engine.close()


@pytest.mark.smoke
def test_each_hears_its_own_and_all_hear_of_memory(engine: LocalEngine, tiny_path: Path) -> None:
    window, server = Person(engine), Person(engine)
    loading = window.client.send(Load(0, str(tiny_path), HOST))
    assert isinstance(window.ends(loading), Loaded)
    ids = [
        person.client.send(Generate(0, prompt="a", sampling=ENDLESS, max_tokens=3))
        for person in (server, window, server)
    ]
    assert len({loading, *ids}) == 4
    assert window.ends(ids[1]).reason == "length"
    assert server.ends(ids[2]).reason == "length"
    assert window.ids() == {0, loading, ids[1]}
    assert server.ids() == {0, ids[0], ids[2]}
    for person in (window, server):
        kinds = {type(event) for event in person.heard}
        assert {HeldMemory, MemoryEvents, Piece, Finished} <= kinds


def test_a_cancel_and_a_leave_stop_nothing_of_others(engine: LocalEngine, tiny_path: Path) -> None:
    window, server = Person(engine), Person(engine)
    loading = window.client.send(Load(0, str(tiny_path), HOST))
    window.ends(loading)
    endless = server.client.send(FOREVER)
    server.until(lambda event: isinstance(event, Piece))
    waits = window.client.send(Generate(0, prompt="b", sampling=ENDLESS, max_tokens=2))
    window.client.cancel(endless)  # not the window's
    server.until(lambda event: isinstance(event, Piece))
    queued = server.client.send(FOREVER)
    server.client.leave()
    assert window.ends(waits).reason == "length"  # so both of the server's have ended
    assert not {endless, queued} & window.ids()
    last = window.client.send(Generate(0, prompt="c", sampling=ENDLESS, max_tokens=2))
    assert window.ends(last).reason == "length"


def test_an_answer_under_way_is_looked_into_by_who_asked_for_it(
    engine: LocalEngine, tiny_path: Path
) -> None:
    window, server = Person(engine), Person(engine)
    window.ends(window.client.send(Load(0, str(tiny_path), HOST)))
    asked = window.client.send(FOREVER)
    window.until(lambda e: isinstance(e, Piece))
    server.client.look(asked, Live(["no such thing"]))  # is not the server's to look into
    window.client.look(asked, Live(["l_out-0"]))
    told = window.until(lambda e: isinstance(e, ProbedTokens))
    assert isinstance(told, ProbedTokens)
    assert [row.name for row in told.rows] == ["l_out-0"]
    window.client.cancel(asked)
    window.ends(asked)


def test_what_waits_is_not_begun_once_cancelled(engine: LocalEngine, tiny_path: Path) -> None:
    person = Person(engine)
    person.ends(person.client.send(Load(0, str(tiny_path), HOST)))
    endless = person.client.send(FOREVER)
    person.until(lambda event: isinstance(event, Piece))
    unload = person.client.send(Unload(0))
    person.client.cancel(unload)
    person.client.cancel(endless)
    assert person.ends(unload).kind == "Cancelled"
    assert (
        person.ends(
            person.client.send(Generate(0, prompt="a", sampling=ENDLESS, max_tokens=1))
        ).reason
        == "length"
    )


def test_a_load_that_ignores_cancel_gets_a_new_worker(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to wait for it: neither who asked for it nor what was asked after it."""
    monkeypatch.setattr("app.local_engine.PATIENCE", 0.3)
    engine = LocalEngine(lambda: Worker("tests.app.helpers.hanging"))
    person, other = Person(engine), Person(engine)
    hanging = person.client.send(Load(0, str(tmp_path / "hangs.gguf"), HOST))
    while not (tmp_path / "hangs.gguf.begun").exists():  # else it is cancelled while it waits
        time.sleep(0.01)
    pid = engine.pid
    person.client.cancel(hanging)
    good = person.client.send(Load(0, str(tiny_path), HOST))
    answer = other.client.send(Generate(0, prompt="a", sampling=ENDLESS, max_tokens=2))
    failed = person.ends(hanging)
    assert (failed.kind, failed.message) == ("Cancelled", "loading was cancelled")
    assert isinstance(person.ends(good), Loaded)
    assert other.ends(answer).reason == "length"
    assert engine.pid != pid
    for each in (person, other):
        assert sum(isinstance(event, Restarted) for event in each.all()) == 1
        assert not any(isinstance(event, Died) for event in each.heard)
    engine.close()


def test_a_load_that_waits_its_turn_does_not_hang(
    engine: LocalEngine, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is not killed under another client's answer."""
    monkeypatch.setattr("app.local_engine.PATIENCE", 0.0)
    window, server = Person(engine), Person(engine)
    first = window.client.send(Load(0, str(tiny_path), HOST))
    pid = engine.pid
    assert isinstance(window.ends(first), Loaded)  # nor a load that nobody cancelled
    endless = server.client.send(FOREVER)
    server.until(lambda event: isinstance(event, Piece))
    loading = window.client.send(Load(0, str(tiny_path), HOST))
    window.client.cancel(loading)
    for _ in range(200):
        server.until(lambda event: isinstance(event, Piece))
    server.client.cancel(endless)
    assert server.ends(endless).reason == "cancelled"
    assert window.ends(loading).kind == "Cancelled"
    assert engine.pid == pid


def test_a_death_ends_every_request(engine: LocalEngine, tiny_path: Path) -> None:
    window, server = Person(engine), Person(engine)
    window.ends(window.client.send(Load(0, str(tiny_path), HOST)))
    answered = window.client.send(FOREVER)
    window.until(lambda event: isinstance(event, Piece))
    listed = server.client.send(ListDevices(0))  # between two steps of the answer
    server.until(lambda event: isinstance(event, Devices))
    ids = [answered, server.client.send(Load(0, str(tiny_path), HOST))]  # it waits for the answer
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    for person, number in zip((window, server), ids, strict=True):
        died = person.until(lambda event: isinstance(event, Died))
        assert isinstance(died, Died)
        assert isinstance(died.error, WorkerDied)
        assert person.ends(number).kind == "WorkerDied"
    assert not any(isinstance(e, Failed) and e.id == listed for e in server.all())  # it had ended
    assert engine.pid is None
    assert isinstance(window.ends(window.client.send(Load(0, str(tiny_path), HOST))), Loaded)


def test_any_engine_routes_alike() -> None:
    """What the interface promises holds for every implementation, a scripted one included."""
    engine = ScriptedEngine()
    window, server = Person(engine), Person(engine)
    first, second = window.client.send(FOREVER), server.client.send(FOREVER)
    engine.say(Piece(first, "a", []), Piece(second, "b", []), HeldMemory(0, [], [], 1))
    server.client.cancel(first)
    window.client.cancel(first)
    window.client.leave()
    engine.say(Piece(first, "c", []), Failed(second, "NoMem", "no room"), Piece(second, "d", []))
    assert [r for r in engine.asked if isinstance(r, Cancel)] == [Cancel(first), Cancel(first)]
    assert window.all() == [Piece(first, "a", []), HeldMemory(0, [], [], 1)]
    assert server.all() == [
        Piece(second, "b", []),
        HeldMemory(0, [], [], 1),
        Failed(second, "NoMem", "no room"),
    ]


def test_all_that_is_asked_about_files_is_answered() -> None:
    requests = {kind for kind in kinds(Request) if kind.__module__ == file.__name__}
    assert LocalFiles().answers == requests


def test_nobody_waits_for_a_worker_that_does_not_read(engine: LocalEngine) -> None:
    """A picture is more than a pipe holds."""
    window = Person(engine)
    window.client.send(ListDevices(0))
    window.until(lambda e: isinstance(e, Devices))
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGSTOP)
    put = PutPicture(0, bytes(4 << 20))
    asking = threading.Thread(target=window.client.send, args=(put,), daemon=True)
    asking.start()
    asking.join(30)
    assert not asking.is_alive()
