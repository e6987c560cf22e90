"""A placement put into effect: what moved is uploaded to the open model, or a file is loaded so."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.state.session import Session
from engine.protocol import Failed, Move, Moved, Progress
from engine.settings import EngineOptions
from engine.units import MIB


class Applying(QObject):
    """`result` says in a sentence what came of it, `failed` whether that was nothing.

    `done` of `total` tells how far a move is; `total` is 0 until the engine has told it. A
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
        self._client, self._session, self._load = client, session, load
        self._id: int | None = None
        self.done = self.total = 0
        self.result = ""
        self.failed = self.needs_load = False
        client.progress.connect(self._on_progress)

    @property
    def is_busy(self) -> bool:
        return self._id is not None

    def start(self, path: Path, options: EngineOptions, is_open: bool) -> None:
        """Move the open model's layers, or load the file."""
        self.forget_result()
        self.done = self.total = 0
        if not is_open:
            self._load(path, options)
            return
        self._id = self._client.ask(
            Move(0, options), lambda moved: self._on_moved(moved, options), self._on_failed
        )
        self.changed.emit()

    def cancel(self) -> None:
        """Stop; the old placement stays."""
        if self._id is not None:
            self._client.cancel(self._id)

    def forget_result(self) -> None:
        """It is about a placement that is no longer shown."""
        self.result, self.failed, self.needs_load = "", False, False

    def _on_progress(self, progress: Progress) -> None:
        if progress.id == self._id:
            self.done, self.total = progress.done, progress.total
            self.changed.emit()

    def _on_moved(self, moved: Moved, options: EngineOptions) -> None:
        self.result = told(moved)
        self._session.take_moved(moved.loaded, options)  # while busy: it is no other model
        self._id = None
        self.moved.emit()
        self.changed.emit()

    def _on_failed(self, failed: Failed) -> None:
        self._id = None
        self.failed, self.needs_load = True, failed.kind == "NeedsReload"
        stays = "The previous placement is still in use."
        if self.needs_load:
            stays += " Load reopens the model with this one."
        self.result = (
            f"Cancelled. {stays}" if failed.kind == "Cancelled" else f"{failed.message}. {stays}"
        )
        self.changed.emit()


def told(moved: Moved) -> str:
    """Describe in a sentence what was uploaded and what was kept."""
    tensors = "1 tensor" if moved.n_uploaded == 1 else f"{moved.n_uploaded} tensors"
    said = ["Nothing had to be uploaded"]
    if moved.n_uploaded:
        said = [f"{tensors} uploaded, {moved.uploaded_bytes / MIB:.1f} MiB"]
    if moved.copied_bytes:
        said.append(f"{moved.copied_bytes / MIB:.1f} MiB copied from device to device")
    if moved.n_kept:
        tokens = "1 token" if moved.n_kept == 1 else f"{moved.n_kept} tokens"
        said.append(f"{tokens} of the chat still cached")
    return f"{'; '.join(said)}."
