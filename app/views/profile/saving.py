"""Saves a recording beside each other: a trace, or a report with its picture and its numbers."""

import json
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QObject, Signal
from PySide6.QtGui import QImage, QImageWriter
from PySide6.QtWidgets import QFileDialog, QWidget

from app.files import write_atomically
from app.state.profile.export import chrome_trace, report
from app.state.profile.recorded import RecordedAnswer, as_json
from app.work import Work
from engine.errors import CutawayError

TRACE, REPORT = "Chrome trace (*.json)", "Report (*.md)"


class Saving(QObject):
    """Asks for a name and writes in a thread; `said` tells what came of it."""

    said = Signal(str)

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view = view

    def trace(self, answer: RecordedAnswer) -> None:
        """For Perfetto or chrome://tracing."""
        path = self._ask("answer.trace.json", TRACE)
        if path is not None:
            self._start(write_trace, path, answer)

    def report(self, answer: RecordedAnswer) -> None:
        """Markdown, with a picture of the view and all numbers in files of the same name."""
        path = self._ask("profile.md", REPORT)
        if path is not None:
            self._start(write_report, path, answer, self._view.grab().toImage())

    def _ask(self, name: str, kinds: str) -> Path | None:
        chosen, _ = QFileDialog.getSaveFileName(self._view, "Save the recording", name, kinds)
        return Path(chosen) if chosen else None

    def _start(self, write: object, *args: object) -> None:
        assert callable(write)
        self.said.emit("Saving …")
        Work(write, *args).then(self._saved).fail(self.said.emit).start(self)

    def _saved(self, paths: list[Path]) -> None:
        self.said.emit(f"Saved {', '.join(path.name for path in paths)} in {paths[0].parent}.")


def write_trace(path: Path, answer: RecordedAnswer) -> list[Path]:
    """Returns what was written. Raises CutawayError where it cannot be."""
    _write(path, json.dumps(chrome_trace(answer)).encode())
    return [path]


def write_report(path: Path, answer: RecordedAnswer, picture: QImage) -> list[Path]:
    """Three files of one name: .md, .png, .json. Raises CutawayError where one cannot be."""
    image, data = path.with_suffix(".png"), path.with_suffix(".json")
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(picture)
    _write(data, json.dumps(as_json([answer])).encode())
    _write(image, bytes(buffer.data().data()))
    _write(path, report(answer, image.name, data.name).encode())
    return [path, image, data]


def _write(path: Path, content: bytes) -> None:
    if not path.parent.is_dir():
        raise CutawayError(f"{path} cannot be written: there is no such folder.")
    try:
        write_atomically(path, content)
    except OSError as error:
        raise CutawayError(f"{path} cannot be written: {error.strerror or error}.") from None
