"""The engine's process as Qt signals."""

import contextlib
import threading
from itertools import count, groupby
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from app.inbox import Inbox
from engine import protocol
from engine.errors import WorkerDied
from engine.protocol import Generate
from engine.settings import EngineOptions
from engine.worker import Worker

POLL = 0.1  # seconds between the reader's looks at whether it should end


class EngineClient(QObject):
    """Owns the worker: starts it when first needed, hears it in one thread, ends it in `close`.

    All methods are for the window's thread and return at once; ids are never used twice, also not
    after a restart. Signals carry `engine.protocol` messages, in the order they were sent.
    """

    progress = Signal(object)  # protocol.Progress, the latest of a frame
    loaded = Signal(object)  # protocol.Loaded
    unloaded = Signal(object)  # protocol.Unloaded
    pieces = Signal(object, list)  # request id, its protocol.Piece of this frame
    finished = Signal(object)  # protocol.Finished
    failed = Signal(object)  # protocol.Failed
    memory = Signal(object)  # protocol.Memory: planned before a load, then as it is
    memory_events = Signal(object)  # protocol.MemoryEvents
    step_times = Signal(object)  # protocol.StepTimes, while an answer is written
    predicted = Signal(object)  # protocol.Memory that a load would take
    prediction_failed = Signal(object)  # protocol.Failed
    devices = Signal(object)  # protocol.Devices
    died = Signal(object)  # errors.WorkerDied, once a death
    restarted = Signal()  # a fresh process runs where one had died or was ended

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._inbox = Inbox(self._deliver, self)
        self._ids = count(1)
        self._worker: Worker | None = None
        self._reader: _Reader | None = None
        self._open: dict[int, protocol.Request[Any]] = {}  # requests without their final message
        self._next_prediction: protocol.Predict | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether a process runs."""
        return self._worker is not None and self._worker.alive

    @property
    def pid(self) -> int | None:
        """The process's id."""
        return self._worker.pid if self._worker is not None else None

    def load(self, path: str | Path, options: EngineOptions) -> int:
        """Open a model in place of the one before; what is under way is cancelled."""
        self._cancel_all()
        return self._send(protocol.Load(next(self._ids), str(path), options))

    def unload(self) -> int:
        """Close the model; what is under way is cancelled."""
        self._cancel_all()
        return self._send(protocol.Unload(next(self._ids)))

    def generate(self, request: Generate) -> int:
        """Ask for an answer; `request.id` is replaced by the one returned."""
        return self._send(msgspec.structs.replace(request, id=next(self._ids)))

    def cancel(self, request_id: int) -> None:
        """Stop a request; it still ends with its final message."""
        if self._worker is not None:
            self._hand_over(protocol.Cancel(request_id))

    def predict(self, path: str | Path, options: EngineOptions) -> None:
        """What loading would take: `predicted`, only for the latest question.

        The engine answers in turn, so after what it is doing now.
        """
        request = protocol.Predict(next(self._ids), str(path), options)
        if any(isinstance(r, protocol.Predict) for r in self._open.values()):
            self._next_prediction = request
        else:
            self._send(request)

    def list_devices(self) -> int:
        """Ask for the devices: `devices`."""
        return self._send(protocol.ListDevices(next(self._ids)))

    def restart(self) -> None:
        """A fresh process, whatever became of the one before."""
        self._end_worker()
        self._start_worker()
        self.restarted.emit()

    def close(self) -> None:
        """End the process and the thread; harmless when done twice."""
        self._closed = True
        self._end_worker()
        self._inbox.close()

    def _cancel_all(self) -> None:
        for request in list(self._open.values()):
            if isinstance(request, protocol.Load | protocol.Generate):
                self.cancel(request.id)

    def _send(self, request: protocol.Request[Any]) -> int:
        if self._worker is None and not self._closed:
            self._start_worker()
        self._open[request.id] = request
        self._hand_over(request)
        return request.id

    def _hand_over(self, request: protocol.Request[Any] | protocol.Order) -> None:
        # Of a worker that died the reader tells, once.
        with contextlib.suppress(WorkerDied):
            if self._worker is not None:
                self._worker.send(request)

    def _start_worker(self) -> None:
        try:
            self._worker = Worker()
        except OSError as error:
            self._inbox.put((None, WorkerDied(None, f"it could not be started: {error}")))
            return
        self._reader = _Reader(self._worker, self._inbox)
        self._reader.start()

    def _end_worker(self) -> None:
        worker, reader = self._worker, self._reader
        self._worker = self._reader = self._next_prediction = None
        if reader is not None:
            reader.leave()
        if worker is not None:
            worker.close()
        self._open.clear()

    def _deliver(self, arrived: list[tuple["_Reader | None", protocol.Reply | WorkerDied]]) -> None:
        for (reader, kind, _), group in groupby(arrived, _key):
            replies: list[Any] = [reply for _, reply in group]
            if reader is not self._reader:  # of a process ended meanwhile, also by a slot just now
                continue
            if issubclass(kind, protocol.Piece):
                self.pieces.emit(replies[0].id, replies)
            elif issubclass(kind, protocol.Progress):
                self.progress.emit(replies[-1])
            elif issubclass(kind, WorkerDied):
                self._end_worker()
                self.died.emit(replies[0])
            else:
                for reply in replies:
                    self._pass_on(reply)

    def _pass_on(self, reply: protocol.Reply) -> None:
        request = self._open.pop(reply.id, None)
        match reply:
            case protocol.PlannedMemory() | protocol.HeldMemory():
                self.memory.emit(reply)
            case protocol.MemoryEvents():
                self.memory_events.emit(reply)
            case protocol.StepTimes():
                self.step_times.emit(reply)
            case protocol.Loaded():
                self.loaded.emit(reply)
            case protocol.Unloaded():
                self.unloaded.emit(reply)
            case protocol.Finished():
                self.finished.emit(reply)
            case protocol.Devices():
                self.devices.emit(reply)
            case protocol.PredictedMemory():
                self._end_prediction(reply)
            case protocol.Failed() if isinstance(request, protocol.Predict):
                self._end_prediction(reply)
            case protocol.Failed():
                self.failed.emit(reply)

    def _end_prediction(self, reply: protocol.PredictedMemory | protocol.Failed) -> None:
        following, self._next_prediction = self._next_prediction, None
        if following is not None:
            self._send(following)
        elif isinstance(reply, protocol.PredictedMemory):
            self.predicted.emit(reply)
        else:
            self.prediction_failed.emit(reply)


def _key(item: tuple["_Reader | None", protocol.Reply | WorkerDied]) -> tuple[Any, type, int]:
    reader, reply = item
    return reader, type(reply), 0 if isinstance(reply, WorkerDied) else reply.id


class _Reader(threading.Thread):
    """Puts what one worker sends into the inbox, its death last."""

    def __init__(self, worker: Worker, inbox: Inbox) -> None:
        super().__init__(name="engine reader", daemon=True)
        self._worker, self._inbox = worker, inbox
        self._leaving = threading.Event()

    def run(self) -> None:
        try:
            while not self._leaving.is_set():
                reply = self._worker.receive(POLL)
                if reply is not None:
                    self._inbox.put((self, reply))
        except WorkerDied as error:
            self._inbox.put((self, error))
        except msgspec.MsgspecError as error:
            self._inbox.put((self, WorkerDied(None, f"it sent what is no message: {error}")))

    def leave(self) -> None:
        """End within POLL seconds."""
        self._leaving.set()
        self.join()
