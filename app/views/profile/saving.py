"""Saves a recording as a trace that other programs show."""

import json
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.files import write_named
from app.state.profile.export import chrome_trace
from app.state.profile.recorded import RecordedAnswer
from app.work import Work

TRACE = "Chrome trace (*.json)"


class Saving(QObject):
    """Asks for a name and writes in a thread; `said` tells what came of it."""

    said = Signal(str)

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view = view

    def trace(self, answer: RecordedAnswer) -> None:
        """For Perfetto or chrome://tracing."""
        named = "answer.trace.json"
        chosen, _ = QFileDialog.getSaveFileName(self._view, "Save the recording", named, TRACE)
        if chosen:
            self.said.emit("Saving …")
            Work(write_trace, Path(chosen), answer).then(self._saved).fail(self.said.emit).start(
                self
            )

    def _saved(self, path: Path) -> None:
        self.said.emit(f"Saved {path.name} in {path.parent}.")


def write_trace(path: Path, answer: RecordedAnswer) -> Path:
    """Returns what was written. Raises CutawayError where it cannot be."""
    write_named(path, json.dumps(chrome_trace(answer)).encode())
    return path
