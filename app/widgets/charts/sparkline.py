"""The last measurements as a line of small bars."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import mix

BAR, GAP = 3, 1


class Sparkline(QWidget):
    """The newest on the right, as high as its share of the largest."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__()
        self._values: Sequence[float] = ()
        self._most, self._active = most, False
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_values(self, values: Sequence[float], active: bool) -> None:
        """`active` says that more are coming."""
        self._values, self._active = list(values)[-self._most :], active
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._most * (BAR + GAP) - GAP, fonts.px(20))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        top = max(self._values, default=0.0)
        bright = QColor(now.accent if self._active else mix(now.quiet, now.panel, 0.7))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(now.divider))
        for n in range(len(self._values)):
            x = self.width() - (n + 1) * (BAR + GAP) + GAP
            height = max(1.0, self._values[-1 - n] / top * self.height()) if top > 0 else 1.0
            painter.fillRect(QRectF(x, self.height() - height, BAR, height), bright)
        painter.end()
