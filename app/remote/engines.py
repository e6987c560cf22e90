"""The engine on this machine, another program's here, and servers elsewhere, as one: the one whose
model is open answers.
"""

from typing import Any

import msgspec

from app.engine import Abilities, Client, Died, Engine, Event, Restarted, Silent, WeightReader
from app.local_files import LocalFiles
from app.remote.connection import OpenServer, ProbeServer
from app.shared.attached import NOT_SHARED, SharedEngine
from engine.protocol import (
    Failed,
    ListDevices,
    Load,
    Look,
    MeasureQuality,
    Reply,
    Request,
    ReviseEdits,
    Unload,
)


class Engines(Engine):
    """Routes each request: to the server while a model of one is open, but for requests about
    files and devices, which are this machine's. A file that another program has open, which shares
    its engine, go to that one. At most one of them has a model open for us.

    All share one lock: an engine passes events on while it holds its own.
    """

    def __init__(self, local: Engine, remote: Engine, shared: SharedEngine | None = None) -> None:
        super().__init__()
        self.local, self.remote = local, remote
        self._shared = shared
        self._engines = [local, remote] if shared is None else [local, remote, shared]
        for engine in self._engines:
            engine.lock = self.lock
        self._clients_of = {engine: self._join(engine) for engine in self._engines}
        self._current = local
        self._of_files = LocalFiles().answers

    @property
    def abilities(self) -> Abilities:
        return self._current.abilities

    @property
    def is_local(self) -> bool:
        """True if this machine's engine has the model, or would load one."""
        return self._current is self.local

    def send(self, request: Request[Any]) -> None:
        self._forward(self._engine_for(request), request)

    def _forward(self, engine: Engine, request: Request[Any]) -> None:
        client = self._clients_of[engine]
        with self.lock:
            number = client.send(request, lambda reply: self._pass_on(engine, request, reply))
            pending = self.requests.get(request.id)
            if pending is not None:
                pending.forwarded = client, number

    def stop(self, request: Request[Any]) -> None:
        pending = self.requests.get(request.id)
        if pending is not None and pending.forwarded is not None:
            client, number = pending.forwarded
            client.cancel(number)

    def order(self, order: Look | ReviseEdits) -> None:
        pending = self.requests.get(order.id)
        if pending is not None and pending.forwarded is not None:
            client, number = pending.forwarded
            if isinstance(order, Look):
                client.look(number, order.live)
            else:
                client.revise(msgspec.structs.replace(order, id=number))

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
        elif isinstance(request, MeasureQuality):
            self._change(self.local)
        elif isinstance(request, ProbeServer):
            return self.remote
        elif request.beside or type(request) in (ListDevices, *self._of_files):
            return self.local
        return self._current

    def _change(self, to: Engine) -> None:
        """The other one gives up its model."""
        if self._current is not to:
            self._clients_of[self._current].send(Unload(0))
            self._current = to

    def _join(self, engine: Engine) -> Client:
        return engine.join(lambda event: self._on_event(engine, event))

    def _on_event(self, engine: Engine, event: Event) -> None:
        """Pass on what concerns everybody, from the engine that is used now."""
        concerns_all = isinstance(event, Died | Restarted | Silent) or not event.id
        if engine is self._current and concerns_all:
            self.notify(event)

    def _pass_on(self, engine: Engine, request: Request[Any], reply: Reply) -> None:
        """Pass on a reply under the number that its client knows. What nobody shares after all is
        loaded by this machine's engine.
        """
        if engine is self._shared and isinstance(reply, Failed) and reply.kind == NOT_SHARED:
            if request.id in self.requests:
                self._current = self.local
                self._forward(self.local, request)
        else:
            self.notify(msgspec.structs.replace(reply, id=request.id))
