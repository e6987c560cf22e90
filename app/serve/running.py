"""A server that runs: uvicorn around the site, in the loop that made it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import uvicorn

from app.engine import Died, Engine, Event
from app.serve.anthropic import ANTHROPIC
from app.serve.clients import Clients
from app.serve.counts import ServedCounts
from app.serve.flow import Gate, SlotQueue
from app.serve.native import NATIVE
from app.serve.ollama import OLLAMA
from app.serve.openai import OPENAI
from app.serve.ranking import RANKING
from app.serve.served import OpenModel, Shelf, State
from app.serve.settings import ServeSettings
from app.serve.web.connections import KEPT_SECONDS, BoundedProtocol
from app.serve.web.guard import MOST_HEADERS, Guard
from app.serve.web.site import ServingDesk, Site
from engine.protocol import SlotTable

ENDS = "the server is shutting down"
LOOK = 0.05  # seconds between looks at whether all has ended


class Running:
    """All that belongs to the server's loop."""

    def __init__(
        self,
        engine: Engine,
        settings: ServeSettings,
        clients: Clients,
        counts: ServedCounts,
        port: int,
        want: Callable[[str], None],
    ) -> None:
        self.shelf = Shelf(settings.any_model, settings.models, want)
        self.turns = SlotQueue(settings.slots, settings.queue, counts)
        self.gate = Gate(engine, self.turns, counts, self._on_event)
        desk = ServingDesk(self.gate, self.shelf, clients, settings)
        self._clients = clients
        site = Site(desk, Guard(settings, port), (OPENAI, ANTHROPIC, OLLAMA, NATIVE, RANKING))
        config = uvicorn.Config(
            site,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MOST_HEADERS,
            timeout_keep_alive=KEPT_SECONDS,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._stopping: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def serve(self, sockets: list[socket.socket], begun: Callable[[], None]) -> None:
        """Answer until `stop`."""
        serving = asyncio.create_task(self._server.serve(sockets))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        begun()
        try:
            await serving
        finally:
            self.gate.close()

    def open(self, model: OpenModel) -> None:
        """This one answers from now on, those first that waited for it."""
        self.shelf.put(model)
        self.turns.resume()

    def shut(self, state: State, reason: str) -> None:
        """None answers; those who wait go on waiting, unless it is `down`."""
        self.shelf.take(state, reason)
        self.turns.hold()
        if state == "down":
            self.turns.refuse_waiting(f"the engine is down: {reason}")

    def stop(self, patience: float, style: float) -> None:
        """End, in the order that `Serving.stop` says."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(patience, style))

    def hurry(self) -> None:
        """Wait no longer for answers that go on."""
        self._hurry.set()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Died):  # sent before the requests of that engine fail
            self.shut("loading", "")
        elif isinstance(event, SlotTable):
            self.gate.table = event

    async def _stop(self, patience: float, style: float) -> None:
        self.turns.close_door(ENDS)
        await self._quiet(patience, self._hurry)
        self.gate.end_all(ENDS)
        await self._quiet(style, asyncio.Event())
        self._server.should_exit = True

    async def _quiet(self, seconds: float, enough: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._clients.now and not enough.is_set():
                    await asyncio.sleep(LOOK)
