"""A bar of segments: how full something is, and with what."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QRectF, QSize, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import mix

HEIGHT = 10


class Segment(NamedTuple):
    """`tone` is a token of the theme, by `share` over the panel."""

    size: float
    tone: str
    share: float


class SegmentBar(QWidget):
    """Segments from the left, together at most the whole. `pointed` tells which one is under the
    mouse, None for none.
    """

    pointed = Signal(object)

    def __init__(self, width: int) -> None:
        super().__init__()
        self._segments: Sequence[Segment] = ()
        self._whole, self._width = 1.0, width
        self.marked: int | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_segments(self, segments: Sequence[Segment], whole: float) -> None:
        self._segments = segments
        self._whole = max(whole, sum(segment.size for segment in segments), 1e-9)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return fonts.square(HEIGHT).expandedTo(QSize(fonts.px(self._width), 0))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        shape = QPainterPath()
        shape.addRoundedRect(self.rect().toRectF(), 3, 3)
        painter.setClipPath(shape)
        painter.fillRect(self.rect(), QColor(now.divider))
        for n, (left, right) in enumerate(self._edges()):
            segment = self._segments[n]
            share = 1.0 if n == self.marked else segment.share
            colour = QColor(mix(getattr(now, segment.tone), now.panel, share))
            gap = 1 if right - left > 3 and n + 1 < len(self._segments) else 0
            painter.fillRect(QRectF(left, 0, right - left - gap, self.height()), colour)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        x = event.position().x()
        inside = (n for n, (left, right) in enumerate(self._edges()) if left <= x < right)
        self._mark(next(inside, None))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._mark(None)

    def _mark(self, index: int | None) -> None:
        if index != self.marked:
            self.marked = index
            self.update()
            self.pointed.emit(index)

    def _edges(self) -> list[tuple[float, float]]:
        edges, at = [], 0.0
        for segment in self._segments:
            end = at + segment.size / self._whole * self.width()
            edges.append((at, end))
            at = end
        return edges
