"""Spans of time on lanes: who did what when, down to the shortest launch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QPainter, QPen, QTransform
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import readable
from app.widgets.plots.canvas import BETWEEN, PlotCanvas, round_marks
from app.widgets.plots.lines import colour

LEAST_WRITTEN = 24  # pixels of a span from which on its name is written
SHARE = 0.76  # of a lane's height that spans take
CLOSEST = 1e-6  # of the whole that can be zoomed to
Times = NDArray[np.float64]


@dataclass(frozen=True)
class SpanLane:
    """Spans [n] by start and end, ascending and without overlap; `kind` [n] is each one's place in
    `tones` (colours of the theme, or #rrggbb). `text(i)` is short, `says(i)` all of it.
    """

    name: str
    starts: Times
    ends: Times
    kind: NDArray[np.integer]
    tones: Sequence[str]
    text: Callable[[int], str]
    describe: Callable[[int], str]
    hatched: frozenset[int] = field(default_factory=frozenset)  # kinds


class TimeLanes(PlotCanvas):
    """Left and Right go to the next span of a lane, Up and Down to the lane beside it."""

    pointed = Signal(int, int)  # lane and span that the person went to

    def __init__(self, name: str, time: Callable[[float], str]) -> None:
        super().__init__(name)
        self._time = time
        self.lanes: list[SpanLane] = []
        self.at: tuple[int, int] | None = None
        self.marked = False  # whether the span under the cursor is framed without the keyboard
        self.whole = (0.0, 1.0)
        self._spans = Spans(self)
        self.box.invertY(True)
        self.box.setMouseEnabled(x=True, y=False)
        self.box.setDefaultPadding(0.0)
        self.box.addItem(self._spans, ignoreBounds=True)
        self.dress()

    def show_lanes(self, lanes: Sequence[SpanLane]) -> None:
        """Show others, all of their time."""
        self.lanes, self.at, self.marked = list(lanes), None, False
        busy = [lane for lane in lanes if len(lane.starts)]
        low = min((float(lane.starts[0]) for lane in busy), default=0.0)
        high = max((float(lane.ends[-1]) for lane in busy), default=1.0)
        self.whole = (low, high if high > low else low + 1)
        if busy:
            self.at = self.lanes.index(busy[0]), 0
        length, rows = self.whole[1] - self.whole[0], max(len(lanes), 1)
        self.box.setLimits(
            xMin=self.whole[0],
            xMax=self.whole[1],
            yMin=0,
            yMax=rows,
            minXRange=length * CLOSEST,
            minYRange=rows,
        )
        self._spans.prepareGeometryChange()
        self.show_all()
        self._describe()

    def set_cursor(self, lane: int, span: int) -> None:
        """Put the cursor on a span without a signal, and bring it into view."""
        if 0 <= lane < len(self.lanes) and 0 <= span < len(self.lanes[lane].starts):
            self.at, self.marked = (lane, span), True
            self._scroll_to()
            self._describe()
            self._spans.update()

    def unmark(self) -> None:
        """Nothing is framed without the keyboard."""
        self.marked = False
        self._spans.update()

    def show_time(self, start: float, end: float) -> None:
        """Make a piece of time fill the plot."""
        self.box.setXRange(start, end, padding=0)

    def description(self) -> str:
        """The span under the cursor in words."""
        return "" if self.at is None else self.lanes[self.at[0]].describe(self.at[1])

    def rows(self) -> list[list[str]]:
        """The visible spans."""
        seen = self.seen
        made = [["lane", "start", "length", "what"]]
        for lane in self.lanes:
            for at in _between(lane, seen.left(), seen.right()):
                start, length = float(lane.starts[at]), float(lane.ends[at] - lane.starts[at])
                made.append([lane.name, self._time(start), self._time(length), lane.describe(at)])
        return made

    # What the canvas calls

    def show_all(self) -> None:
        rows = max(len(self.lanes), 1)
        self.box.setRange(xRange=self.whole, yRange=(0, rows), padding=0)
        self.ranged()

    def ranged(self) -> None:
        self.set_left([(at + 0.5, lane.name) for at, lane in enumerate(self.lanes)])
        seen, room = self.seen, self.room
        wide = lambda text: self.width_of(text) + BETWEEN  # noqa: E731
        self.set_bottom(round_marks(seen.left(), seen.right(), room.width(), wide, self._time))
        self._spans.update()

    def restyle(self) -> None:
        self._spans.update()

    def tip(self, place: QPointF) -> str:
        found = self._under(place)
        return "" if found is None else self.lanes[found[0]].describe(found[1])

    def point_at(self, place: QPointF) -> None:
        found = self._under(place)
        if found is not None:
            self.set_cursor(*found)
            self.pointed.emit(*found)

    def walk(self, right: int, down: int) -> None:
        if self.at is None:
            return
        lane, span = self.at
        if right:
            span = min(max(span + right, 0), len(self.lanes[lane].starts) - 1)
        else:
            step, middle = (1 if down > 0 else -1), self._middle(lane, span)
            beside = range(lane + step, len(self.lanes) if step > 0 else -1, step)
            busy = next((at for at in beside if len(self.lanes[at].starts)), lane)
            if busy != lane:
                starts = self.lanes[busy].starts
                lane, span = busy, max(int(np.searchsorted(starts, middle, side="right")) - 1, 0)
        self.set_cursor(lane, span)
        self.pointed.emit(lane, span)

    def cursor_place(self) -> QPointF | None:
        return None if self.at is None else QPointF(self._middle(*self.at), self.at[0] + 0.5)

    def zoom(self, share: float, about: QPointF | None = None) -> None:
        center = about if about is not None else self.seen.center()
        self.box.scaleBy((share, 1.0), center=center)

    def span_area(self, lane: int, start: float, end: float) -> QRectF:
        """Where a span is, in pixels of the view."""
        to, gap = self.box.mapViewToScene, (1 - SHARE) / 2
        return QRectF(to(QPointF(start, lane + gap)), to(QPointF(end, lane + 1 - gap))).normalized()

    def _middle(self, lane: int, span: int) -> float:
        shown = self.lanes[lane]
        return float(shown.starts[span] + shown.ends[span]) / 2

    def _under(self, place: QPointF) -> tuple[int, int] | None:
        """The span there; of several on one pixel the nearest."""
        lane = floor(place.y())
        if not 0 <= lane < len(self.lanes) or not len(self.lanes[lane].starts):
            return None
        starts, ends = self.lanes[lane].starts, self.lanes[lane].ends
        before = max(int(np.searchsorted(starts, place.x(), side="right")) - 1, 0)
        near = [at for at in (before, before + 1) if at < len(starts)]
        away = [max(starts[at] - place.x(), place.x() - ends[at], 0.0) for at in near]
        pixel = self.seen.width() / self.room.width()
        best = int(np.argmin(away))
        return (lane, near[best]) if away[best] <= 2 * pixel else None

    def _scroll_to(self) -> None:
        assert self.at is not None
        seen, middle = self.seen, self._middle(*self.at)
        if not seen.left() <= middle <= seen.right():
            self.box.translateBy(x=middle - seen.center().x())

    def _describe(self) -> None:
        self.setAccessibleDescription(self.description() or tr("nothing to show yet"))


def _between(lane: SpanLane, start: float, end: float) -> range:
    """The spans of a lane that reach into a piece of time."""
    first = int(np.searchsorted(lane.ends, start, side="right"))
    return range(first, int(np.searchsorted(lane.starts, end, side="left")))


class Spans(QGraphicsObject):
    """Paints, in pixels, what is visible; spans of less than a pixel are drawn as one."""

    def __init__(self, plot: TimeLanes) -> None:
        super().__init__()
        self._plot = plot

    def boundingRect(self) -> QRectF:  # noqa: N802
        low, high = self._plot.whole
        return QRectF(low, 0, high - low, max(len(self._plot.lanes), 1))

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,
        widget: QWidget | None = None,
    ) -> None:
        painter.save()
        painter.setWorldTransform(QTransform())
        painter.setFont(fonts.small())
        for at, lane in enumerate(self._plot.lanes):
            self._paint_lane(painter, at, lane)
        self._paint_cursor(painter)
        painter.restore()

    def _paint_lane(self, painter: QPainter, at: int, lane: SpanLane) -> None:
        plot, seen = self._plot, self._plot.seen
        visible = _between(lane, seen.left(), seen.right())
        if not len(visible):
            return
        piece = slice(visible.start, visible.stop)
        whole = plot.span_area(at, seen.left(), seen.right())
        per = whole.width() / seen.width()
        left = whole.left() + (lane.starts[piece] - seen.left()) * per
        right = whole.left() + (lane.ends[piece] - seen.left()) * per
        # One of each pixel is enough, and all that are wider.
        pixel = np.floor(left)
        kept = np.ones(len(left), bool)
        kept[1:] = (pixel[1:] != pixel[:-1]) | (right[1:] - left[1:] >= 1)
        for place in np.flatnonzero(kept):
            span = visible.start + int(place)
            area = QRectF(
                left[place], whole.top(), max(right[place] - left[place], 1), whole.height()
            )
            self.paint_span(painter, lane, span, area & whole)

    def paint_span(self, painter: QPainter, lane: SpanLane, span: int, area: QRectF) -> None:
        kind = int(lane.kind[span])
        ground = QColor(colour(lane.tones[kind]))
        painter.fillRect(area, ground)
        if kind in lane.hatched:
            painter.fillRect(area, QBrush(QColor(tokens().panel), Qt.BrushStyle.BDiagPattern))
        if area.width() >= LEAST_WRITTEN:
            text = lane.text(span)
            inner = area.adjusted(4, 0, -4, 0)
            if painter.fontMetrics().horizontalAdvance(text) <= inner.width():
                painter.setPen(QColor(readable(ground.name())))
                flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
                painter.drawText(inner, flags, text)
            if area.width() > 3:
                painter.setPen(QPen(QColor(tokens().panel), 1))
                painter.drawLine(area.topRight(), area.bottomRight())

    def _paint_cursor(self, painter: QPainter) -> None:
        plot = self._plot
        if plot.at is None or not (plot.hasFocus() or plot.marked):
            return
        lane, span = plot.at
        shown = plot.lanes[lane]
        area = plot.span_area(lane, float(shown.starts[span]), float(shown.ends[span]))
        area = area.adjusted(-2, -3, 2, 3)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(tokens().text if plot.hasFocus() else tokens().accent), 2))
        painter.drawRect(area)
