"""One engine for several programs of one person: who may use it, and what becomes of each."""

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from app.engine import Died, Engine, Event
from app.remote.engines import Engines
from app.serve.keeper import Keeper
from app.shared import guests, place
from app.shared.attached import NOT_SHARED, SharedEngine
from app.shared.host import EngineHost
from engine.errors import BadSetting, WorkerDied
from engine.protocol import (
    Bench,
    BenchTest,
    Cancel,
    ChatMessage,
    Failed,
    Finished,
    Generate,
    HeldMemory,
    Load,
    Loaded,
    Piece,
    Reply,
    Request,
    Sampling,
    Stats,
    Unload,
)
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.serve.running import HOST, Served, served
from tests.goldens.tiny import write_tiny

pytestmark = pytest.mark.only_linux("sockets at paths")

PATIENCE = 60
CHAT = {"messages": [{"role": "user", "content": "the hat"}], "temperature": 0, "max_tokens": 8}
ASKED = Generate(
    0, messages=[ChatMessage("user", "the hat")], sampling=Sampling(temperature=0), max_tokens=8
)


ENDLESS = Generate(0, prompt="the", endless=True)


class Program:
    """Somebody who uses an engine, and all that it hears."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._events: Queue[Event] = Queue()
        self.client = engine.join(self._events.put)

    def next(self, wanted: Callable[[Event], bool]) -> Any:
        while not wanted(event := self._events.get(timeout=PATIENCE)):
            pass
        return event

    def end_of(self, number: int) -> Any:
        return self.next(
            lambda e: isinstance(e, Reply) and e.id == number and isinstance(e, Failed | Finished)
        )

    def ask(self, request: Request[Any]) -> Any:
        """What ends it."""
        number, ends = self.client.send(request), request.ends
        return self.next(
            lambda e: isinstance(e, Reply) and e.id == number and isinstance(e, Failed | ends)
        )

    def open(self, path: Path) -> Any:
        return self.ask(Load(0, str(path), EngineOptions()))

    def text(self, **more: Any) -> str:
        """An answer."""
        number, said = self.client.send(ASKED), ""
        while not isinstance(event := self.next(lambda e: isinstance(e, Reply)), Finished):
            assert not isinstance(event, Failed), event
            said += event.text if isinstance(event, Piece) and event.id == number else ""
        return said


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket's has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="cw-") as made:
        yield Path(made)


@pytest.fixture
def program(folder: Path) -> Iterator[Callable[[], Program]]:
    made: list[SharedEngine] = []

    def start() -> Program:
        made.append(SharedEngine(folder))
        return Program(made[-1])

    yield start
    for engine in made:
        engine.close()


@pytest.fixture
def scripted(folder: Path, tiny_path: Path) -> Iterator[tuple[ScriptedEngine, EngineHost]]:
    """A host whose engine says what the test lets it say, with the tiny model open."""
    engine = ScriptedEngine()
    host = EngineHost(engine, "cutaway serve", folder)
    host.start()
    host.open(Loaded(1, str(tiny_path), "tiny", "llama", "host", "host", 256, 256, 320, "file"))
    yield engine, host
    host.close()


def test_a_server_and_two_programs_share_one_engine(
    tiny_path: Path, folder: Path, program: Callable[[], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own requests and cancels, until the owner ends."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")
    with served(tiny_path) as running:
        host = EngineHost(running.engine, "cutaway serve", folder)
        host.start()
        Keeper(running.engine, running.serving, {"tiny": tiny_path}, HOST, host).load(
            lambda progress: None, lambda: False
        )
        one, other = program(), program()
        alias = folder / "another name.gguf"
        alias.symlink_to(tiny_path)
        assert isinstance(one.open(tiny_path), Loaded)
        assert isinstance(other.open(alias), Loaded)
        assert other.next(lambda event: isinstance(event, HeldMemory)).rows
        assert one.engine.abilities.owner == f"cutaway serve (process {os.getpid()})"

        endless = one.client.send(ENDLESS)
        other.client.cancel(endless)  # a number of its own, or none
        one.next(lambda event: isinstance(event, Piece))
        one.next(lambda event: isinstance(event, Piece))
        one.client.cancel(endless)
        assert one.end_of(endless).reason == "cancelled"
        told = running.post("/v1/chat/completions", CHAT).json()["choices"][0]["message"]["content"]
        assert one.text() == other.text() == told

        number = one.client.send(ENDLESS)
        host.close()
        assert "has ended" in str(one.next(lambda event: isinstance(event, Died)).error)
        assert "has ended" in one.end_of(number).message
        wait_for_nobody(running)


def wait_for_nobody(running: Served) -> None:
    """What guests asked is not gone on with once they or their host are gone."""
    deadline = time.monotonic() + PATIENCE
    while running.engine.requests:
        assert time.monotonic() < deadline, running.engine.requests
        time.sleep(0.01)


def test_an_engine_that_dies_comes_back(
    scripted: tuple[ScriptedEngine, EngineHost], program: Callable[[], Program], tiny_path: Path
) -> None:
    engine, host = scripted
    guest = program()
    assert isinstance(loaded := guest.open(tiny_path), Loaded)
    number = guest.client.send(Generate(0))
    until(lambda: bool(engine.asked))
    engine.die(WorkerDied(-9, "it was killed (signal 9)"))
    error = str(guest.next(lambda event: isinstance(event, Died)).error)
    assert "it was killed (signal 9); the engine belongs to cutaway serve (process " in error
    assert guest.end_of(number).kind == "WorkerDied"
    engine.asked.clear()
    host.open(loaded)
    assert guest.next(lambda event: isinstance(event, Loaded)).id == 0
    guest.client.send(Generate(0))
    until(lambda: bool(engine.asked))


def test_only_a_file_that_is_open_there_is_shared(
    scripted: tuple[ScriptedEngine, EngineHost], program: Callable[[], Program], tiny_path: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    engine, host = scripted
    guest = program()
    other = write_tiny(tmp_path / "other.gguf", "llama")
    assert guest.open(other).kind == NOT_SHARED
    assert isinstance(guest.open(tiny_path), Loaded)
    for request in (Bench(0, BenchTest(1)), Generate(0)):
        guest.client.send(request)
    refused = guest.next(lambda event: isinstance(event, Failed))
    assert "belongs to cutaway serve" in refused.message
    until(lambda: bool(engine.asked))
    assert [type(one) for one in engine.asked] == [Generate]
    guest.ask(Unload(0))
    until(lambda: any(isinstance(one, Cancel) for one in engine.asked))
    assert guest.ask(Generate(0)).kind == "NotSupported"
    host.shut("another model is opened")
    assert guest.open(tiny_path).kind == NOT_SHARED


def test_engines_load_here_what_nobody_shares(
    scripted: tuple[ScriptedEngine, EngineHost], folder: Path, tiny_path: Path, tmp_path: Path
) -> None:
    owner, _ = scripted
    local = ScriptedEngine()
    engines = Engines(local, ScriptedEngine(), SharedEngine(folder))
    person = Program(engines)
    assert isinstance(person.open(tiny_path), Loaded)
    assert engines.abilities.owner.startswith("cutaway serve")
    assert not engines.is_local
    number = person.client.send(Generate(0))
    until(lambda: bool(owner.asked))
    owner.notify(Finished(owner.asked[-1].id, "stop", Stats(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0)))
    assert person.end_of(number).reason == "stop"
    other = write_tiny(tmp_path / "other.gguf", "llama")
    number = person.client.send(Load(0, str(other), EngineOptions()))
    until(lambda: any(isinstance(one, Load) for one in local.asked))
    local.load_done()
    assert person.next(lambda event: isinstance(event, Loaded)).id == number
    assert engines.is_local
    assert engines.abilities.owner == ""
    engines.close()


def test_a_folder_that_others_may_enter_is_not_used(folder: Path, tiny_path: Path) -> None:
    folder.chmod(0o750)
    with pytest.raises(BadSetting, match="only you can enter"):
        EngineHost(ScriptedEngine(), "x", folder).start()
    (folder / place.SOCKET).touch()
    guest = Program(SharedEngine(folder))
    assert "other users can access" in guest.open(tiny_path).message


def test_the_socket_is_this_users_alone(
    scripted: tuple[ScriptedEngine, EngineHost], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, host = scripted
    assert host.path.stat().st_mode & 0o077 == 0
    with pytest.raises(BadSetting, match="no other program"):
        EngineHost(ScriptedEngine(), "y", folder).start()
    monkeypatch.setattr(place, "is_same_user", lambda connection: False)
    with connected(host) as stranger:
        assert stranger.recv(1) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x00\x00\x04\xc1\xc1\xc1\xc1",  # no MessagePack
        b"\x00\x00\x00\x05\x80\x04]\x94.",  # a pickle
        b"\x7f\xff\xff\xff",  # a frame of 2 GiB
        b"\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff",  # of eight million TiB
    ],
)
def test_what_is_no_message_ends_that_connection_alone(
    scripted: tuple[ScriptedEngine, EngineHost], program: Callable[[], Program], tiny_path: Path,
    sent: bytes,
) -> None:  # fmt: skip
    engine, host = scripted
    guest = program()
    assert isinstance(guest.open(tiny_path), Loaded)
    with connected(host) as other:
        other.sendall(sent)
        while other.recv(1 << 16):
            pass
    guest.client.send(Generate(0))
    until(lambda: bool(engine.asked))


def test_a_program_that_does_not_read_is_left(
    scripted: tuple[ScriptedEngine, EngineHost], program: Callable[[], Program], tiny_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    engine, host = scripted
    monkeypatch.setattr(guests, "MOST_WAITING", 20)
    guest = program()
    assert isinstance(guest.open(tiny_path), Loaded)
    with connected(host) as deaf:
        deaf.sendall(frame(Generate(7, max_tokens=5)))
        until(lambda: bool(engine.asked))
        number = engine.asked[-1].id
        while engine.waits_for(number):
            engine.say(Piece(number, "x" * 100_000, []))
    until(lambda: engine.asked[-1] == Cancel(number))
    guest.client.send(Generate(0))
    until(lambda: isinstance(engine.asked[-1], Generate))


def frame(request: Request[Any]) -> bytes:
    from engine.protocol.wire import encode

    data = encode(request)
    return len(data).to_bytes(4, "big") + data


def connected(host: EngineHost) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(PATIENCE)
    made.connect(str(host.path))
    return made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
