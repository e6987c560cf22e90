"""A server of ours in a thread, over a real worker with a real file, and a client for it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from app.local_engine import LocalEngine
from app.serve.keeper import Keeper
from app.serve.server import Serving
from app.serve.settings import ServeSettings
from engine.settings import EngineOptions

HOST = EngineOptions(device="host", ctx=256, parallel=4)
PATIENCE = 120.0
# Reading the certificates of the web, for each request, would be most of what the tests take.
HTTP = httpx2.Client(
    timeout=PATIENCE, verify=False, limits=httpx2.Limits(max_keepalive_connections=0)
)


@dataclass
class Served:
    """A running server, with what belongs to it."""

    serving: Serving
    engine: LocalEngine
    keeper: Keeper

    @property
    def url(self) -> str:
        return self.serving.address

    @property
    def place(self) -> tuple[str, int]:
        """Where its socket listens."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return HTTP.get(self.url + path, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        return HTTP.post(self.url + path, json=body, **options)

    def stream(self, path: str, body: Any) -> str:
        """All bytes of a stream, as text."""
        answer = self.post(path, body | {"stream": True})
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
        return answer.text

    def raw(self, data: bytes, seconds: float = 60) -> bytes:
        """What comes for these bytes until the server closes the connection."""
        with socket.create_connection(self.place, timeout=seconds) as connection:
            connection.sendall(data)
            return rest_of(connection)


def rest_of(connection: socket.socket) -> bytes:
    """All that still comes."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def events(text: str) -> list[Any]:
    """The values of a stream's events; `[DONE]` as None."""
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    data = [frame.partition("data: ")[2] for frame in frames]
    return [None if one == "[DONE]" else msgspec.json.decode(one) for one in data]


@contextmanager
def served(path: Path, options: EngineOptions = HOST, **settings: Any) -> Iterator[Served]:
    """A server with a model open; it ends with the block."""
    engine = LocalEngine()
    serving = Serving(engine, ServeSettings(port=0, **{"slots": 4, "metrics": True} | settings))
    keeper = Keeper(engine, serving, {"tiny": path}, options)
    try:
        serving.start()
        keeper.load(lambda progress: None, lambda: False)
        yield Served(serving, engine, keeper)
    finally:
        serving.stop(0)
        keeper.close()
        engine.close()
