"""The owner's side of one guest: what it may request, under its own numbers."""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import msgspec

from app.engine import Client, Died, Engine, Event, Restarted, Silent
from engine.errors import WorkerDied
from engine.protocol import (
    Cancel,
    CheckForm,
    Compare,
    CompareTexts,
    DecodeTokens,
    DescribeGraph,
    DescribePlan,
    DumpResults,
    Embed,
    EncodeText,
    Examine,
    Failed,
    Generate,
    ListSlots,
    Loaded,
    Look,
    PlanPictures,
    PutPicture,
    Rank,
    ReadCells,
    Render,
    Reply,
    Request,
    ReviseEdits,
    ScoreAnswer,
    ShowPicture,
)
from engine.protocol.wire import decoder_of_requests, encode

LARGEST_REQUEST = 64 << 20  # bytes of a frame to the owner: a picture's file and what is around it
LARGEST_EVENT = 256 << 20  # of one from it


class EngineOwner(Reply, frozen=True):
    """Who shares its engine: the first that is said. Programs of another `version` are left alone,
    as their messages may differ.
    """

    version: str
    program: str
    pid: int


class SharedModel(Reply, frozen=True):
    """This model is open from now on."""

    loaded: Loaded


class NoSharedModel(Reply, frozen=True):
    """No model is open, and why."""

    reason: str


ALLOWED: frozenset[type[Request[Any]]] = frozenset(
    {
        *(Generate, PutPicture, PlanPictures, ShowPicture, Render, EncodeText, DecodeTokens),
        *(Embed, Rank, CheckForm, ListSlots, Examine, DescribeGraph, DescribePlan, DumpResults),
        *(ReadCells, ScoreAnswer, Compare, CompareTexts),
    }
)
"""What guests may request: nothing of it opens, closes or moves the model, or measures the machine.
"""
MOST_OPEN = 256  # requests of one guest that have not ended
MOST_WAITING = 10_000  # messages that a guest has not read

log = logging.getLogger("engine")


class Guest:
    """One program that uses the engine of `program`: a client of it, with two threads; `first`
    is sent to it, and `gone` is called at its end.
    """

    def __init__(
        self,
        engine: Engine,
        connection: socket.socket,
        program: str,
        first: Iterable[Event],
        gone: Callable[["Guest"], None],
    ) -> None:
        self._engine, self._program, self._gone = engine, program, gone
        self._pipe = Connection(connection.detach())
        self._out: SimpleQueue[Event | None] = SimpleQueue()
        self._pending: dict[
            int, tuple[int, type[Reply]]
        ] = {}  # our number: the guest's, and its end
        self._ended = False
        self._client: Client | None = None
        for event in first:
            self._out.put(event)

    def start(self) -> None:
        """Pass on the engine's events, and take requests."""
        self._client = self._engine.join(self.on_event)
        threading.Thread(target=self._write, name="guest writer", daemon=True).start()
        threading.Thread(target=self._read, name="guest reader", daemon=True).start()

    def on_event(self, event: Event) -> None:
        """For the guest; one that does not read is left."""
        if self._out.qsize() > MOST_WAITING:
            self._cut()
        else:
            self._out.put(event)

    def end(self) -> None:
        """Cancel its requests, and close the connection. Harmless when done twice."""
        with self._engine.lock:
            if self._ended:
                return
            self._ended = True
        if self._client is not None:
            self._client.leave()
        self._out.put(None)
        self._cut()
        self._gone(self)

    def _cut(self) -> None:
        """End the connection: both threads wake up."""
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(self._pipe.fileno())) as other,
        ):
            other.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        decode = decoder_of_requests()
        try:
            while True:
                self._take(decode(self._pipe.recv_bytes(LARGEST_REQUEST)))
        except (EOFError, OSError):
            pass
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            log.warning(
                "a program that shares the engine sent an invalid message and was disconnected"
            )
        self.end()

    def _take(self, message: Any) -> None:
        with self._engine.lock:
            client = self._client
            if self._ended or client is None:
                return
            if isinstance(message, Cancel | Look | ReviseEdits):
                ours = next((n for n, (id, _) in self._pending.items() if id == message.id), None)
                if ours is not None and isinstance(message, Look):
                    client.look(ours, message.live)
                elif ours is not None and isinstance(message, ReviseEdits):
                    client.revise(msgspec.structs.replace(message, id=ours))
                elif ours is not None:
                    client.cancel(ours)
            elif not isinstance(message, Request):
                return  # an order that is the owner's alone
            elif type(message) not in ALLOWED:
                text = f"the engine belongs to {self._program}: it cannot be changed from here"
                self._out.put(Failed(-message.id, "NotSupported", text))
            elif len(self._pending) >= MOST_OPEN:
                text = f"{MOST_OPEN} requests are already running"
                self._out.put(Failed(-message.id, "NotSupported", text))
            else:
                number = client.send(message)
                self._pending[number] = message.id, message.ends

    def _write(self) -> None:
        try:
            while (event := self._out.get()) is not None:
                reply = self._frame(event)
                if reply is not None:
                    self._pipe.send_bytes(encode(reply))
        except OSError:
            self.end()

    def _frame(self, event: Event) -> Reply | None:
        """An event under the guest's own number."""
        if isinstance(event, Died):
            error = event.error
            why = error.reason if isinstance(error, WorkerDied) else str(error)
            return NoSharedModel(0, why)
        if isinstance(event, Restarted | Silent):
            return None
        if event.id <= 0:
            return msgspec.structs.replace(event, id=-event.id)
        with self._engine.lock:  # the number of the latest request is being noted
            number, ends = self._pending.get(event.id, (0, Reply))
            if isinstance(event, Failed | ends):
                self._pending.pop(event.id, None)
        return msgspec.structs.replace(event, id=number) if number else None
