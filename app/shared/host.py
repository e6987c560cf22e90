"""The owner's side: other programs of this user use its engine through a socket."""

import logging
import os
import socket
import threading
from pathlib import Path

from filelock import FileLock, Timeout

from app.engine import Died, Engine, Event
from app.shared import place
from app.shared.guests import EngineOwner, Guest, NoSharedModel, SharedModel
from app.version import version
from engine.errors import BadSetting
from engine.protocol import (
    HeldMemory,
    Loaded,
    Reply,
    SlotTable,
)
from engine.system import local_socket

KEPT = (HeldMemory, SlotTable)
"""Events for everybody, which show how the engine is."""
BACKLOG = 8

log = logging.getLogger("engine")


class EngineHost:
    """Shares an engine while it is started: each guest has requests of its own, and gets the
    events for everybody. Methods may be called from any thread.
    """

    def __init__(self, engine: Engine, program: str, folder: Path | None = None) -> None:
        self._engine, self._program = engine, program
        self._folder = folder or place.folder()
        self._lock = threading.Lock()
        self._guests: set[Guest] = set()
        self._now: Reply = NoSharedModel(0, "it is loading")
        self._kept: dict[type[Reply], Reply] = {}  # sent also to a guest that comes later
        self._held: FileLock | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> Path:
        """The socket."""
        return self._folder / place.SOCKET

    def start(self) -> None:
        """Let guests in. Raises `BadSetting` where another program shares its engine already, and
        where the folder is not this user's alone.
        """
        folder = place.made_folder(self._folder)
        held = FileLock(folder / place.LOCK)
        try:
            held.acquire(timeout=0)
        except Timeout:
            what = "a path that no other program shares its engine at"
            raise BadSetting("sharing", str(folder), what) from None
        try:
            self._socket = _listening(self.path)
        except OSError as error:
            held.release()
            what = f"a place for a socket ({error.strerror or error})"
            raise BadSetting("sharing", str(self.path), what) from None
        self._held = held
        self._client = self._engine.join(self._keep)
        self._thread = threading.Thread(target=self._let_in, name="host", daemon=True)
        self._thread.start()

    def open(self, loaded: Loaded) -> None:
        """This model is open."""
        self._say(SharedModel(0, loaded))

    def shut(self, reason: str) -> None:
        """None is."""
        self._say(NoSharedModel(0, reason))

    def close(self) -> None:
        """Let all guests go. Harmless when done twice."""
        listening, self._socket = self._socket, None
        if listening is None:
            return
        self.path.unlink(missing_ok=True)
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            guests = list(self._guests)
        for guest in guests:
            guest.end()
        self._client.leave()
        if self._held is not None:
            self._held.release()

    def _gone(self, guest: Guest) -> None:
        """A guest has left."""
        with self._lock:
            self._guests.discard(guest)

    def _keep(self, event: Event) -> None:
        if isinstance(event, KEPT):
            self._kept[type(event)] = event
        elif isinstance(event, Died):
            self._kept.clear()

    def _say(self, now: Reply) -> None:
        with self._lock:
            self._now = now
            for guest in self._guests:
                guest.on_event(now)

    def _let_in(self) -> None:
        listening = self._socket
        while listening is not None and self._socket is listening:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            if not place.is_same_user(connection):
                log.warning("another user tried to use the shared engine and was refused")
                connection.close()
                continue
            owner = EngineOwner(0, version(), self._program, os.getpid())
            with self._lock:
                first = (owner, self._now, *list(self._kept.values()))
                guest = Guest(self._engine, connection, self._program, first, self._gone)
                self._guests.add(guest)
            guest.start()


def _listening(path: Path) -> socket.socket:
    """A socket that only this user may connect to; one that was left behind goes."""
    made = local_socket()
    try:
        path.unlink(missing_ok=True)
        made.bind(str(path))
        path.chmod(0o600)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made
