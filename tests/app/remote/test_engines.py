"""One engine of two: each request goes to who has the model, each reply to who asked."""

from queue import Queue
from typing import Any

import pytest

from app.engine import Abilities, Died, Engine, Event
from app.remote.connection import Connection, OpenServer, ProbeServer
from app.remote.engines import Engines
from engine.errors import WorkerDied
from engine.protocol import (
    Cancel,
    Failed,
    Finished,
    Generate,
    ListDevices,
    Load,
    Loaded,
    Piece,
    Predict,
    ReadFile,
    Reply,
    Stats,
    Unload,
    Unloaded,
)
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine

HOME = Connection("work", "http://localhost:1")
LOAD = Load(0, "a.gguf", EngineOptions())
OPEN = OpenServer(0, HOME, "m", "server:work/m")
LOADED = ("x", "x", "llama", "host", "", 1, 1, 1, "file")
STATS = Stats(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0)


class FarEngine(ScriptedEngine):
    """One that cannot be looked into."""

    @property
    def abilities(self) -> Abilities:
        return Abilities(memory=False, where="work")


class Heard:
    """A client's events."""

    def __init__(self, engine: Engine) -> None:
        self._queue: Queue[Event] = Queue()
        self.client = engine.join(self._queue.put)

    def all(self) -> list[Any]:
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


@pytest.fixture
def two() -> tuple[Engines, ScriptedEngine, ScriptedEngine]:
    local, far = ScriptedEngine(), FarEngine()
    return Engines(local, far), local, far


def test_questions_follow_the_model(two: tuple[Engines, ScriptedEngine, ScriptedEngine]) -> None:
    engines, local, far = two
    ask = Heard(engines).client.send
    ask(Generate(0))
    ask(LOAD)
    ask(Generate(0))
    assert [type(one) for one in local.asked] == [Generate, Load, Generate]
    assert (far.asked, engines.is_local, engines.abilities.memory) == ([], True, True)
    ask(OPEN)
    ask(Generate(0))
    assert [type(one) for one in local.asked[3:]] == [Unload]  # two models would be held else
    assert [type(one) for one in far.asked] == [OpenServer, Generate]
    assert (engines.is_local, engines.abilities.where) == (False, "work")
    ask(LOAD)
    assert [type(one) for one in far.asked[2:]] == [Unload]
    assert engines.is_local


def test_files_and_devices_are_of_this_machine(
    two: tuple[Engines, ScriptedEngine, ScriptedEngine],
) -> None:
    engines, local, far = two
    heard = Heard(engines)
    heard.client.send(OPEN)
    heard.client.send(ListDevices(0))
    heard.client.send(Predict(0, "a.gguf", EngineOptions()))
    heard.client.send(ReadFile(0, "nothing.gguf"))  # answered while it is asked
    heard.client.send(ProbeServer(0, HOME))
    assert [type(one) for one in local.asked] == [Unload, ListDevices, Predict]
    assert [type(one) for one in far.asked] == [OpenServer, ProbeServer]
    assert [type(one) for one in heard.all()] == [Failed]


def test_replies_keep_the_numbers_of_who_asked(
    two: tuple[Engines, ScriptedEngine, ScriptedEngine],
) -> None:
    engines, local, far = two
    one, other = Heard(engines), Heard(engines)
    one.client.send(LOAD)
    local.notify(Loaded(local.asked[-1].id, *LOADED))
    first = one.client.send(Generate(0))
    one.client.send(OPEN)
    far.notify(Loaded(far.asked[-1].id, *LOADED))
    second = other.client.send(Generate(0))
    local.notify(Finished(local.asked[1].id, "stop", STATS))
    local.notify(Unloaded(local.asked[2].id))  # nobody asked for that
    far.notify(Piece(far.asked[1].id, "a", []))
    far.notify(Finished(far.asked[1].id, "stop", STATS))
    assert [event.id for event in one.all() if isinstance(event, Finished)] == [first]
    assert [event.id for event in other.all()] == [second, second]


def test_a_cancel_reaches_the_right_one(
    two: tuple[Engines, ScriptedEngine, ScriptedEngine],
) -> None:
    engines, local, far = two
    heard = Heard(engines)
    heard.client.send(OPEN)
    number = heard.client.send(Generate(0))
    heard.client.cancel(number)
    assert far.asked[-1] == Cancel(far.asked[-2].id)
    assert local.asked == [Unload(1)]


def test_a_worker_that_dies_beside_a_server_ends_only_its_own(
    two: tuple[Engines, ScriptedEngine, ScriptedEngine],
) -> None:
    engines, local, far = two
    heard = Heard(engines)
    heard.client.send(OPEN)
    plan = heard.client.send(Predict(0, "a.gguf", EngineOptions()))
    local.die(WorkerDied(1, "it was killed"))
    events = heard.all()
    assert [event.id for event in events if isinstance(event, Reply)] == [plan]
    assert not any(isinstance(event, Died) for event in events)
