"""A scripted server, an engine that talks to it, and who asks that engine."""

import threading
from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from app.engine import Event
from app.remote.connection import Connection, OpenServer, ServerAddress
from app.remote.engine import RemoteEngine
from app.remote.keys import Keys
from engine.protocol import ChatMessage, Failed, Generate, Loaded, Piece, Reply, Request
from tests.app.remote.chat_server import ChatServer, chat_server

PATIENCE = 30  # seconds; only ends what hangs


class Ring:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, key: str) -> None:
        self.kept[service, name] = key

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class Asker:
    """A client that waits for the ends of what it asks."""

    def __init__(self, engine: RemoteEngine) -> None:
        self.engine = engine
        self.events: Queue[Event] = Queue()
        self.client = engine.join(self.events.put)
        self.told: list[Event] = []  # before the end that was waited for last

    def ask(self, request: Request[Any]) -> Reply:
        """The reply that ends a request."""
        return self.end_of(self.client.send(request), request)

    def end_of(self, number: int, request: Request[Any]) -> Reply:
        self.told = []
        while True:
            event = self.events.get(timeout=PATIENCE)
            if isinstance(event, Reply) and event.id == number:
                if isinstance(event, Failed | request.ends):
                    return event
                self.told.append(event)

    def open(self, server: ChatServer, model: str = "tiny", **fields: Any) -> Reply:
        """Have a model of a server open."""
        to = connection(server, **fields)
        path = str(ServerAddress(to.name, model).path)
        return self.ask(OpenServer(0, to, model, path))

    def chat(self, text: str = "Hello?", **fields: Any) -> Reply:
        """The end of an answer."""
        return self.ask(Generate(0, messages=[ChatMessage("user", text)], **fields))

    @property
    def text(self) -> str:
        """What the last answer said."""
        return "".join(event.text for event in self.told if isinstance(event, Piece))


def connection(server: ChatServer, **fields: Any) -> Connection:
    return Connection("work", server.url, **fields)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1")
    with chat_server() as running:
        yield running


@pytest.fixture
def ring() -> Ring:
    return Ring()


@pytest.fixture
def asker(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    """Who asks an engine whose waits between tries are short."""
    monkeypatch.setattr("app.remote.remote_answer.WAITS", (0.01, 0.02))
    monkeypatch.setattr("app.remote.link.PROBE_SECONDS", 5.0)
    engine = RemoteEngine(Keys(ring))
    yield Asker(engine)
    engine.close()
    names = [thread.name for thread in threading.enumerate()]
    assert "servers" not in names


@pytest.fixture
def opened(asker: Asker, server: ChatServer) -> Asker:
    """With a model open."""
    loaded = asker.open(server)
    assert isinstance(loaded, Loaded), loaded
    return asker
