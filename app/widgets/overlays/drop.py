"""What lies over the window while a file is dragged over it."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CARD


class DropShade(QWidget):
    """A veil with a frame and a few words; it takes no mouse."""

    def __init__(self, parent: QWidget, words: str) -> None:
        super().__init__(parent)
        self._over = parent
        self._words = words
        self.setAccessibleName(words)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_over(self) -> None:
        """Cover the parent as it is now."""
        self.setGeometry(self._over.rect())
        self.show()
        self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(tokens().canvas)
        veil.setAlpha(225)
        painter.fillRect(self.rect(), veil)
        pen = QPen(QColor(tokens().accent), 2, Qt.PenStyle.DashLine)
        painter.setPen(pen)
        frame = self.rect().toRectF().adjusted(2 * GRID, 2 * GRID, -2 * GRID, -2 * GRID)
        painter.drawRoundedRect(frame, RADIUS_CARD, RADIUS_CARD)
        painter.setFont(fonts.title())
        painter.setPen(QColor(tokens().text))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self._words)
        painter.end()
