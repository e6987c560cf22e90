"""Files dropped on the window."""

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from app.widgets.overlays.drop import DropShade

MODEL = ".gguf"
IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


class Drops(QObject):
    """Offers to take models dragged over `window`, under a shade over `middle`.

    A file stays where it is: a drop is taken as a copy or a link, never as a move, which would let
    the program it comes from delete it.
    """

    model_dropped = Signal(Path)
    refused = Signal(Path)  # as soon as it is dragged over the window

    def __init__(self, window: QWidget, middle: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.shade = DropShade(middle, "Drop to open")
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def leave_to_window(self, *texts_to_keep: QWidget) -> None:
        """Lines and texts would write a dropped file's address; `texts_to_keep` know better."""
        for line in self._window.findChildren(QLineEdit):
            line.setAcceptDrops(False)
        for text in self._window.findChildren(QPlainTextEdit):
            if text not in texts_to_keep:
                text.viewport().setAcceptDrops(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        kind = event.type()
        if kind == QEvent.Type.DragLeave:
            self.shade.hide()
        elif isinstance(event, QDropEvent) and event.mimeData().hasUrls():  # enter and move, too
            if kind == QEvent.Type.Drop:
                self._drop(event)
            elif kind == QEvent.Type.DragEnter:
                self._enter(event)
            else:
                _take(event)
            return True
        return False

    def _enter(self, event: QDropEvent) -> None:
        paths = _paths(event.mimeData())
        if any(_is_model(path) for path in paths) and _take(event):
            self.shade.show_over()
            return
        event.ignore()
        if paths:
            self.refused.emit(paths[0])

    def _drop(self, event: QDropEvent) -> None:
        self.shade.hide()
        model = next((path for path in _paths(event.mimeData()) if _is_model(path)), None)
        if model is not None and _take(event):
            self.model_dropped.emit(model)
        else:
            event.ignore()


def _take(event: QDropEvent) -> bool:
    """Accept the drop as a copy or a link, whichever is offered."""
    for action in (Qt.DropAction.CopyAction, Qt.DropAction.LinkAction):
        if event.possibleActions() & action:
            event.setDropAction(action)
            event.accept()
            return True
    return False


def _paths(data: QMimeData) -> list[Path]:
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


def _is_model(path: Path) -> bool:
    return path.suffix.lower() == MODEL
