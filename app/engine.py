"""The seam to an engine: typed requests in, typed events out, for several clients at once.

What is behind it, a process on this machine or a remote server, is known to the implementation
alone (`app.local_engine`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.errors import CutawayError, NotSupported
from engine.gguf.tensors import TensorInfo
from engine.protocol import Failed, Live, Look, Reply, Request, ReviseEdits


@dataclass(frozen=True)
class Abilities:
    """The requests that an engine supports; the rest is left out or shown as missing.

    `load` opens and closes models; `logprobs` come with tokens; `memory` and `splits` are sent as
    they change; `tokenize` counts a text's tokens; `file` reads a model's metadata and tensors;
    `examine` shows how a word came to be; answers go on by tokens' `ids`. `where` names the server
    that the engine is, empty on this machine; `owner` the program here whose engine it is.
    """

    load: bool = True
    logprobs: bool = True
    memory: bool = True
    splits: bool = True
    tokenize: bool = True
    file: bool = True
    examine: bool = True
    ids: bool = True
    where: str = ""
    owner: str = ""


class WeightReader(Protocol):
    """The numbers of a model's file; may be read from any thread. Raises `BadFile`."""

    tensors: Mapping[str, TensorInfo]

    def numbers(self, name: str, rows: range, columns: range) -> NDArray[np.float32]:
        """float32 [len(rows), len(columns)] of a tensor as rows of its dimension 0."""

    def blocks(self, name: str, rows: range) -> NDArray[np.uint8]:
        """The stored bytes [len(rows), bytes of a row], little-endian."""

    def close(self) -> None:
        """Let go of the file; harmless when done twice."""


@dataclass(frozen=True)
class Died:
    """The engine ended by itself; nothing is open any more."""

    error: CutawayError


@dataclass(frozen=True)
class Restarted:
    """A fresh engine runs, with nothing open."""


@dataclass(frozen=True)
class Silent:
    """The engine has not given a sign of life for so many seconds; 0: it responds again."""

    seconds: float


Event = Reply | Died | Restarted | Silent


class Client:
    """One of those who share an engine: with requests of its own, and nobody else's replies."""

    def __init__(self, engine: "Engine", on_event: Callable[[Event], None]) -> None:
        self.engine, self.on_event = engine, on_event

    def send(self, request: Request[Any], on_reply: Callable[[Reply], None] | None = None) -> int:
        """Send a request; `request.id` is replaced by the one returned. It ends with exactly one
        reply of `request.ends` or `Failed`, also where the engine dies. Its replies are passed to
        `on_reply`, or to the client's `on_event` where that is None.
        """
        return self.engine.take(self, request, on_reply or self.on_event)

    def cancel(self, request_id: int) -> None:
        """Stop a request of this client; it still ends. Nothing where it has ended."""
        self.engine.cancel(self, request_id)

    def look(self, request_id: int, live: Live) -> None:
        """Have a running `Generate` of this client report something else of its inside; nothing
        where it has ended.
        """
        self.engine.look(self, request_id, live)

    def revise(self, revision: ReviseEdits) -> None:
        """Have a running `Generate` of this client go on with other values of its edits; nothing
        where it has ended.
        """
        self.engine.revise(self, revision)

    def leave(self) -> None:
        """Receive nothing more; open requests of this client are cancelled."""
        self.engine.part(self)


@dataclass(eq=False)
class OpenRequest:
    """A request that has not ended, its client, and what its replies are passed to. `forwarded` is
    the client and the number under which another engine has it.
    """

    client: Client
    request: Request[Any]
    on_reply: Callable[[Reply], None]
    forwarded: tuple[Client, int] | None = None


class Engine(ABC):
    """Numbers the requests and passes each reply to its client; replies of id 0 go to everybody.

    Clients may call from any thread. Events come from any thread, in order, under a lock: so
    `on_event` only hands them over.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._ids = count(1)
        self._clients: list[Client] = []
        self.requests: dict[int, OpenRequest] = {}

    @property
    @abstractmethod
    def abilities(self) -> Abilities:
        """The current abilities."""

    @abstractmethod
    def send(self, request: Request[Any]) -> None:
        """Begin a request; what comes of it is passed to `notify`. Called under the lock."""

    @abstractmethod
    def stop(self, request: Request[Any]) -> None:
        """Cancel a request that has not ended. Called under the lock."""

    @abstractmethod
    def order(self, order: Look | ReviseEdits) -> None:
        """Change a request that has not ended. Called under the lock."""

    @abstractmethod
    def restart(self) -> None:
        """Begin anew, whatever it did; `Restarted` is sent, and open requests fail."""

    @abstractmethod
    def close(self) -> None:
        """End everything; no event comes any more. Harmless when done twice."""

    def weights(self, path: str) -> WeightReader:
        """A model's numbers, where `abilities.file` says so; from any thread, and may take a while.
        Raises `BadFile`.
        """
        raise NotSupported(f"reading {path}")

    def join(self, on_event: Callable[[Event], None]) -> Client:
        """A new client."""
        client = Client(self, on_event)
        with self.lock:
            self._clients.append(client)
        return client

    def take(self, client: Client, request: Request[Any], on_reply: Callable[[Reply], None]) -> int:
        """Send a request, as for `client.send`."""
        with self.lock:
            number = next(self._ids)
            request = msgspec.structs.replace(request, id=number)
            self.requests[number] = OpenRequest(client, request, on_reply)
            self.send(request)
        return number

    def cancel(self, client: Client, request_id: int) -> None:
        """Cancel a request, as for `client.cancel`."""
        with self.lock:
            found = self.requests.get(request_id)
            if found is not None and found.client is client:
                self.stop(found.request)

    def look(self, client: Client, request_id: int, live: Live) -> None:
        """Change the live data of a request, as for `client.look`."""
        with self.lock:
            found = self.requests.get(request_id)
            if found is not None and found.client is client:
                self.order(Look(request_id, live))

    def revise(self, client: Client, revision: ReviseEdits) -> None:
        """Change the edits of a request, as for `client.revise`."""
        with self.lock:
            found = self.requests.get(revision.id)
            if found is not None and found.client is client:
                self.order(revision)

    def part(self, client: Client) -> None:
        """Remove a client, as for `client.leave`."""
        with self.lock:
            if client in self._clients:
                self._clients.remove(client)
            for number, pending in list(self.requests.items()):
                if pending.client is client:
                    pending.on_reply = _ignore
                    self.stop(pending.request)
                    self.requests.pop(number, None)

    def notify(self, event: Event) -> None:
        """Pass an event to the clients that it concerns; from any thread."""
        with self.lock:
            if isinstance(event, Reply) and event.id:
                pending = self.requests.get(event.id)
                if pending is None:
                    return
                if isinstance(event, Failed | pending.request.ends):
                    del self.requests[event.id]
                pending.on_reply(event)
            else:
                for client in list(self._clients):
                    client.on_event(event)


def _ignore(reply: Reply) -> None:
    """The client has left."""
