"""Running text as chips, a word above a number, wrapped like a paragraph."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import DEVICES, RADIUS_CONTROL, mix
from app.widgets.charts.walk import Walk

GAP, HEIGHT = 3, 42
MOST = 5000  # chips painted; more say how many are left out


@dataclass(frozen=True)
class Chip:
    """`breaks` begins a new line after it; `strong` stands out."""

    text: str
    number: str
    strong: bool = False
    breaks: bool = False


class Chips(Walk):
    """Arrows walk over the chips."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._chips: Sequence[Chip] = ()
        self._areas: list[QRectF] = []
        self.setAccessibleName(name)

    def show_chips(self, chips: Sequence[Chip]) -> None:
        self._chips, self._at = chips[:MOST], 0
        said = " ".join(f"{chip.text} {chip.number}," for chip in self._chips[:200])
        self.setAccessibleDescription(said)
        self._place()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(200, self.minimumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._place()

    def stops(self) -> int:
        return len(self._chips)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        text_font, small = fonts.mono(13), fonts.mono(10)
        for at, (chip, area) in enumerate(zip(self._chips, self._areas, strict=True)):
            if not area.intersects(event.rect().toRectF()):
                continue
            here = self.hasFocus() and at == self.at
            under = now.raised if chip.strong else DEVICES[at % len(DEVICES)]
            share = 1.0 if chip.strong else 0.24 if now.dark else 0.16
            painter.setPen(QPen(QColor(now.accent), 2) if here else Qt.PenStyle.NoPen)
            painter.setBrush(QColor(mix(under, now.panel, share)))
            painter.drawRoundedRect(area, RADIUS_CONTROL, RADIUS_CONTROL)
            painter.setFont(text_font)
            painter.setPen(QColor(now.link if chip.strong else now.text))
            half = area.height() * 0.58
            upper = QRectF(area.left(), area.top() + 1, area.width(), half)
            painter.drawText(upper, Qt.AlignmentFlag.AlignCenter, chip.text)
            painter.setFont(small)
            painter.setPen(QColor(now.quiet))
            lower = QRectF(area.left(), area.top() + half, area.width(), area.height() - half - 2)
            painter.drawText(lower, Qt.AlignmentFlag.AlignCenter, chip.number)
        painter.end()

    def _place(self) -> None:
        text, small = QFontMetricsF(fonts.mono(13)), QFontMetricsF(fonts.mono(10))
        height, width = fonts.px(HEIGHT), max(self.width(), 80)
        left = top = 0.0
        self._areas = []
        for chip in self._chips:
            wide = max(text.horizontalAdvance(chip.text), small.horizontalAdvance(chip.number))
            wide = min(wide + 10, width)
            if left and left + wide > width:
                left, top = 0.0, top + height + GAP
            self._areas.append(QRectF(left, top, wide, height))
            left += wide + GAP
            if chip.breaks:
                left, top = 0.0, top + height + GAP
        self.setMinimumHeight(round(top + height) if self._chips else 0)
        self.update()
