"""Opens the served model, and reopens it once if its engine crashes."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from time import monotonic, sleep

from app.engine import Died, Engine, Event, Silent
from app.serve.server import Serving
from app.shared.host import EngineHost
from engine.errors import Cancelled
from engine.protocol import Failed, FileContent, Load, Loaded, Progress, ReadFile
from engine.settings import EngineOptions
from engine.worker import RemoteError

log = logging.getLogger("server")
TWICE = 60.0  # seconds within which a second death is one too many
TICK = 0.1
OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class WantedModel:
    """A client requests another of the models."""

    name: str


class Keeper:
    """Keeps one of some models open in an engine for a server, the first of `paths` to begin with:
    files by the names that people call them. `host` shares the engine with programs of this user.
    """

    def __init__(
        self,
        engine: Engine,
        serving: Serving,
        paths: Mapping[str, Path],
        options: EngineOptions,
        host: EngineHost | None = None,
    ) -> None:
        self.host, self._engine = host, engine
        self._serving, self._paths, self._options = serving, paths, options
        self._name = next(iter(paths))
        self._events: Queue[Event | WantedModel] = Queue()
        self._client = engine.join(self._events.put)
        self._died = -TWICE
        serving.want = lambda name: self._events.put(WantedModel(name))

    def load(self, on_progress: OnProgress, stopped: Callable[[], bool]) -> Loaded:
        """Open the model and have it served. Raises `RemoteError`, `Cancelled` once `stopped`."""
        path = str(self._paths[self._name])
        reading = self._client.send(ReadFile(0, path))
        loading = self._client.send(Load(0, path, self._options, embeds=True))
        file: FileContent | None = None
        loaded: Loaded | None = None
        while loaded is None or (file is None and reading):
            if stopped():
                raise Cancelled("loading")
            event = self._next()
            if isinstance(event, WantedModel):
                self._events.put(event)  # later: this one comes first
                sleep(TICK)
            elif isinstance(event, Progress) and event.id == loading:
                on_progress(event)
            elif isinstance(event, FileContent):
                file = event
            elif isinstance(event, Loaded):
                loaded = event
            elif isinstance(event, Failed) and event.id == reading:
                reading = 0  # a load of it says why
            elif isinstance(event, Failed):
                raise RemoteError(event)
        self._serving.open(self._name, loaded, file)
        if self.host is not None:
            self.host.open(loaded)
        return loaded

    def keep(self, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Bring the model back where its engine dies, not twice in a minute; until `stopped`."""
        while not stopped():
            event = self._next()
            if isinstance(event, Died):
                note(str(event.error))
                self._restart(note, stopped)
            elif isinstance(event, Silent) and event.seconds:
                note(f"the engine has not responded for {event.seconds:.0f} s")
                self._serving.shut()
                self._engine.restart()  # requests of all clients fail
                self._restart(note, stopped)
            elif isinstance(event, WantedModel):
                self._switch(event.name, note, stopped)

    def close(self) -> None:
        """Look no longer."""
        self._client.leave()

    def _switch(self, name: str, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Open another once requests for this one have been answered; or this one again."""
        while not self._serving.idle and not stopped():
            sleep(TICK)
        before, self._name = self._name, name
        self._serving.shut()
        if self.host is not None:
            self.host.shut("another model is opened in place of this one")
        try:
            self.load(lambda progress: None, stopped)
            return
        except Cancelled:
            return
        except RemoteError as error:
            note(f"{name}: {error}")
        self._serving.broken(name)
        self._name = before
        self._open_again(note, stopped)

    def _restart(self, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        now = monotonic()
        if now - self._died < TWICE:
            note("it stopped twice within a minute and is not restarted; restart the server")
            self._serving.shut("down", "it stopped twice within a minute")
            return
        self._died = now
        self._serving.counts.restarts += 1
        note("restarting it")
        self._open_again(note, stopped)

    def _open_again(self, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        try:
            self.load(lambda progress: None, stopped)
            note(f"{self._name} is ready again")
        except Cancelled:
            return
        except RemoteError as error:
            note(str(error))
            self._serving.shut("down", "the model could not be opened again")

    def _next(self) -> Event | WantedModel | None:
        try:
            return self._events.get(timeout=TICK)
        except Empty:
            return None
