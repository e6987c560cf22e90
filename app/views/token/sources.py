"""The sources of a word as a list: bars, words and percentages."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL, mix
from app.views.token.words import percent
from app.widgets.basics import TEXT_SIZE
from app.widgets.charts.walk import Walk
from app.widgets.tokens.lights import UNDERLINED, light_colour

NAME, LEAST = 96, 190  # pixels of a word, of a line
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class SourceLine(NamedTuple):
    """`strength` is how strongly its word is lit, None where nothing is lit for it."""

    text: str
    share: float
    strength: float | None


class SourceList(Walk):
    """Left, Right, Up and Down walk; Enter or a click picks a line. In two columns where there is
    room for them.
    """

    picked = Signal(int)  # the place of a line

    def __init__(self) -> None:
        super().__init__()
        self.lines: Sequence[SourceLine] = ()
        self.setAccessibleName("Sources of the word")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)

    def show_lines(self, lines: Sequence[SourceLine]) -> None:
        if list(lines) != list(self.lines):
            self.lines = lines
            said = ", ".join(f"{line.text} {percent(line.share)}" for line in lines)
            self.setAccessibleDescription(said or "None yet")
            self.updateGeometry()
            self.update()

    def stops(self) -> int:
        return len(self.lines)

    def walked(self) -> None:
        line = self.lines[self.at]
        said = f"{line.text} {percent(line.share)}, {self.at + 1} of {len(self.lines)}"
        self.setAccessibleDescription(said)

    def chosen(self) -> bool:
        self.picked.emit(self.at)
        return True

    def area(self, at: int) -> QRectF:
        """Where a line stands."""
        columns = self._columns()
        deep = -(-len(self.lines) // columns)
        wide, tall = self.width() / columns, self._line()
        return QRectF(at // deep * wide, at % deep * tall, wide - GRID, tall)

    def sizeHint(self) -> QSize:  # noqa: N802
        deep = -(-len(self.lines) // self._columns())
        return QSize(fonts.px(LEAST), round(deep * self._line()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(LEAST), self.sizeHint().height())

    def resizeEvent(self, event: object) -> None:  # noqa: N802
        self.updateGeometry()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.updateGeometry()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        found = self._under(event)
        if found is not None:
            self.go(found)
            self.picked.emit(found)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        over = self._under(event) is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(fonts.small())
        for at, line in enumerate(self.lines):
            self._paint_line(painter, line, self.area(at), self.hasFocus() and at == self.at)
        painter.end()

    def _paint_line(self, painter: QPainter, line: SourceLine, area: QRectF, focused: bool) -> None:
        now, metrics = tokens(), painter.fontMetrics()
        numbers = metrics.horizontalAdvance("< 0.1 %") + 4
        name = min(fonts.px(NAME), area.width() - numbers - fonts.px(24))
        text = metrics.elidedText(line.text, Qt.TextElideMode.ElideRight, int(name) - 8)
        word = QRectF(area.left() + 2, area.top() + 1, name - 4, area.height() - 2)
        if line.strength is not None:
            lit = QRectF(
                word.left(), word.top(), metrics.horizontalAdvance(text) + 6, word.height()
            )
            painter.fillRect(lit, QColor(light_colour(line.strength)))
            if line.strength >= UNDERLINED:
                painter.setPen(QPen(QColor(now.attention), 1))
                painter.drawLine(lit.bottomLeft(), lit.bottomRight())
        painter.setPen(QColor(now.text if line.strength is not None else now.quiet))
        painter.drawText(word.adjusted(3, 0, 0, 0), _LEFT, text)
        room = area.width() - name - numbers
        bar = QRectF(area.left() + name, area.center().y() - 4, room, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(now.raised))
        painter.drawRoundedRect(bar, 2, 2)
        bar.setWidth(max(1.0, room * min(line.share, 1.0)))
        tone = now.attention if line.strength is not None else now.quiet
        painter.setBrush(QColor(mix(tone, now.panel, 0.7)))
        painter.drawRoundedRect(bar, 2, 2)
        painter.setPen(QColor(now.text))
        painter.drawText(area.adjusted(0, 0, -2, 0), _RIGHT, percent(line.share))
        if focused:
            painter.setPen(QPen(QColor(now.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            frame = area.adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(frame, RADIUS_CONTROL, RADIUS_CONTROL)

    def _columns(self) -> int:
        return 2 if self.width() >= 2 * fonts.px(LEAST) + GRID and len(self.lines) > 4 else 1

    def _line(self) -> float:
        return QFontMetricsF(fonts.small()).height() + 4

    def _under(self, event: QMouseEvent) -> int | None:
        places = range(len(self.lines))
        return next((n for n in places if self.area(n).contains(event.position())), None)
