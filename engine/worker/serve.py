"""The worker's loops: steps of answers, between them one request at a time, and beside them one
that only plans; cancel seen at once, errors caught in one place.
"""

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import msgspec

from engine.errors import Cancelled, SequenceBusy
from engine.memory.pools import listen
from engine.memory.trim import keep_little
from engine.protocol import (
    Cancel,
    Compare,
    CompareTexts,
    DumpResults,
    Embed,
    EncodeText,
    Examine,
    FindFeatures,
    Generate,
    Heartbeat,
    Live,
    Look,
    MapPatches,
    MeasureQuality,
    MemoryEvent,
    MemoryEvents,
    Perplexity,
    Rank,
    RecordDataset,
    Render,
    Reply,
    Request,
    ReviseEdits,
    ScoreAnswer,
    Shutdown,
)
from engine.protocol.wire import decoder_of_requests, encode
from engine.runner.aside import LONG
from engine.system import Pipe
from engine.worker.answering import failed
from engine.worker.handlers import HANDLERS
from engine.worker.prefixes import AFTER, CLOSING, LOOK
from engine.worker.service import InParts, Service

Requests = SimpleQueue[Request[Any] | None]
BEAT = 1.0
"""Seconds between two heartbeats."""
COMPUTED = (
    *(Embed, Rank, Examine, ScoreAnswer, Perplexity, DumpResults, Compare, CompareTexts),
    *(MapPatches, RecordDataset, MeasureQuality, FindFeatures),
)
"""Requests whose replies are numbers of the open model, beside answers."""


def serve(pipe: Pipe) -> None:
    """Answer requests until the pipe closes or `Shutdown` comes."""
    keep_little()
    _Server(pipe).run()


def meanwhile(requests: Requests, work: Iterable[None]) -> Request[Any] | None:
    """Do work, which stops between two parts, until there is a request. Raises `Empty` where it
    ends before.
    """
    for _ in work:
        with suppress(Empty):
            return requests.get_nowait()
    return requests.get_nowait()


class _Server:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._requests: Requests = SimpleQueue()
        self._beside: Requests = SimpleQueue()
        self._cancelled: set[int] = set()
        self._looks: dict[int, Live] = {}
        self._revisions: dict[int, ReviseEdits] = {}
        self._queue: deque[Request[Any] | None] = deque()
        self._patient: set[int] = set()
        self._work: tuple[Request[Any], InParts[Reply]] | None = None  # what is answered in parts
        self._sending = threading.Lock()
        self._events: deque[MemoryEvent] = deque()
        self._is_alone = False  # the app has gone
        listen(self._events.append)

    def run(self) -> None:
        service = Service(self._send, self._cancelled, self._looks, self._revisions)

        def saves() -> bool:
            return service.saving is not None and service.saving.is_pending

        threading.Thread(target=self._listen, args=(saves,), daemon=True).start()
        threading.Thread(target=self._answer_beside, args=(service,), daemon=True).start()
        threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()
        while self._turn(service):
            pass
        service.close_model()

    def _beat(self) -> None:
        while True:
            self._send(Heartbeat(0))
            time.sleep(BEAT)

    def _answer_beside(self, service: Service) -> None:
        while (request := self._beside.get()) is not None:
            if _is_long(request):
                self._answer_apart(service, request)
            else:
                self._answer_here(service, request)

    def _answer_apart(self, service: Service, request: Request[Any]) -> None:
        """A long text is read in a thread of its own; requests about others do not wait."""
        arguments = (service, request)
        Thread(target=self._answer_here, args=arguments, daemon=True, name="long text").start()

    def _answer_here(self, service: Service, request: Request[Any]) -> None:
        reply = _answer(service, request)
        assert isinstance(reply, Reply), "parts are answered between steps"
        self._send(reply)
        self._cancelled.discard(request.id)

    def _turn(self, service: Service) -> bool:
        """Begin the requests whose turn it is, then make one step of the answers. False when it was
        `Shutdown`'s turn.
        """
        while not (self._requests.empty() and (self._queue or self._is_busy(service))):
            self._queue.append(self._next(service))
        for waiting in [one for one in self._queue if one and one.id in self._cancelled]:
            self._queue.remove(waiting)
            self._end(service, failed(waiting.id, Cancelled("the request")))
        while self._queue and self._may_begin(service, self._queue[0]):
            request = self._queue.popleft()
            if request is None:
                return False
            self._begin(service, request)
        if service.is_answering:
            for number in service.answering.turn():
                self._over(service, number)
        if self._work is not None:
            self._go_on(service, *self._work)
        return True

    def _next(self, service: Service) -> Request[Any] | None:
        """Wait for it, at leisure where nobody is answered."""
        if not self._is_busy(service):
            service.idle.set()
        try:
            with suppress(Empty):
                return meanwhile(self._requests, service.plans() if service.idle.is_set() else ())
            saving = service.saving
            if saving is not None and service.idle.is_set():
                pause = AFTER
                while saving.is_pending:
                    with suppress(Empty):
                        return self._requests.get(timeout=pause)
                    saving.step()
                    pause = LOOK
            return self._requests.get()
        finally:
            service.idle.clear()
            if service.saving is not None:
                service.saving.interrupt()

    def _is_busy(self, service: Service) -> bool:
        return service.is_answering or self._work is not None

    def _may_begin(self, service: Service, request: Request[Any] | None) -> bool:
        """True if its turn has come: what needs the model for itself waits until nobody is
        answered.
        """
        if not self._is_busy(service):
            return True
        if request is None or request.id in self._patient:
            return False
        if isinstance(request, Generate):
            return True
        return request.between or (request.in_parts and self._work is None)

    def _begin(self, service: Service, request: Request[Any]) -> None:
        if isinstance(request, Generate):
            try:
                service.mend(request)
                service.answering.add(request)
            except Exception as error:  # noqa: BLE001  the client gets it
                self._end(service, failed(request.id, error))
            return
        if isinstance(request, Render) and _is_long(request):
            self._answer_apart(service, request)
            return
        if not (request.between or request.in_parts):
            service.make_way()
        try:
            made = _answer(service, request)
        except SequenceBusy:  # it waits for those that are answered
            self._wait(request)
            return
        if isinstance(made, Reply):
            self._end(service, made)
        else:
            self._work = request, made
            self._go_on(service, request, made)

    def _wait(self, request: Request[Any]) -> None:
        self._patient.add(request.id)
        self._queue.appendleft(request)

    def _go_on(self, service: Service, request: Request[Any], parts: InParts[Reply]) -> None:
        """Answer one more part of a request."""
        try:
            service.answering.make_room()
            next(parts)
            return
        except StopIteration as end:
            reply: Reply = end.value
        except SequenceBusy:
            self._work = None
            self._wait(request)
            return
        except Exception as error:  # noqa: BLE001  the client gets it
            reply = failed(request.id, error)
        self._work = None
        self._end(service, reply)

    def _end(self, service: Service, reply: Reply) -> None:
        self._send(reply)
        self._over(service, reply.id)

    def _over(self, service: Service, number: int) -> None:
        """A request has ended: nothing is kept of it."""
        self._cancelled.discard(number)
        self._patient.discard(number)
        for table in (self._looks, self._revisions):
            table.pop(number, None)
            if not service.is_answering:
                for late in [one for one in list(table) if one < number]:
                    del table[late]

    def _listen(self, saves: Callable[[], bool]) -> None:
        """Runs in a thread of its own, so that Cancel and a vanished app are seen mid-step. It
        ends the process when the app has gone, after a moment where it `saves` what was read.
        """
        decode = decoder_of_requests()
        while True:
            try:
                message = decode(self._pipe.recv_bytes())
            except (EOFError, OSError):
                if saves():
                    self._is_alone = True
                    self._requests.put(None)
                    time.sleep(CLOSING)  # it is killed where that is too long
                os._exit(0)
            except msgspec.DecodeError:
                traceback.print_exc()  # its last line is what the app shows
                os._exit(1)
            if isinstance(message, Cancel):
                self._cancelled.add(message.id)
            elif isinstance(message, Look):
                self._looks[message.id] = message.live
            elif isinstance(message, ReviseEdits):
                self._revisions[message.id] = message
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
            if not self._is_alone:
                os._exit(0)


def _is_long(request: Request[Any]) -> bool:
    """True if tokenising its text takes long."""
    if isinstance(request, EncodeText):
        return len(request.text) >= LONG
    return isinstance(request, Render) and any(len(one.text) >= LONG for one in request.messages)


def _answer(service: Service, request: Request[Any]) -> Reply | InParts[Reply]:
    """Run a request's handler and return its final reply, or the parts that lead to it; one that
    was cancelled while it waited is not begun. Raises `SequenceBusy` where it has to wait.
    """
    try:
        if service.stop_of(request)():
            raise Cancelled("the request")
        if isinstance(request, COMPUTED):
            service.mend(request)
        return HANDLERS[type(request)](service, request)
    except SequenceBusy:
        raise
    except Exception as error:  # noqa: BLE001  the client gets it
        return failed(request.id, error)
