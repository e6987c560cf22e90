"""Files dropped on the window."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from app.widgets.overlays.drop import DropShade
from app.widgets.pictures.given import is_picture, local_files, picture_in

MODEL = ".gguf"


class Drops(QObject):
    """Offers to take models dragged over `window`, under a shade over `middle`, and pictures where
    `sees` says that there is a model for them.

    A file stays where it is: a drop is taken as a copy or a link, never as a move, which would let
    the program it comes from delete it.
    """

    model_dropped = Signal(Path)
    pictures_dropped = Signal(list)  # paths, also of folders
    picture_dropped = Signal(object)  # what makes the bytes of one that is not a file, in a thread
    refused = Signal(Path)  # as soon as it is dragged over the window
    blind = Signal(str)  # likewise, of a picture that no model here can see: its name, or nothing

    def __init__(self, window: QWidget, middle: QWidget, sees: Callable[[], bool]) -> None:
        super().__init__(window)
        self._window, self._sees = window, sees
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
        elif isinstance(event, QDropEvent) and _has_any(event.mimeData()):  # enter and move, too
            if kind == QEvent.Type.Drop:
                self._drop(event)
            elif kind == QEvent.Type.DragEnter:
                self._enter(event)
            else:
                _take(event)
            return True
        return False

    def _enter(self, event: QDropEvent) -> None:
        data = event.mimeData()
        paths, picture = local_files(data), picture_in(data) is not None
        shown = [path for path in paths if is_picture(path) or path.is_dir()]
        wanted = any(map(_is_model, paths)) or ((shown or picture) and self._sees())
        if wanted and _take(event):
            self.shade.show_over()
            return
        event.ignore()
        if shown or (picture and not paths):
            self.blind.emit(shown[0].name if shown else "")
        elif paths:
            self.refused.emit(paths[0])

    def _drop(self, event: QDropEvent) -> None:
        self.shade.hide()
        data = event.mimeData()
        paths = local_files(data)
        model = next((path for path in paths if _is_model(path)), None)
        shown = [path for path in paths if is_picture(path) or path.is_dir()]
        picture = picture_in(data) if not paths else None
        takes = model is not None or ((shown or picture is not None) and self._sees())
        if not takes or not _take(event):
            event.ignore()
        elif model is not None:
            self.model_dropped.emit(model)
        elif shown:
            self.pictures_dropped.emit(shown)
        else:
            self.picture_dropped.emit(picture)


def _has_any(data: QMimeData) -> bool:
    """Return whether the window accepts the data: files, or pixels of a picture."""
    return data.hasUrls() or (not data.hasText() and picture_in(data) is not None)


def _take(event: QDropEvent) -> bool:
    """Accept the drop as a copy or a link, whichever is offered."""
    for action in (Qt.DropAction.CopyAction, Qt.DropAction.LinkAction):
        if event.possibleActions() & action:
            event.setDropAction(action)
            event.accept()
            return True
    return False


def _is_model(path: Path) -> bool:
    return path.suffix.lower() == MODEL
