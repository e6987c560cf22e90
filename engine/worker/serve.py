"""The worker's loops: one request at a time, and beside them one that only plans; cancel heard at
once, errors caught in one place.
"""

import os
import threading
import traceback
from collections import deque
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import msgspec

from engine.errors import Cancelled, CutawayError, UnknownPictures
from engine.memory.pools import listen
from engine.memory.trim import keep_little
from engine.protocol import (
    Cancel,
    Failed,
    Live,
    Look,
    MemoryEvent,
    MemoryEvents,
    Reply,
    Request,
    Shutdown,
)
from engine.protocol.wire import decoder_of_requests, encode
from engine.worker.handlers import HANDLERS
from engine.worker.service import Service

Requests = SimpleQueue[Request[Any] | None]


def serve(pipe: Connection) -> None:
    """Answer requests until the pipe closes or `Shutdown` comes."""
    keep_little()
    _Server(pipe).run()


class _Server:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._requests: Requests = SimpleQueue()
        self._beside: Requests = SimpleQueue()
        self._cancelled: set[int] = set()
        self._looks: dict[int, Live] = {}
        self._sending = threading.Lock()
        self._events: deque[MemoryEvent] = deque()
        listen(self._events.append)

    def run(self) -> None:
        service = Service(self._send, self._cancelled, self._looks)
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._answer_all, args=(service, self._beside), daemon=True).start()
        self._answer_all(service, self._requests)
        service.close_model()

    def _answer_all(self, service: Service, requests: Requests) -> None:
        """In the order in which they came, until `Shutdown`."""
        while (request := requests.get()) is not None:
            self._send(_answer(service, request))
            self._cancelled.discard(request.id)
            if not request.beside:  # an answer may run on beside a plan
                for number in [n for n in list(self._looks) if n <= request.id]:
                    del self._looks[number]

    def _listen(self) -> None:
        """Runs in a thread of its own, so that Cancel and a vanished app are heard mid-step."""
        decode = decoder_of_requests()
        while True:
            try:
                message = decode(self._pipe.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)
            except msgspec.DecodeError:
                traceback.print_exc()  # its last line is what the app shows
                os._exit(1)
            if isinstance(message, Cancel):
                self._cancelled.add(message.id)
            elif isinstance(message, Look):
                self._looks[message.id] = message.live
            elif isinstance(message, Shutdown):
                self._requests.put(None)
            elif isinstance(message, Request):
                (self._beside if message.beside else self._requests).put(message)

    def _send(self, reply: Reply) -> None:
        """Whole, whichever thread it comes from."""
        with self._sending:
            if self._events:  # what happened to memory before that
                events = [self._events.popleft() for _ in range(len(self._events))]
                self._write(MemoryEvents(0, events))
            self._write(reply)

    def _write(self, reply: Reply) -> None:
        try:
            self._pipe.send_bytes(encode(reply))
        except OSError:
            os._exit(0)


def _answer(service: Service, request: Request[Any]) -> Reply:
    """What ends a request; one that was cancelled while it waited is not begun."""
    try:
        if service.asked_to_stop(request)():
            raise Cancelled("the request")
        return HANDLERS[type(request)](service, request)
    except UnknownPictures as error:
        return Failed(request.id, error.kind, str(error), list(error.digests))
    except CutawayError as error:
        return Failed(request.id, error.kind, str(error))
    except MemoryError:
        text = "the system has no memory left; close programs or choose a smaller context"
        return Failed(request.id, "NoMem", text)
    except Exception as error:  # noqa: BLE001  a bug: told to the app, the worker lives on
        traceback.print_exc()
        return Failed(request.id, "Unexpected", f"unexpected {type(error).__name__}: {error}")
