"""The engine as a process on this machine: started when first needed, replaced when it hangs."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from queue import SimpleQueue
from time import monotonic
from typing import Any

import msgspec

from app.engine import Abilities, Died, Engine, Restarted, Silent
from app.local_files import LocalFiles
from app.weights import LocalWeights
from engine.errors import Cancelled, CutawayError, WorkerDied
from engine.protocol import Cancel, Failed, Load, Look, Order, Reply, Request, ReviseEdits
from engine.worker import Worker

POLL = 0.1  # seconds between a reader's looks at whether it should end
PATIENCE = 2.0  # seconds that a load may go on once cancelled, and a file's reader at the end
STOPS = 2.5  # seconds after which what was cancelled ends for its client, whatever the engine does
QUIET = 2.5  # seconds without a heartbeat after which it is replaced at a stop
GIVES_UP = 10.0  # seconds after which a worker that ignores Cancel is replaced, though it runs
SILENT = 20.0  # seconds without a heartbeat after which clients are notified

log = logging.getLogger("engine")


@dataclass(eq=False)
class _Sent:
    """A request that the worker has not ended; `cancelled` says since when it should."""

    request: Request[Any]
    cancelled: float = 0.0

    @property
    def should_stop(self) -> bool:
        """True for a load that was cancelled."""
        return isinstance(self.request, Load) and self.cancelled > 0

    def ignores_for(self, now: float) -> float:
        """Seconds since it was cancelled, without end below 0 where it was not."""
        return now - self.cancelled if self.cancelled else -inf


class LocalEngine(Engine):
    """A worker that answers one request after the other, and a thread that reads its replies.

    Requests about files are answered beside it, in a thread each: nobody waits for an answer.
    A load that does not stop within PATIENCE after it was cancelled gets its worker killed; what
    else was asked goes to a fresh one. A worker that neither ends a cancelled request within STOPS
    nor sends heartbeats is killed, which all clients are notified of as of any death. One that is
    still starting may do neither.
    """

    def __init__(self, start: Callable[[], Worker] = Worker) -> None:
        super().__init__()
        self._start = start
        self._worker: Worker | None = None
        self._reader: _Reader | None = None
        self._writer: _Writer | None = None
        self.sent: dict[int, _Sent] = {}  # what the worker has not ended, in its order
        self._waits_since = 0.0  # when the worker got something to do
        self._is_silent = False
        self._ignores: tuple[_Sent, float] | None = None  # a cancelled load, and since when it runs
        self.files = LocalFiles()
        self._reading: list[threading.Thread] = []
        self._closed = False

    @property
    def abilities(self) -> Abilities:
        return Abilities()

    @property
    def alive(self) -> bool:
        """True while a process runs."""
        return self._worker is not None and self._worker.alive

    @property
    def pid(self) -> int | None:
        """The process's id."""
        return self._worker.pid if self._worker is not None else None

    def send(self, request: Request[Any]) -> None:
        if self._closed:
            return
        if type(request) in self.files.answers:
            self._reading = [thread for thread in self._reading if thread.is_alive()]
            job = threading.Thread(target=self._read, args=(request,), name="file", daemon=True)
            self._reading.append(job)
            job.start()
            return
        if not self.sent:
            self._waits_since = monotonic()
        self.sent[request.id] = _Sent(request)
        if self._worker is None:
            self._start_worker()
        self._hand_over(request)

    def weights(self, path: str) -> LocalWeights:
        return LocalWeights(path)

    def stop(self, request: Request[Any]) -> None:
        sent = self.sent.get(request.id)
        if sent is not None:
            sent.cancelled = sent.cancelled or monotonic()
            self._hand_over(Cancel(request.id))

    def order(self, order: Look | ReviseEdits) -> None:
        if order.id in self.sent:
            self._hand_over(order)

    def restart(self) -> None:
        with self.lock:
            if self._closed:
                return
            lost = self._abandon()
            if self._start_worker():
                self.notify(Restarted())
            self._fail(lost, Cancelled("the request"))

    def close(self) -> None:
        with self.lock:
            self._closed = True
            reader = self._reader
            self._worker = self._reader = self._writer = None
        if reader is not None:
            reader.join()
        for job in self._reading:
            job.join(PATIENCE)

    def on_reply(self, worker: Worker, reply: Reply) -> None:
        """A worker says something; one that was replaced is not listened to. For its reader."""
        with self.lock:
            if worker is not self._worker:
                return
            sent = self.sent.get(reply.id)
            if sent is not None and isinstance(reply, Failed | sent.request.ends):
                del self.sent[reply.id]
            self.notify(reply)

    def died(self, worker: Worker | None, error: WorkerDied) -> None:
        """A worker has ended, or could not be started. For its reader."""
        with self.lock:
            if worker is not self._worker:
                return
            lost = self._abandon()
            self.notify(Died(error))
            self._fail(lost, error)

    def replace_if_hung(self, worker: Worker) -> None:
        """Kill a worker whose load has been ignoring Cancel for too long. For its reader."""
        with self.lock:
            first = next(iter(self.sent.values()), None)
            waits = worker is not self._worker or worker.starting
            if waits or first is None or not first.should_stop:
                self._ignores = None
            elif self._ignores is None or self._ignores[0] is not first:
                self._ignores = first, monotonic()
            elif monotonic() - self._ignores[1] > PATIENCE:
                log.warning("loading did not stop; the engine was restarted")
                rest = self._abandon()
                del rest[first.request.id]
                self.sent = {number: _Sent(sent.request) for number, sent in rest.items()}
                if self._start_worker():
                    self.notify(Restarted())
                self._fail([first.request.id], Cancelled("loading"))
                for sent in rest.values():
                    self._hand_over(sent.request)

    def watch(self, worker: Worker) -> None:
        """End what was cancelled and does not end, and see to a worker that is silent. For its
        reader.
        """
        with self.lock:
            if worker is not self._worker:
                return
            now = monotonic()
            silence = now - max(worker.last_message, self._waits_since) if self.sent else 0.0
            late = [sent for sent in self.sent.values() if sent.ignores_for(now) > STOPS]
            reads = now - worker.started  # seconds since it could read a Cancel
            given_up = any(min(sent.ignores_for(now), reads) > GIVES_UP for sent in late)
            self._fail([sent.request.id for sent in late], Cancelled("the request"))
            first = next(iter(self.sent.values()), None)
            hangs = silence > QUIET or (given_up and first in late)
            if late and hangs and not worker.starting:
                log.warning("a cancelled request did not stop; the engine is replaced")
                self.died(worker, WorkerDied(None, "it did not respond and was ended"))
            elif (silence > SILENT) is not self._is_silent:
                self._is_silent = not self._is_silent
                self.notify(Silent(silence if self._is_silent else 0.0))

    def ended(self, worker: Worker) -> bool:
        """Return whether this worker was replaced or stopped. For its reader."""
        return worker is not self._worker

    def _read(self, request: Request[Any]) -> None:
        self.notify(self.files.answer(request))

    def _hand_over(self, message: Request[Any] | Order) -> None:
        if self._writer is not None:
            self._writer.messages.put(message)

    def _start_worker(self) -> bool:
        try:
            self._worker = self._start()
        except OSError as error:
            self.died(None, WorkerDied(None, f"it could not be started: {error}"))
            return False
        self._writer = _Writer(self._worker)
        self._reader = _Reader(self, self._worker, self._writer)
        self._writer.start()
        self._reader.start()
        return True

    def _abandon(self) -> "dict[int, _Sent]":
        """Have no worker any more, its reader takes it down; what it has not answered."""
        if self._worker is not None:
            self._worker.kill()
        self._worker = self._reader = self._writer = self._ignores = None
        self._is_silent = False
        lost, self.sent = self.sent, {}
        return lost

    def _fail(self, lost: Iterable[int], error: CutawayError) -> None:
        for number in lost:
            self.notify(Failed(number, error.kind, str(error)))


class _Writer(threading.Thread):
    """Hands messages to one worker, so that nobody waits for one that does not read: a picture is
    more than a pipe holds. The reader reports a worker's death, once.
    """

    def __init__(self, worker: Worker) -> None:
        super().__init__(name="engine writer", daemon=True)
        self.messages: SimpleQueue[Request[Any] | Order | None] = SimpleQueue()
        self._worker = worker

    def run(self) -> None:
        with contextlib.suppress(WorkerDied):
            while (message := self.messages.get()) is not None:
                self._worker.send(message)

    def end(self) -> None:
        """Send what there is; a worker that still does not read is killed."""
        self.messages.put(None)
        self.join(POLL)
        if self.is_alive():
            self._worker.kill()
            self.join()


class _Reader(threading.Thread):
    """Reads one worker until it dies or is no longer wanted, and takes it down then."""

    def __init__(self, engine: LocalEngine, worker: Worker, writer: _Writer) -> None:
        super().__init__(name="engine reader", daemon=True)
        self._engine, self._worker, self._writer = engine, worker, writer

    def run(self) -> None:
        engine, worker = self._engine, self._worker
        try:
            while not engine.ended(worker):
                reply = worker.receive(POLL)
                if reply is not None:
                    engine.on_reply(worker, reply)
                engine.replace_if_hung(worker)
                engine.watch(worker)
        except WorkerDied as error:
            engine.died(worker, error)
        except msgspec.MsgspecError as error:
            engine.died(worker, WorkerDied(None, f"it sent an invalid message: {error}"))
        self._writer.end()
        worker.close()
