"""What charts paint alike."""

from collections.abc import Iterable, Iterator

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID

_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def paint_head(painter: QPainter, area: QRectF, title: str, number: str, unit: str = "MiB") -> None:
    """A title at the left, a number at the right; a title too long for both is shortened."""
    room = area.width() - _paint_number(painter, area, number, unit) - 2 * GRID
    painter.setFont(fonts.strong())
    painter.setPen(QColor(tokens().text))
    shown = painter.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, int(room))
    painter.drawText(area, _LEFT, shown)


def flow(widths: Iterable[float], room: float) -> Iterator[tuple[float, int]]:
    """For pieces that follow each other, the left edge and the line of each."""
    left, line = 0.0, 0
    for width in widths:
        if left and left + width > room:
            left, line = 0.0, line + 1
        yield left, line
        left += width + 2 * GRID


def _paint_number(painter: QPainter, area: QRectF, text: str, unit: str) -> float:
    """A number at the right, its unit in a quieter colour; the width of both."""
    painter.setFont(fonts.body())
    metrics = painter.fontMetrics()
    painter.setPen(QColor(tokens().quiet))
    painter.drawText(area, _RIGHT, unit)
    painter.setPen(QColor(tokens().text))
    room = metrics.horizontalAdvance(f" {unit}")
    painter.drawText(area.adjusted(0, 0, -room, 0), _RIGHT, text)
    return room + metrics.horizontalAdvance(text)
