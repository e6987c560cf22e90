"""How fast devices are with a model, measured once: predicted speeds are reckoned from it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.state.session import Session
from engine.protocol import DevicesMeasured, Failed, MeasureDevices
from engine.settings import EngineOptions


class Measuring(QObject):
    """`done` of `total` tells how far it is; `problem` is one line where it has failed.

    Nothing is measured beside an answer, which would slow both: a measurement `waits` until the
    answer is written, and one that runs is cancelled by a question and begins again after it. So it
    is with the requests of other programs, which `follow` tells of.
    """

    changed = Signal()
    ended = Signal()

    def __init__(
        self, client: EngineClient, session: Session, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._wanted: MeasureDevices | None = None
        self.task = Latest(client, self)
        self.task.moved.connect(self.changed)
        self.problem = ""
        self._serves = False
        session.changed.connect(self._on_session)

    @property
    def is_busy(self) -> bool:
        """True while devices are being measured or waiting for it."""
        return self._wanted is not None

    @property
    def waits(self) -> bool:
        """True while the measurement waits for the current answers to end."""
        return self._wanted is not None and (self._serves or self._session.status == "answering")

    def follow(self, serves: bool) -> None:
        """Set whether other programs' requests are answered now."""
        if serves != self._serves:
            self._serves = serves
            self._on_session()

    def start(
        self, path: Path, options: EngineOptions, devices: Sequence[str], again: bool
    ) -> None:
        """Measure these devices with that model; what was measured before only if `again`."""
        if self.is_busy:
            return
        asked = replace(options, device=",".join(devices), place="")
        self._wanted = MeasureDevices(0, str(path), asked, again)
        self.problem = ""
        self._begin()

    def cancel(self) -> None:
        self._wanted = None
        self.task.cancel()
        self.changed.emit()

    def _begin(self) -> None:
        if self._wanted is not None and not self.task.running and not self.waits:
            self.task.ask(self._wanted, self._on_measured, self._on_failed)
        self.changed.emit()

    def _on_session(self) -> None:
        if self.waits and self.task.running:
            self.task.cancel()
        elif self._wanted is not None and not self.task.running:
            self._begin()

    def _on_measured(self, _: DevicesMeasured) -> None:
        self._wanted = None
        self.ended.emit()
        self.changed.emit()

    def _on_failed(self, failed: Failed) -> None:
        if failed.kind != "Cancelled":
            self._wanted, self.problem = None, failed.message
        self._begin()
