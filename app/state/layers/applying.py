"""Applying a placement, which uploads what moved, and measuring the speed of devices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr, tr_n
from app.state.session import Session
from engine.protocol import DevicesMeasured, Failed, MeasureDevices, Move, Moved
from engine.settings import EngineOptions
from engine.units import MIB


class Applying(QObject):
    """`result` says in a sentence what came of it, `failed` whether that was nothing.

    `done` of `total` reports how far a move is; `total` is 0 until the engine has reported it. A
    placement that an open model cannot take `needs_load`, if it is wanted all the same.
    """

    changed = Signal()
    moved = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        load: Callable[[Path, EngineOptions], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._load = session, load
        self.task = Latest(client, self)
        self._ends = False  # what moved is being shown
        self.task.moved.connect(self.changed)
        self.result = ""
        self.failed = self.needs_load = False

    @property
    def is_busy(self) -> bool:
        return self.task.running or self._ends

    def start(self, path: Path, options: EngineOptions, is_open: bool) -> None:
        """Move the open model's layers, or load the file."""
        self.forget_result()
        if not is_open:
            self._load(path, options)
            return
        self.task.send(
            Move(0, options), lambda moved: self._on_moved(moved, options), self._on_failed
        )
        self.changed.emit()

    def cancel(self) -> None:
        """Stop; the old placement stays."""
        self.task.cancel()

    def forget_result(self) -> None:
        """It is about a placement that is no longer shown."""
        self.result, self.failed, self.needs_load = "", False, False

    def _on_moved(self, moved: Moved, options: EngineOptions) -> None:
        self.result = moved_text(moved)
        self._ends = True  # while busy: it is no other model
        self._session.take_moved(moved.loaded, options)
        self._ends = False
        self.moved.emit()
        self.changed.emit()

    def _on_failed(self, failed: Failed) -> None:
        self.failed, self.needs_load = True, failed.kind == "NeedsReload"
        stays = tr("The previous placement is still in use.")
        if self.needs_load:
            stays += f" {tr('Load reopens the model with this one.')}"
        self.result = (
            tr("Cancelled. {stays}", stays=stays)
            if failed.kind == "Cancelled"
            else f"{failed.message}. {stays}"
        )
        self.changed.emit()


def moved_text(moved: Moved) -> str:
    """Describe in a sentence what was uploaded and what was kept."""
    tensors = tr_n("{n} tensor", "{n} tensors", moved.n_uploaded)
    clauses = [tr("Nothing had to be uploaded")]
    if moved.n_uploaded:
        clauses = [
            tr(
                "{tensors} uploaded, {uploaded_bytes:.1f} MiB",
                tensors=tensors,
                uploaded_bytes=moved.uploaded_bytes / MIB,
            )
        ]
    if moved.copied_bytes:
        clauses.append(
            tr(
                "{copied_bytes:.1f} MiB copied from device to device",
                copied_bytes=moved.copied_bytes / MIB,
            )
        )
    if moved.n_kept:
        tokens = tr_n("{n} token", "{n} tokens", moved.n_kept)
        clauses.append(tr("{tokens} of the chat still cached", tokens=tokens))
    return f"{'; '.join(clauses)}."


class Measuring(QObject):
    """`done` of `total` reports how far it is; `problem` is one line where it has failed.

    Nothing is measured beside an answer, which would slow both: a measurement `waits` until the
    answer is written, and one that runs is cancelled by a question and begins again after it. So it
    is with the requests of other programs, which `follow` passes on.
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
        wanted_options = replace(options, device=",".join(devices), place="")
        self._wanted = MeasureDevices(0, str(path), wanted_options, again)
        self.problem = ""
        self._begin()

    def cancel(self) -> None:
        self._wanted = None
        self.task.cancel()
        self.changed.emit()

    def _begin(self) -> None:
        if self._wanted is not None and not self.task.running and not self.waits:
            self.task.send(self._wanted, self._on_measured, self._on_failed)
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
