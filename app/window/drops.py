"""Files dropped on the window."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CARD
from app.widgets.pictures.given import is_picture, local_files, picture_in
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import CENTER, DASHED, Paper
from app.window.given_pictures import is_model

VEIL = 0.88  # its opacity


class DropShade(Painted):
    """A veil with a frame and a few words; it takes no mouse."""

    def __init__(self, parent: QWidget, words: str) -> None:
        super().__init__(words, focus=False)
        self.setParent(parent)
        self._over = parent
        self._words = words
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_over(self) -> None:
        """Cover the parent as it is now."""
        self.setGeometry(self._over.rect())
        self.show()
        self.raise_()

    def draw(self, paper: Paper) -> None:
        now, area = tokens(), self.rect().toRectF()
        with paper.faded(VEIL):
            paper.fill(area, now.canvas)
        frame = area.adjusted(2 * GRID, 2 * GRID, -2 * GRID, -2 * GRID)
        paper.frame(frame, now.accent, 2, RADIUS_CARD, DASHED)
        paper.wrapped(area, self._words, now.text, CENTER, fonts.title())


class Drops(QObject):
    """Offers to take files dragged over `window`, under a shade over `middle`: models always,
    pictures where `sees` says that a model accepts them, others where `has_chat`.

    A file stays where it is: a drop is taken as a copy or a link, never as a move, which would let
    the program it comes from delete it.
    """

    dropped = Signal(list)  # paths of files and folders
    picture_dropped = Signal(object)  # what makes the bytes of one that is not a file, in a thread
    refused = Signal(Path)  # as soon as it is dragged over the window
    blind = Signal(str)  # likewise, of a picture that no model here can see: its name, or nothing

    def __init__(
        self,
        window: QWidget,
        middle: QWidget,
        sees: Callable[[], bool],
        has_chat: Callable[[], bool],
    ) -> None:
        super().__init__(window)
        self._window, self._sees, self._has_chat = window, sees, has_chat
        self.shade = DropShade(middle, tr("Drop to open"))
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
        if self._takes(paths, picture) and _take(event):
            self.shade.show_over()
            return
        event.ignore()
        shown = next(filter(is_picture, paths), None)
        if shown is not None or (picture and not paths):
            self.blind.emit(shown.name if shown is not None else "")
        elif paths:
            self.refused.emit(paths[0])

    def _takes(self, paths: list[Path], picture: bool) -> bool:
        """True if one of the files, or the picture that is no file, can be used now."""
        if not paths:
            return picture and self._sees()
        return any(
            is_model(path) or (self._sees() if is_picture(path) else self._has_chat())
            for path in paths
        )

    def _drop(self, event: QDropEvent) -> None:
        self.shade.hide()
        data = event.mimeData()
        paths = local_files(data)
        picture = picture_in(data) if not paths else None
        if not self._takes(paths, picture is not None) or not _take(event):
            event.ignore()
        elif paths:
            self.dropped.emit(paths)
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
