"""The server in a thread: the same for `cutaway serve` and for the window."""

import asyncio
import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from app.defaults import Suggested, suggested_for
from app.engine import Engine
from app.serve.clients import Clients
from app.serve.counts import ServedCounts
from app.serve.served import OpenModel, State
from app.serve.settings import ServeSettings
from engine.errors import BadSetting, MissingPackage
from engine.protocol import FileContent, Loaded
from engine.system import claim_address

BACKLOG = 128
PATIENCE = 5.0  # seconds that answers may go on once the server is to stop
LOOK = 0.1
GOODBYE_S = 30.0  # seconds for the last frames of open answers; a slow reader has much to read


class Serving:
    """One engine's model for other programs, from `start` to `stop`.

    Until `open` says which model that is, clients are asked to try again. All methods may be
    called from any thread but the server's own.
    """

    def __init__(self, engine: Engine, settings: ServeSettings) -> None:
        settings.check()
        self.engine, self.settings = engine, settings
        self.clients, self.counts = Clients(), ServedCounts()
        self.want: Callable[[str], None] = lambda name: None  # whoever opens other models sets this
        self._sockets: list[socket.socket] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Any = None  # _Running, whose module imports what may not be installed
        self._ready = threading.Event()
        self._failure: Exception | None = None

    @property
    def address(self) -> str:
        """The base URL, without a path."""
        host, port = self._sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def state(self) -> State:
        """The state of the server: whether a model is ready."""
        running = self._running
        state: State = running.shelf.state if running is not None else "loading"
        return state

    def start(self) -> None:
        """Listen, and answer; on return it does. Raises `BadSetting` for an address that cannot be
        had, `MissingPackage`.
        """
        try:
            from app.serve.running import Running
        except ImportError as error:
            raise MissingPackage("uvicorn", "serve", str(error)) from None
        self._sockets = listening(self.settings)
        self._thread = threading.Thread(
            target=self._run, args=(Running,), name="server", daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def open(self, name: str, loaded: Loaded, file: FileContent | None = None) -> None:
        """This model answers from now on, by `name` unless the settings have aliases."""
        names, now = self.settings.aliases or (name,), int(time.time())
        suits = {way: self._suited(loaded, way) for way in (True, False)}
        sampling = {way: one.sampling for way, one in suits.items()}
        model = OpenModel(names, loaded, file, now, sampling, suits[True].stop)
        self._call(lambda running: running.open(model))

    def _suited(self, loaded: Loaded, thinking: bool) -> Suggested:
        """Return the suggested sampling of the model, overridden by the settings."""
        suits = suggested_for(loaded, thinking) if self.settings.suggested else Suggested()
        return suits.over(self.settings.sampling, "yours")

    def shut(self, state: State = "loading", reason: str = "") -> None:
        """No model answers from now on."""
        self._call(lambda running: running.shut(state, reason))

    def broken(self, name: str) -> None:
        """One of the settings' models cannot be opened."""
        self._call(lambda running: running.shelf.broken(name))

    @property
    def idle(self) -> bool:
        """True if no request is running or waiting for a slot."""
        running = self._running
        return running is None or not (running.turns.busy or running.turns.waiting)

    def stop(self, patience: float = PATIENCE) -> None:
        """Take no more requests, let answers go on for so many seconds, end the
        others with an error, and end. Harmless when done twice.
        """
        thread = self._thread
        if thread is None:
            return
        self._call(lambda running: running.stop(patience, GOODBYE_S))
        thread.join()
        self._thread = None

    def hurry(self) -> None:
        """End answers that `stop` lets go on, now; a signal's handler may call it."""
        loop, running = self._loop, self._running
        if loop is not None and running is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(running.hurry)

    def _call(self, do: Callable[[Any], Any]) -> None:
        """Have it done in the server's loop, and wait for that; nothing where that has ended."""
        loop, running, done = self._loop, self._running, threading.Event()
        if loop is None or running is None:
            return

        def doing() -> None:
            do(running)
            done.set()

        try:
            loop.call_soon_threadsafe(doing)
        except RuntimeError:  # it has ended
            return
        while self._thread is not None and self._thread.is_alive() and not done.wait(LOOK):
            pass

    def _run(self, make: Callable[..., Any]) -> None:
        async def serve() -> None:
            try:
                self._loop = asyncio.get_running_loop()
                port = int(self.address.rpartition(":")[2])
                shared = self.clients, self.counts
                self._running = make(
                    self.engine, self.settings, *shared, port, lambda n: self.want(n)
                )
            except Exception as error:  # noqa: BLE001  raised by `start`
                self._failure = error
                self._ready.set()
                return
            await self._running.serve(self._sockets, self._ready.set)

        try:
            asyncio.run(serve())
        finally:
            self._ready.set()
            for one in self._sockets:
                one.close()


def listening(settings: ServeSettings) -> list[socket.socket]:
    """Sockets of the settings' address; of loopback those of IPv4 and, where there is it, IPv6.

    Raises `BadSetting` with what the system says.
    """
    hosts = ["127.0.0.1", "::1"] if settings.host in ("", "localhost") else [settings.host]
    port, made = settings.port, []
    for host in hosts:
        try:
            made.append(_bound(host, port))
        except OSError as error:
            if made:
                break  # no IPv6 here, or its port is taken: one of them is enough
            what = error.strerror or str(error)
            foreign = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            if settings.host and foreign:
                raise BadSetting(
                    "--host", settings.host, f"an address of this machine ({what})"
                ) from None
            expected = f"a port that is free ({what}); 0 picks one"
            raise BadSetting("--port", port, expected) from None
        port = made[0].getsockname()[1]
    return made


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    one = socket.socket(family, kind, protocol)
    try:
        claim_address(one)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(BACKLOG)
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one
