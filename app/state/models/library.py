"""Models on this disk, and those that can be fetched."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from app.library import Stored, list_models
from app.work import Work
from engine.settings import model_folders

SETTLES_MS = 500  # a change of a folder is seldom alone
RECENT_S = 2.0
MOST_WATCHED = 256  # folders


class LibraryState(QObject):
    """The lists of the chooser. `opened` gives files that a person opened from elsewhere, `folder`
    the models folder that was chosen, if any, `watched` others to look in. `problem` is one line
    where the disk could not be read. The folders of
    the list are watched, so it follows what other programs do there.
    """

    changed = Signal()

    def __init__(
        self,
        opened: Callable[[], Sequence[str]] = tuple,
        folder: Callable[[], Path | None] = lambda: None,
        watched: Callable[[], Sequence[str]] = tuple,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._opened, self._folder, self._watched = opened, folder, watched
        self.models: list[Stored] = []
        self.looking = False
        self.known = False  # whether the disk was looked at
        self.problem = ""
        self._again = False
        self._watcher = QFileSystemWatcher(self)
        self._soon = QTimer(self, singleShot=True, interval=SETTLES_MS)
        self._watcher.directoryChanged.connect(lambda _: self._soon.start())
        self._soon.timeout.connect(self.refresh)
        self._looked_at = 0.0

    def knows(self, path: Path) -> bool:
        """Return whether a file is in the list."""
        return any(path in model.paths for model in self.models)

    def refresh(self) -> None:
        """Look at the disk in the background; once more after that if it is looked at already."""
        if self.looking:
            self._again = True
            return
        self.looking = True
        self.changed.emit()
        opened = [Path(path) for path in self._opened()]
        work = Work.polling(_list, opened, self._folder(), self._watched_folders)
        work.then(self._on_models).fail(self._on_problem).start(self)

    @property
    def _watched_folders(self) -> list[Path]:
        return [Path(folder) for folder in self._watched()]

    def look_again(self) -> None:
        """Refresh, unless the disk was looked at just now; for a window that is activated."""
        if self.known and monotonic() - self._looked_at > RECENT_S:
            self.refresh()

    def _on_models(self, models: list[Stored]) -> None:
        self.models, self.problem, self.known = models, "", True
        self._looked_at = monotonic()
        self._watch()
        self._end()

    def _watch(self) -> None:
        """Notice files that come or go beside those in the list, and in our own folders."""
        folders = dict.fromkeys(str(folder) for folder in model_folders(self._folder()))
        folders |= dict.fromkeys(str(folder) for folder in self._watched_folders)
        folders |= dict.fromkeys(str(path.parent) for m in self.models for path in m.paths)
        wanted = {folder for folder in list(folders)[:MOST_WATCHED] if os.path.isdir(folder)}
        watched = set(self._watcher.directories())
        if watched - wanted:
            self._watcher.removePaths(sorted(watched - wanted))
        if wanted - watched:
            self._watcher.addPaths(sorted(wanted - watched))

    def _on_problem(self, text: str) -> None:
        self.problem = text
        self._end()

    def _end(self) -> None:
        self.looking = False
        self.changed.emit()
        if self._again:
            self._again = False
            self.refresh()


def _list(
    job: Work, opened: Sequence[Path], folder: Path | None, watched: Sequence[Path]
) -> list[Stored]:
    return list_models(lambda: job.cancelled, opened, folder, watched)
