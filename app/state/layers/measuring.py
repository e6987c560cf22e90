"""How fast devices are with a model, measured once: predicted speeds are reckoned from it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from engine.protocol import DevicesMeasured, Failed, MeasureDevices, Progress
from engine.settings import EngineOptions


class Measuring(QObject):
    """`done` of `total` tells how far it is; `problem` is one line where it has failed."""

    changed = Signal()
    ended = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._id: int | None = None
        self.done = self.total = 0
        self.problem = ""
        client.progress.connect(self._on_progress)

    @property
    def is_busy(self) -> bool:
        return self._id is not None

    def start(
        self, path: Path, options: EngineOptions, devices: Sequence[str], again: bool
    ) -> None:
        """Measure these devices with that model; what was measured before only if `again`."""
        if self.is_busy:
            return
        self.done, self.total, self.problem = 0, 0, ""
        asked = replace(options, device=",".join(devices), place="")
        request = MeasureDevices(0, str(path), asked, again)
        self._id = self._client.ask(request, self._on_measured, self._on_failed)
        self.changed.emit()

    def cancel(self) -> None:
        if self._id is not None:
            self._client.cancel(self._id)

    def _on_progress(self, progress: Progress) -> None:
        if progress.id == self._id:
            self.done, self.total = progress.done, progress.total
            self.changed.emit()

    def _on_measured(self, _: DevicesMeasured) -> None:
        self._id = None
        self.ended.emit()
        self.changed.emit()

    def _on_failed(self, failed: Failed) -> None:
        self._id = None
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()
