"""The guest's side: the engine of another program of this user, behind the seam of all engines."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from app.engine import Abilities, Died, Engine, Restarted
from app.shared import place
from app.shared.guests import LARGEST_EVENT, EngineOwner, NoSharedModel, SharedModel
from app.version import version
from engine.errors import Cancelled, CutawayError, WorkerDied
from engine.protocol import (
    Cancel,
    Failed,
    Load,
    Look,
    Order,
    Reply,
    Request,
    ReviseEdits,
    Unload,
    Unloaded,
)
from engine.protocol.wire import decoder_of_replies, encode
from engine.system import local_socket

PATIENCE = 1.0  # seconds in which an owner must say who it is
NOT_SHARED = "NotShared"
"""The kind of `Failed` of a `Load` that nobody else has open."""


@dataclass
class _Link:
    """A connection to an owner whose model is open."""

    pipe: Connection
    owner: EngineOwner
    model: SharedModel
    out: SimpleQueue[Request[Any] | Order | None] = field(default_factory=SimpleQueue)
    is_open: bool = True  # its model


class SharedEngine(Engine):
    """Attached to an owner while one has the requested model open. A `Load` of any other
    fails as NOT_SHARED; all else is the owner's to do.
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self._folder = folder or place.folder()
        self._link: _Link | None = None
        self._closed = False

    @property
    def abilities(self) -> Abilities:
        link = self._link
        return Abilities(owner=_called(link.owner) if link is not None else "")

    @property
    def may_be_there(self) -> bool:
        """True if a program shares its engine, or left its socket behind."""
        return (self._folder / place.SOCKET).exists()

    def send(self, request: Request[Any]) -> None:
        if self._closed:
            return
        if isinstance(request, Load):
            self._detach()
            threading.Thread(
                target=self._attach, args=(request,), name="attach", daemon=True
            ).start()
        elif isinstance(request, Unload):
            self._detach()
            self.notify(Unloaded(request.id))
        elif self._link is None:
            text = "no shared engine is in use"
            self.notify(Failed(request.id, "NotSupported", text))
        else:
            self._link.out.put(request)

    def stop(self, request: Request[Any]) -> None:
        if isinstance(request, Load) and request.id in self.requests:
            self.notify(_cancelled(request.id))
        elif self._link is not None:
            self._link.out.put(Cancel(request.id))

    def order(self, order: Look | ReviseEdits) -> None:
        if self._link is not None:
            self._link.out.put(order)

    def restart(self) -> None:
        """Leave the owner, whose engine is not ours to restart; the next request may attach."""
        with self.lock:
            self._detach()
            self.notify(Restarted())
            for number in list(self.requests):
                self.notify(_cancelled(number))

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._detach()

    def _attach(self, request: Load) -> None:
        """Use an owner's engine if it has the model open; in a thread of its own."""
        try:
            link = _greeted(self._folder, request.path)
        except (OSError, EOFError, msgspec.MsgspecError, UnicodeDecodeError, CutawayError) as error:
            self.notify(Failed(request.id, NOT_SHARED, str(error)))
            return
        with self.lock:
            if self._closed or request.id not in self.requests:
                link.pipe.close()
                return
            self._link = link
            for work in (self._write, self._read):
                threading.Thread(target=work, args=(link,), name="attached", daemon=True).start()
            self.notify(msgspec.structs.replace(link.model.loaded, id=request.id))

    def _detach(self) -> None:
        """Leave the owner; its threads end by themselves."""
        link, self._link = self._link, None
        if link is not None:
            link.out.put(None)
            _wake(link.pipe)

    def _write(self, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while (message := link.out.get()) is not None:
                link.pipe.send_bytes(encode(message))

    def _read(self, link: _Link) -> None:
        decode: Callable[[bytes], Reply] = decoder_of_replies()
        try:
            while self._link is link:
                self._take(link, decode(link.pipe.recv_bytes(LARGEST_EVENT)))
        except (OSError, EOFError, msgspec.MsgspecError, UnicodeDecodeError):
            self._lost(link)
        link.pipe.close()

    def _take(self, link: _Link, reply: Reply) -> None:
        with self.lock:
            if self._link is not link:
                return
            if isinstance(reply, NoSharedModel):
                if link.is_open:
                    link.is_open = False
                    self._died(f"{reply.reason}; the engine belongs to {_called(link.owner)}")
            elif not isinstance(reply, SharedModel):
                self.notify(reply)
            elif not link.is_open and _same(reply.loaded.path, link.model.loaded.path):
                link.is_open = True  # its engine was started again
                self.notify(msgspec.structs.replace(reply.loaded, id=0))

    def _lost(self, link: _Link) -> None:
        """The owner is gone."""
        with self.lock:
            if self._link is link:
                self._link = None
                self._died(f"{_called(link.owner)}, which ran the engine, has ended")

    def _died(self, why: str) -> None:
        error = WorkerDied(None, why)
        self.notify(Died(error))
        for number in list(self.requests):
            self.notify(Failed(number, error.kind, str(error)))


def _greeted(folder: Path, path: str) -> _Link:
    """A connection to an owner that has this file open. Raises OSError and EOFError, `CutawayError`
    with the reason why it is not used, and what hostile bytes raise.
    """
    if not place.is_private(folder.lstat()):
        raise CutawayError(f"other users can access {folder}")
    connection = local_socket()
    try:
        connection.settimeout(PATIENCE)
        connection.connect(str(folder / place.SOCKET))
        connection.setblocking(True)
        if not place.is_same_user(connection):
            raise CutawayError("the engine belongs to another user")
    except BaseException:
        connection.close()
        raise
    pipe = Connection(connection.detach())
    try:
        decode = decoder_of_replies()
        owner = _first(pipe, decode)
        if not isinstance(owner, EngineOwner) or owner.version != version():
            raise CutawayError("the engine runs another version of Cutaway")
        model = _first(pipe, decode)
        if not isinstance(model, SharedModel) or not _same(model.loaded.path, path):
            raise CutawayError("it has another model open, or none")
    except BaseException:
        pipe.close()
        raise
    return _Link(pipe, owner, model)


def _first(pipe: Connection, decode: Callable[[bytes], Reply]) -> Reply:
    if not pipe.poll(PATIENCE):
        raise CutawayError("the owner of the engine does not respond")
    return decode(pipe.recv_bytes(LARGEST_EVENT))


def _same(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


def _called(owner: EngineOwner) -> str:
    return f"{owner.program} (process {owner.pid})"


def _cancelled(number: int) -> Failed:
    error = Cancelled("the request")
    return Failed(number, error.kind, str(error))


def _wake(pipe: Connection) -> None:
    """End what reads it in another thread."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as other:
        other.shutdown(socket.SHUT_RDWR)
