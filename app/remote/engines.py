"""The engine on this machine, another program's here, and servers elsewhere, as one: the one whose
model is open answers.
"""

from typing import Any

import msgspec

from app.engine import Abilities, Client, Died, Engine, Event, Restarted, Silent, WeightReader
from app.local_files import LocalFiles
from app.remote.messages import OpenServer, ProbeServer
from app.shared.attached import NOT_SHARED, SharedEngine
from engine.protocol import Failed, ListDevices, Load, Look, Request, Unload


class Engines(Engine):
    """Routes each request: to the server while a model of one is open, but for what is asked of
    files and devices, which are this machine's. A file that another program has open, which shares
    its engine, is asked of that one. At most one of them has a model open for us.

    All share one lock: an engine tells what it hears while it holds its own.
    """

    def __init__(self, local: Engine, remote: Engine, shared: SharedEngine | None = None) -> None:
        super().__init__()
        self.local, self.remote = local, remote
        self._shared = shared
        self._engines = [local, remote] if shared is None else [local, remote, shared]
        for engine in self._engines:
            engine.lock = self.lock
        self._numbers: dict[tuple[Engine, int], int] = {}  # of what is asked of each: our own
        self._sent: dict[int, tuple[Client, int]] = {}
        self._clients_of = {engine: self._join(engine) for engine in self._engines}
        self._current = local
        self._sending: int | None = None  # our number of what is being asked just now
        self._of_files = LocalFiles().answers

    @property
    def abilities(self) -> Abilities:
        return self._current.abilities

    @property
    def is_local(self) -> bool:
        """True if this machine's engine has the model, or would load one."""
        return self._current is self.local

    def send(self, request: Request[Any]) -> None:
        self._ask(self._engine_for(request), request)

    def _ask(self, engine: Engine, request: Request[Any]) -> None:
        client = self._clients_of[engine]
        with self.lock:
            self._sending = request.id
            number = client.ask(request)
            self._sending = None
            if request.id in self._asked:
                self._numbers[engine, number] = request.id
                self._sent[request.id] = client, number

    def stop(self, request: Request[Any]) -> None:
        if request.id in self._sent:
            client, number = self._sent[request.id]
            client.cancel(number)

    def order(self, look: Look) -> None:
        if look.id in self._sent:
            client, number = self._sent[look.id]
            client.look(number, look.live)

    def weights(self, path: str) -> WeightReader:
        return self.local.weights(path)

    def restart(self) -> None:
        self._current.restart()

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def _engine_for(self, request: Request[Any]) -> Engine:
        """Who answers this; what opens a model changes who does."""
        if isinstance(request, OpenServer):
            self._change(self.remote)
        elif isinstance(request, Load):
            there = self._shared is not None and self._shared.may_be_there
            self._change(self._shared if there and self._shared is not None else self.local)
        elif isinstance(request, ProbeServer):
            return self.remote
        elif request.beside or type(request) in (ListDevices, *self._of_files):
            return self.local
        return self._current

    def _change(self, to: Engine) -> None:
        """The other one gives up its model."""
        if self._current is not to:
            self._clients_of[self._current].ask(Unload(0))
            self._current = to

    def _join(self, engine: Engine) -> Client:
        return engine.join(lambda event: self._hear(engine, event))

    def _hear(self, engine: Engine, event: Event) -> None:
        """Pass on what concerns those who asked, under the number they know."""
        if isinstance(event, Died | Restarted | Silent) or not event.id:
            if engine is self._current:
                self.tell(event)
            return
        number = self._numbers.get(
            (engine, event.id), self._sending
        )  # told while it was being asked
        if engine is self._shared and isinstance(event, Failed) and event.kind == NOT_SHARED:
            self._load_here(event, number)
        elif number is not None:
            self.tell(msgspec.structs.replace(event, id=number))
            if number not in self._asked:
                self._numbers.pop((engine, event.id), None)
                self._sent.pop(number, None)

    def _load_here(self, event: Failed, number: int | None) -> None:
        """Nobody shares the model that is to be opened: this machine's engine loads it."""
        _, request = self._asked.get(number or 0, (None, None))
        self._numbers.pop((self._current, event.id), None)
        if request is not None:
            self._sent.pop(request.id, None)
            self._current = self.local
            self._ask(self.local, request)
