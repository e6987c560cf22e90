"""The engine's process as Qt signals."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.protocol import Generate
from engine.settings import EngineOptions


class EngineClient(QObject):
    """Owns the worker: starts it when first needed, hears it in one thread, ends it in `close`.

    All methods are for the window's thread and return at once; ids are never used twice, also not
    after a restart. Signals carry `engine.protocol` messages:
    """

    progress = Signal(object)  # protocol.Progress, the latest of a frame
    loaded = Signal(object)  # protocol.Loaded
    unloaded = Signal(object)  # protocol.Unloaded
    pieces = Signal(int, list)  # request id, its protocol.Piece of this frame
    finished = Signal(object)  # protocol.Finished
    failed = Signal(object)  # protocol.Failed
    memory = Signal(object)  # protocol.Memory: planned before a load, then as it is
    predicted = Signal(object)  # protocol.Memory that a load would take
    devices = Signal(object)  # protocol.Devices
    died = Signal(object)  # errors.WorkerDied, once a death
    restarted = Signal()  # a fresh process runs after a death

    @property
    def alive(self) -> bool:
        """Whether a process runs."""
        ...

    @property
    def pid(self) -> int | None:
        """The process's id."""
        ...

    def load(self, path: str | Path, options: EngineOptions) -> int:
        """Open a model in place of the one before; answers under way are cancelled."""
        ...

    def unload(self) -> int: ...

    def generate(self, request: Generate) -> int:
        """Ask for an answer; `request.id` is replaced by the one returned."""
        ...

    def cancel(self, request_id: int) -> None:
        """Stop a request; it still ends with its final message."""

    def predict(self, path: str | Path, options: EngineOptions) -> None:
        """What loading would take: `predicted`, only for the latest question."""

    def list_devices(self) -> int: ...

    def restart(self) -> None:
        """A fresh process, whatever became of the one before."""

    def close(self) -> None:
        """End the process and the thread; harmless when done twice."""
