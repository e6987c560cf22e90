"""Models that are deleted or moved in the background."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app import storage
from app.language import tr
from app.library import Stored
from app.storage import Deletion, StorageError
from app.work import Work

log = logging.getLogger("fetch")


@dataclass(frozen=True)
class StorageTask:
    """A model that is being deleted or moved, in bytes; `problem` says why that failed."""

    name: str
    action: Literal["delete", "move"]
    done: int = 0
    total: int = 0
    stopping: bool = False
    problem: str = ""


class StorageState(QObject):
    """At most one task at a time, `task`; it stays with its problem where it failed. `models` are
    all that are known, `open_path` is that of the model that is open.
    """

    changed = Signal()
    finished = Signal(str, object)  # name; the new Path of a moved model, None of a deleted one

    def __init__(
        self,
        models: Callable[[], Sequence[Stored]],
        open_path: Callable[[], Path | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._models, self._open_path = models, open_path
        self.task: StorageTask | None = None
        self._work: Work | None = None
        self._stop = threading.Event()

    @property
    def busy(self) -> bool:
        """True while a task is running."""
        return self._work is not None

    def deletion(self, model: Stored) -> Deletion:
        """The files that deleting or moving a model takes away, to be shown before. Raises
        StorageError with the next step.
        """
        if self._open_path() in model.paths:
            raise StorageError(tr("{name} is open; open another model first", name=model.name))
        return storage.deletion(model, self._models())

    def delete(self, planned: Deletion) -> None:
        """Delete what `deletion` gave; nothing while a task is under way."""
        if not self.busy:
            task = StorageTask(planned.name, "delete", total=planned.size)
            self._begin(task, Work(storage.delete, planned))

    def move(self, model: Stored, folder: Path) -> None:
        """Move a model into another folder; nothing while a task is under way. Raises as
        `deletion`.
        """
        planned = self.deletion(model)
        if not self.busy:
            task = StorageTask(model.name, "move", total=planned.size)
            others = list(self._models())
            self._begin(task, Work.polling(_move, model, folder, others, self._stop))

    def cancel(self) -> None:
        """Stop moving: the model is where it was. A deletion is over at once."""
        if self.busy and self.task is not None and self.task.action == "move":
            self._stop.set()
            self.task = replace(self.task, stopping=True)
            self.changed.emit()

    def _begin(self, task: StorageTask, work: Work) -> None:
        self.task = task
        self._stop.clear()
        work.then(self._on_done).fail(self._on_failed).progress(self._on_progress)
        self._work = work.start(self)
        self.changed.emit()

    def _on_progress(self, done: int, total: int) -> None:
        if self.task is not None:
            self.task = replace(self.task, done=done, total=total)
            self.changed.emit()

    def _on_done(self, path: Path | None) -> None:
        assert self.task is not None
        name, self.task, self._work = self.task.name, None, None
        log.info("%s: %s", name, f"is at {path}" if path else "deleted")
        self.changed.emit()
        self.finished.emit(name, path)

    def _on_failed(self, problem: str) -> None:
        assert self.task is not None
        stopped, self._work = self.task.stopping, None
        self.task = None if stopped else replace(self.task, problem=problem)
        log.warning("%s", problem)
        self.changed.emit()


def _move(
    job: Work, model: Stored, folder: Path, others: Sequence[Stored], stop: threading.Event
) -> Path:
    def stopped() -> bool:
        return job.cancelled or stop.is_set()

    return storage.move(model, folder, job.report, stopped, others)
