"""Models on this disk, and those that can be fetched."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.fetch.known import KNOWN, KnownModel
from app.library import Stored, list_models
from app.work import Work


class LibraryState(QObject):
    """The lists of the chooser. `opened` gives files that a person opened from elsewhere, `folder`
    the models folder that was chosen, if any. `problem` is one line where the disk could not be
    read.
    """

    changed = Signal()

    def __init__(
        self,
        opened: Callable[[], Sequence[str]] = tuple,
        folder: Callable[[], Path | None] = lambda: None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._opened, self._folder = opened, folder
        self.models: list[Stored] = []
        self.looking = False
        self.known = False  # whether the disk was looked at
        self.problem = ""
        self._again = False

    @property
    def fetchable(self) -> list[KnownModel]:
        """Known models that are not on this disk."""
        names = {path.name.lower() for model in self.models for path in model.paths}
        return [model for model in KNOWN.values() if model.file_name.lower() not in names]

    def knows(self, path: Path) -> bool:
        """Whether a file is in the list."""
        return any(path in model.paths for model in self.models)

    def refresh(self) -> None:
        """Look at the disk in the background; once more after that if it is looked at already."""
        if self.looking:
            self._again = True
            return
        self.looking = True
        self.changed.emit()
        opened = [Path(path) for path in self._opened()]
        work = Work.polling(_list, opened, self._folder())
        work.then(self._on_models).fail(self._on_problem).start(self)

    def _on_models(self, models: list[Stored]) -> None:
        self.models, self.problem, self.known = models, "", True
        self._end()

    def _on_problem(self, text: str) -> None:
        self.problem = text
        self._end()

    def _end(self) -> None:
        self.looking = False
        self.changed.emit()
        if self._again:
            self._again = False
            self.refresh()


def _list(job: Work, opened: Sequence[Path], folder: Path | None) -> list[Stored]:
    return list_models(lambda: job.cancelled, opened, folder)
