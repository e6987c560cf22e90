"""Dots among lines, each of which is something to open: a roofline, for one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPen, QTransform
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import readable
from app.widgets.plots.colours import Floats
from app.widgets.plots.lines import Lines, PlotAxis, PlotLine, colour

NEAR = 12  # pixels from a dot within which it is meant


@dataclass(frozen=True)
class PlotDot:
    """One dot: `description` is what it is in words, `letter` stands in it beside its colour."""

    x: float
    y: float
    description: str
    tone: str = "accent"
    letter: str = ""
    size: int = 16


class Dots(Lines):
    """Arrows walk over the dots from left to right."""

    dot_pointed = Signal(int)  # the dot that the person went to

    def __init__(self, name: str, x: PlotAxis, y: PlotAxis) -> None:
        self.dots: list[PlotDot] = []
        self._order: list[int] = []
        self._marks = _DotMarks(self)
        super().__init__(name, x, y)
        self.box.addItem(self._marks, ignoreBounds=True)

    def show_dots(self, dots: Sequence[PlotDot], lines: Sequence[PlotLine] = ()) -> None:
        """Show other dots and lines."""
        self.dots = list(dots)
        self._order = sorted(range(len(dots)), key=lambda at: dots[at].x)
        self._marks.prepareGeometryChange()
        self.show_lines(lines)

    @property
    def dot(self) -> int | None:
        """The dot under the cursor, by its place in `dots`."""
        return self._order[self.at] if self._order else None

    def set_dot(self, dot: int) -> None:
        """Put the cursor on a dot without a signal."""
        if dot in self._order:
            self.set_cursor(self._order.index(dot))

    def stops(self) -> int:
        return len(self._order)

    def describe(self, at: int) -> str:
        return self.dots[self._order[at]].description if 0 <= at < len(self._order) else ""

    def rows(self) -> list[list[str]]:
        x, y = self.axes
        return [["", x.title, y.title]] + [
            [dot.description, x.text(dot.x), y.text(dot.y)] for dot in self.dots
        ]

    def bounds(self) -> tuple[float, float, float, float]:
        left, right, low, high = super().bounds()
        xs, ys = self.places()
        finite = np.isfinite(xs) & np.isfinite(ys)
        if not self.lines and finite.any():
            left, right, low, high = np.inf, -np.inf, np.inf, -np.inf
        if finite.any():
            pad = 0.1
            left, right = min(left, xs[finite].min() - pad), max(right, xs[finite].max() + pad)
            low, high = min(low, ys[finite].min() - pad), max(high, ys[finite].max() + pad)
        return float(left), float(right), float(low), float(high)

    def restyle(self) -> None:
        super().restyle()
        self._marks.update()

    def set_cursor(self, at: int) -> None:
        super().set_cursor(at)
        self.restyle()

    def point_at(self, place: QPointF) -> None:
        near = self._near(place)
        if near is not None:
            self.set_cursor(near)
            self.dot_pointed.emit(self._order[self.at])

    def walk(self, right: int, down: int) -> None:
        super().walk(right, down)
        if self._order:
            self.dot_pointed.emit(self._order[self.at])

    def tip(self, place: QPointF) -> str:
        near = self._near(place)
        return self.describe(near) if near is not None else ""

    def cursor_place(self) -> QPointF | None:
        dot = self.dot
        if dot is None:
            return None
        xs, ys = self.places()
        return QPointF(float(xs[dot]), float(ys[dot]))

    def places(self) -> tuple[Floats, Floats]:
        """The dots' coordinates; NaN where an axis cannot show them."""
        x, y = self.axes
        return (
            x.place(np.array([dot.x for dot in self.dots], np.float64)),
            y.place(np.array([dot.y for dot in self.dots], np.float64)),
        )

    def _near(self, place: QPointF) -> int | None:
        """The stop nearest to a place, where it is near enough to be meant."""
        xs, ys = self.places()
        wanted = self.pixel_of(place)
        best, least = None, fonts.px(NEAR) * 2.0
        for at, dot in enumerate(self._order):
            if np.isfinite(xs[dot]) and np.isfinite(ys[dot]):
                pixel = self.pixel_of(QPointF(float(xs[dot]), float(ys[dot])))
                far = float(QPoint(pixel - wanted).manhattanLength())
                if far <= least:
                    best, least = at, far
        return best

    def _place_cursor(self) -> None:
        self._cursor.setVisible(False)  # the dot itself is framed


class _DotMarks(QGraphicsObject):
    """Paints the dots in pixels, the one under the cursor last and framed."""

    def __init__(self, plot: Dots) -> None:
        super().__init__()
        self._plot = plot

    def boundingRect(self) -> QRectF:  # noqa: N802
        left, right, low, high = self._plot.bounds()
        return QRectF(left, low, right - left, high - low)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,
        widget: QWidget | None = None,
    ) -> None:
        plot, now = self._plot, tokens()
        xs, ys = plot.places()
        painter.save()
        painter.setWorldTransform(QTransform())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(fonts.small())
        order = sorted(range(len(plot.dots)), key=lambda at: at == plot.dot)
        shown = [at for at in order if np.isfinite(xs[at]) and np.isfinite(ys[at])]
        middles = {at: plot.pixel_of(QPointF(float(xs[at]), float(ys[at]))) for at in shown}
        for at in shown:
            half, chosen = fonts.px(plot.dots[at].size) / 2, at == plot.dot
            painter.setPen(QPen(QColor(now.text if chosen else now.panel), 2 if chosen else 1))
            painter.setBrush(QColor(colour(plot.dots[at].tone)))
            painter.drawEllipse(QPointF(middles[at]), half, half)
        written: list[QPoint] = []
        for at in reversed(shown):  # of dots over each other the upper one has its letter
            dot, middle, wide = plot.dots[at], middles[at], fonts.px(plot.dots[at].size)
            if all((middle - other).manhattanLength() > 1.5 * wide for other in written):
                written.append(middle)
                area = QRectF(middle.x() - wide / 2, middle.y() - wide / 2, wide, wide)
                painter.setPen(QColor(readable(colour(dot.tone))))
                painter.drawText(area, Qt.AlignmentFlag.AlignCenter, dot.letter)
        painter.restore()
