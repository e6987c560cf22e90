"""The one who opens the model that is served, and brings it back once where its engine died."""

import logging
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from time import monotonic

from app.engine import Died, Engine, Event
from app.serve.server import Serving
from engine.errors import Cancelled
from engine.protocol import Failed, FileContent, Load, Loaded, Progress, ReadFile
from engine.settings import EngineOptions
from engine.worker import RemoteError

log = logging.getLogger("server")
TWICE = 60.0  # seconds within which a second death is one too many
TICK = 0.1
Told = Callable[[Progress], None]


class Keeper:
    """Keeps `path` open in an engine for a server, by the name that people call it."""

    def __init__(
        self, engine: Engine, serving: Serving, path: Path, name: str, options: EngineOptions
    ) -> None:
        self._serving, self._path, self._name, self._options = serving, path, name, options
        self._events: Queue[Event] = Queue()
        self._client = engine.join(self._events.put)
        self._died = -TWICE

    def load(self, told: Told, stopped: Callable[[], bool]) -> Loaded:
        """Open the model and have it served. Raises `RemoteError`, `Cancelled` once `stopped`."""
        reading = self._client.ask(ReadFile(0, str(self._path)))
        loading = self._client.ask(Load(0, str(self._path), self._options, embeds=True))
        file: FileContent | None = None
        loaded: Loaded | None = None
        while loaded is None or (file is None and reading):
            if stopped():
                raise Cancelled("loading")
            event = self._next()
            if isinstance(event, Progress) and event.id == loading:
                told(event)
            elif isinstance(event, FileContent):
                file = event
            elif isinstance(event, Loaded):
                loaded = event
            elif isinstance(event, Failed) and event.id == reading:
                reading = 0  # a load of it says why
            elif isinstance(event, Failed):
                raise RemoteError(event)
        self._serving.open(self._name, loaded, file)
        return loaded

    def keep(self, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Bring the model back where its engine dies, not twice in a minute; until `stopped`."""
        while not stopped():
            event = self._next()
            if isinstance(event, Died):
                note(str(event.error))
                self._restart(str(event.error), note, stopped)

    def close(self) -> None:
        """Look no longer."""
        self._client.leave()

    def _restart(self, why: str, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        now = monotonic()
        if now - self._died < TWICE:
            note("it stopped twice within a minute, so it stays down; start the server again")
            self._serving.shut("down", f"{why}; twice within a minute")
            return
        self._died = now
        self._serving.counts.restarts += 1
        note("starting it again")
        try:
            self.load(lambda progress: None, stopped)
            note("it answers again")
        except Cancelled:
            return
        except RemoteError as error:
            note(str(error))
            self._serving.shut("down", "the model could not be opened again")

    def _next(self) -> Event | None:
        try:
            return self._events.get(timeout=TICK)
        except Empty:
            return None
