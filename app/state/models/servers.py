"""The servers that a person has connected: what each is, what it has, what went wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.remote.connection import (
    KINDS,
    Connection,
    ProbeServer,
    ServedModel,
    ServerAddress,
    ServerProbed,
    address_of,
)
from app.remote.keys import Keys
from app.state.preferences import PreferencesState
from app.work import Work
from engine.protocol import Failed


@dataclass(frozen=True)
class ServerState:
    """A connection and what is known of it in this run. `note` is about its key."""

    connection: Connection
    testing: bool = False
    probed: ServerProbed | None = None
    problem: str = ""
    note: str = ""

    @property
    def models(self) -> list[str]:
        """Models that can be chatted with."""
        return [model.id for model in self.probed.models if model.writes] if self.probed else []

    def model(self, id: str) -> ServedModel | None:
        """Return the server's description of one of its models, or None."""
        models = self.probed.models if self.probed is not None else []
        return next((model for model in models if model.id == id), None)

    @property
    def kind(self) -> str:
        """Name and version of the server's program; empty until it has responded."""
        return f"{KINDS[self.probed.kind]} {self.probed.version}".strip() if self.probed else ""


class ServersState(QObject):
    """Connections are preferences, their keys are in the keyring. A server is probed when
    it is added or changed, and on request; never by itself.
    """

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        preferences: PreferencesState,
        keys: Keys,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._preferences, self._keys = client, preferences, keys
        self._states: dict[str, ServerState] = {}
        preferences.changed.connect(self._preference_changed)

    @property
    def all(self) -> Sequence[ServerState]:
        """Every server, in the order they were added."""
        connections = self._preferences.value.connections
        return [self._states.get(c.name, ServerState(c)) for c in connections]

    def named(self, name: str) -> ServerState | None:
        """The server of a name."""
        return next((server for server in self.all if server.connection.name == name), None)

    def of(self, path: str | Path) -> Connection | None:
        """The connection that a model's path is of; None of a file, and of one that is gone."""
        address = address_of(path)
        server = self.named(address.connection) if address is not None else None
        return server.connection if server is not None else None

    def save(self, connection: Connection, key: str | None, instead: str = "") -> None:
        """Add a server, or change the one called `instead`, and probe it. `key` None
        leaves the one that is kept. Raises BadSetting.
        """
        connection.check()
        others = list(self._preferences.value.connections)
        places = [n for n, c in enumerate(others) if c.name in (connection.name, instead)]
        kept = [c for c in others if c.name not in (connection.name, instead)]
        kept.insert(places[0] if places else len(kept), connection)
        self._states[connection.name] = ServerState(connection, testing=True)
        self._preferences.update(connections=kept)
        self.changed.emit()
        if key is None:
            self.test(connection.name)
        else:
            keep = Work(self._keys.keep, connection, key) if key else Work(self._forget, connection)
            keep.then(partial(self._key_kept, connection)).start(self)

    def remove(self, name: str) -> None:
        """Forget a server and its key."""
        server = self.named(name)
        if server is not None:
            left = [c for c in self._preferences.value.connections if c.name != name]
            self._states.pop(name, None)
            self._preferences.update(connections=left)
            Work(self._keys.forget, server.connection).start(self)
            self.changed.emit()

    def test(self, name: str) -> None:
        """Probe a server for its kind and models; three seconds at most."""
        server = self.named(name)
        if server is not None:
            connection = server.connection
            self._put(replace(server, testing=True, problem=""))
            self._client.send(
                ProbeServer(0, connection),
                partial(self._on_probed, connection),
                partial(self._failed, connection),
            )

    def path(self, name: str, model: str) -> Path:
        """Return the path that represents a model of a server."""
        return ServerAddress(name, model).path

    def _forget(self, connection: Connection) -> str:
        self._keys.forget(connection)
        return ""

    def _key_kept(self, connection: Connection, note: str) -> None:
        server = self._same(connection)
        if server is not None:
            self._put(replace(server, note=note))
            self.test(connection.name)

    def _on_probed(self, connection: Connection, probed: ServerProbed) -> None:
        server = self._same(connection)
        if server is not None:
            self._put(replace(server, testing=False, probed=probed, problem=""))

    def _failed(self, connection: Connection, failed: Failed) -> None:
        server = self._same(connection)
        if server is not None:
            self._put(replace(server, testing=False, probed=None, problem=failed.message))

    def _same(self, connection: Connection) -> ServerState | None:
        """Return the state of a server, unless it was changed or removed in the meantime."""
        server = self.named(connection.name)
        return server if server is not None and server.connection == connection else None

    def _put(self, server: ServerState) -> None:
        self._states[server.connection.name] = server
        self.changed.emit()

    def _preference_changed(self, field: str) -> None:
        if field == "connections":
            self.changed.emit()
