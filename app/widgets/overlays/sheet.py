"""A panel laid over the window: it keeps the keyboard, and goes on Esc or a click beside it."""

from PySide6.QtCore import QEvent, QObject, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QFrame, QVBoxLayout, QWidget

from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import TEXT_SIZE, surface
from app.widgets.focus import focus_first, move_focus


class Sheet(QWidget):
    """Shows `content` over its parent, at most `width` by `height` (0: as high as it asks)."""

    closed = Signal()

    def __init__(self, parent: QWidget, content: QWidget, width: int, height: int = 0) -> None:
        super().__init__(parent)
        self._over, self._wanted = parent, (width, height)
        self._before: QWidget | None = None
        self.content = content
        self.card = QFrame(self)
        surface(self.card, "card")
        inside = QVBoxLayout(self.card)
        inside.setContentsMargins(1, 1, 1, 1)
        inside.addWidget(content)
        self.setAccessibleName(content.accessibleName())
        parent.installEventFilter(self)
        self.hide()

    def open(self) -> None:
        """Show it and take the keyboard."""
        if not self.isVisible():
            self._before = QApplication.focusWidget()
            self._place()
            self.show()
            self.raise_()
        focus_first(self.content)

    def dismiss(self) -> None:
        """Hide it and give the keyboard back."""
        if not self.isVisible():
            return
        self.hide()
        if self._before is not None and self._before.isVisible():
            self._before.setFocus()
        self._before = None
        self.closed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Resize and watched is self._over:
            self._place()
        return False

    def event(self, event: QEvent) -> bool:
        # Esc is also a shortcut of the window; the sheet in front is asked first.
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE and self.isVisible():
            QTimer.singleShot(0, self, self._place)  # once all in the card is of the new size

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if not self.card.geometry().contains(event.position().toPoint()):
            self.dismiss()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        return move_focus(self, forward) or True  # the keyboard stays

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.fillRect(event.rect(), QColor(0, 0, 0, 90))
        painter.end()

    def _place(self) -> None:
        area = self._over.rect()
        self.setGeometry(area)
        width = min(fonts.px(self._wanted[0]), area.width() - 4 * GRID)
        height = fonts.px(self._wanted[1]) or self.card.sizeHint().height()
        height = min(height, area.height() - 8 * GRID)
        left = (area.width() - width) // 2
        top = min(7 * GRID, (area.height() - height) // 2)
        self.card.setGeometry(QRect(left, top, width, height))
