"""A server elsewhere in place of an engine of one's own, for `cutaway run --server`."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import msgspec

from app.engine import Client, Event
from app.remote.connection import Connection, OpenServer, ProbeServer, ServerAddress
from app.remote.engine import RemoteEngine
from app.remote.keys import Keys
from app.remote.problems import ServerFailed
from app.terminal.engine import TICK, CommandEngine
from app.terminal.text import confirm, interactive, note
from engine.errors import BadSetting
from engine.protocol import Failed, Loaded, Piece, Progress, Reply, Request
from engine.settings import API_KEY, EngineOptions
from engine.worker import RemoteError


class ServerEngine(CommandEngine):
    """A model of a server, from `start` to `close`. Without a name it is the only one there is.
    Where it is to give embeddings, it need not write.
    """

    def __init__(self, to: Connection, model: str | None, key: str, embeds: bool = False) -> None:
        super().__init__(Path(to.url), EngineOptions())
        self._to, self._model, self._writes = to, model, not embeds
        self._keys = Keys()
        if key:
            self._keys.type_in(to, key)
        self._engine: RemoteEngine | None = None
        self._client: Client | None = None
        self._events: Queue[Event] = Queue()
        self._ids = 0

    def start(self) -> Loaded:
        """Asks the server what it has, and opens the model. Raises RemoteError, ServerFailed."""
        self.close()
        self._engine = RemoteEngine(self._keys)
        self._client = self._engine.join(self._events.put)
        model = self._model or self._only_model()
        path = str(ServerAddress(self._to.name, model).path)
        loaded = self.get(OpenServer(self.new_id(), self._to, model, path, self._writes))
        return msgspec.structs.replace(loaded, device_name="")

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def keep_weights(self) -> str:
        """A server has the weights."""
        return ""

    def save_prefixes(self) -> None:
        """A server saves what it has read."""

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = self._client = None

    def _only_model(self) -> str:
        probed = self.get(ProbeServer(self.new_id(), self._to))
        models = [model.id for model in probed.models if model.writes or not self._writes]
        if len(models) == 1:
            return models[0]
        there = (
            f"it has {', '.join(models[:8])}; name one with --model" if models else "it has none"
        )
        raise ServerFailed(self._to.name, f"which model? {there}")

    def _replies(
        self, request: Request[Any], interrupted: Callable[[], bool]
    ) -> Iterator[Reply | None]:
        assert self._client is not None
        number, stopped = self._client.send(request), False
        while True:
            if interrupted() and not stopped:
                stopped = True
                self._client.cancel(number)
            try:
                event = self._events.get(timeout=TICK)
            except Empty:
                yield None
                continue
            if not isinstance(event, Reply) or event.id != number:
                continue
            if isinstance(event, Failed):
                raise RemoteError(event)
            if isinstance(event, Progress) and event.note:
                note(event.note)
            if stopped and isinstance(event, Piece):
                continue  # it came before the server was left, faster than it was printed
            yield event
            if isinstance(event, request.ends):
                return


def server_named(
    args: argparse.Namespace, options: EngineOptions, embeds: bool = False
) -> ServerEngine | None:
    """The server that is named, None for this machine. Raises BadSetting for what goes with the
    other of them alone.
    """
    if args.server is None:
        if args.served or args.key_in_clear:
            raise BadSetting("--model", args.served, "it with --server URL; else name the model")
        return None
    if options != EngineOptions():
        what = "no options for a local engine, such as --device or --ctx"
        raise BadSetting("--server", args.server, what)
    key = args.api_key if args.api_key is not None else API_KEY.get()
    to = connection(args.server, key, args.key_in_clear)
    return ServerEngine(to, args.served or args.model, key, embeds)


def connection(url: str, key: str, in_clear: bool) -> Connection:
    """The server of an address, with a question where others could read the key. Raises
    BadSetting.
    """
    plain = url if "://" in url else f"http://{url}"
    to = Connection("server", plain, key_in_clear=in_clear)
    to.check()
    to = msgspec.structs.replace(to, name=to.host[:60])
    if key and to.shows_key and not in_clear:
        way = f"{to.host} is not encrypted (http): others on the way can read the key"
        if not interactive() or not confirm(f"{way}. Send it?"):
            raise BadSetting("--server", plain, "an https address, or --key-in-clear")
        to = msgspec.structs.replace(to, key_in_clear=True)
    return to
