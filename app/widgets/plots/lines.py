"""Lines over an axis, with a cursor that says the number of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPen
from PySide6.QtWidgets import QSizePolicy

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.plots.canvas import BETWEEN, PlotCanvas, decade_marks, round_marks, toolkit
from app.widgets.plots.cells import number_text
from app.widgets.plots.chart import Painted
from app.widgets.plots.colours import Floats
from app.widgets.plots.paper import Paper

BAR, GAP = 3, 1


class Sparkline(Painted):
    """The newest on the right, as high as its share of the largest."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name, focus=False)
        self._values: Sequence[float] = ()
        self._most, self._active = most, False
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_values(self, values: Sequence[float], active: bool) -> None:
        """`active` means that more are coming."""
        self._values, self._active = list(values)[-self._most :], active
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._most * (BAR + GAP) - GAP, fonts.px(20))

    def draw(self, paper: Paper) -> None:
        now, top, high = tokens(), max(self._values, default=0.0), self.height()
        paper.fill(QRectF(0, high - 1, self.width(), 1), now.divider)
        bright = now.accent if self._active else mix(now.quiet, now.panel, 0.7)
        for n, value in enumerate(reversed(self._values)):
            x = self.width() - (n + 1) * (BAR + GAP) + GAP
            height = max(1.0, value / top * high) if top > 0 else 1.0
            paper.fill(QRectF(x, high - height, BAR, height), bright)


FEW = 4096  # points that are all drawn


def peaks(x: Floats, y: Floats, left: float, right: float, most: int) -> tuple[Floats, Floats]:
    """The points of a line between two places, and one beyond on each side; where these are many,
    the lowest and the highest of each of `most` runs. Lines whose `x` falls somewhere stay whole.
    """
    if len(x) <= FEW or not (np.diff(x) >= 0).all():
        return x, y
    first = max(0, int(np.searchsorted(x, left)) - 1)
    last = min(len(x), int(np.searchsorted(x, right, "right")) + 1)
    x, y = x[first:last], y[first:last]
    if len(x) <= max(FEW, 2 * most):
        return x, y
    starts = np.linspace(0, len(x), most, endpoint=False).astype(np.intp)
    pairs = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)  # NaN only where all are
    return np.repeat(x[starts], 2), np.stack(pairs, axis=1).ravel()


MARGIN = 0.04  # of the range, above and below what is shown


@dataclass(frozen=True)
class PlotLine:
    """`y` over `x`, of equal length; gaps where y is NaN. `tone` is a colour of the theme or one
    of its own (#rrggbb).
    """

    name: str
    x: Floats
    y: Floats
    tone: str = "accent"
    width: int = 2
    dashed: bool = False


@dataclass(frozen=True)
class PlotAxis:
    """What an axis carries; a logarithmic one shows numbers above 0 only."""

    title: str
    text: Callable[[float], str] = number_text
    log: bool = False

    def place(self, value: Floats) -> Floats:
        """Numbers as coordinates of the plot."""
        if not self.log:
            return np.asarray(value, np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.asarray(value) > 0, np.log10(value), np.nan)


class Lines(PlotCanvas):
    """Arrows move along the first line's x; Up and Down choose among lines."""

    pointed = Signal(int)  # place along x of the first line that the person went to

    def __init__(self, name: str, x: PlotAxis, y: PlotAxis) -> None:
        super().__init__(name)
        self.axes = x, y
        self.lines: list[PlotLine] = []
        self.drawn: list[Any] = []
        self.at = 0
        self._cursor = toolkit().InfiniteLine(angle=90, movable=False)
        self._cursor.setVisible(False)
        self.box.addItem(self._cursor, ignoreBounds=True)
        self.dress()

    def show_lines(self, lines: Sequence[PlotLine], keep: bool = False) -> None:
        """Show other lines; all of them are visible then, unless the range is to be kept."""
        self.lines = list(lines)
        while len(self.drawn) > len(lines):
            self.box.removeItem(self.drawn.pop())
        while len(self.drawn) < len(lines):
            self.drawn.append(toolkit().PlotCurveItem(connect="finite", antialias=True))
            self.box.addItem(self.drawn[-1])
        self._trace()
        self.at = min(self.at, max(self.stops() - 1, 0))
        self.restyle()
        if not keep:
            self.show_all()
        self._describe()

    def set_cursor(self, at: int) -> None:
        """Put the cursor on a place without a signal."""
        if self.stops():
            self.at = min(max(at, 0), self.stops() - 1)
            self._place_cursor()
            self._describe()

    def stops(self) -> int:
        """How many places the cursor has."""
        return len(self.lines[0].x) if self.lines else 0

    def describe(self, at: int) -> str:
        """All lines at a place, in words."""
        if not 0 <= at < self.stops():
            return ""
        x, y = self.axes
        parts = [
            f"{line.name} {y.text(float(line.y[at]))}" for line in self.lines if at < len(line.y)
        ]
        return f"{x.title} {x.text(float(self.lines[0].x[at]))}: {', '.join(parts)}"

    def rows(self) -> list[list[str]]:
        x, y = self.axes
        head = [x.title, *(line.name for line in self.lines)]
        return [head] + [
            [
                x.text(float(self.lines[0].x[at])),
                *(y.text(float(li.y[at])) if at < len(li.y) else "" for li in self.lines),
            ]
            for at in range(len(self.lines[0].x) if self.lines else 0)
        ]

    def bounds(self) -> tuple[float, float, float, float]:
        """The least and the largest x and y of all that is shown, as coordinates."""
        (left, right), (low, high) = (
            _ends([axis.place(values) for values in all_values])
            for axis, all_values in zip(
                self.axes,
                ([line.x for line in self.lines], [line.y for line in self.lines]),
                strict=True,
            )
        )
        return left, right, low, high

    # What the canvas calls

    def show_all(self) -> None:
        left, right, low, high = self.bounds()
        pad = (high - low) * MARGIN
        self.box.setRange(xRange=(left, right), yRange=(low - pad, high + pad), padding=0)
        self.ranged()

    def ranged(self) -> None:
        (x, y), seen, room = self.axes, self.seen, self.room
        by_x, by_y = (decade_marks if axis.log else round_marks for axis in (x, y))
        tall = 1.6 * self._letters().height()
        self.set_left(by_y(seen.top(), seen.bottom(), room.height(), lambda _: tall, y.text))
        wide = lambda text: self.width_of(text) + BETWEEN  # noqa: E731
        self.set_bottom(by_x(seen.left(), seen.right(), room.width(), wide, x.text))
        self._trace()

    def _trace(self) -> None:
        """Give the curves what can be seen of their lines."""
        (x, y), seen, most = self.axes, self.seen, self.room.width()
        for line, curve in zip(self.lines, self.drawn, strict=False):
            points = x.place(line.x), y.place(line.y)
            curve.setData(
                *peaks(*points, seen.left(), seen.right(), most), antialias=len(line.x) <= FEW
            )

    def restyle(self) -> None:
        for line, curve in zip(self.lines, self.drawn, strict=True):
            style = Qt.PenStyle.DashLine if line.dashed else Qt.PenStyle.SolidLine
            width = (
                line.width if len(line.x) <= FEW else 1
            )  # which is painted a hundred times faster
            curve.setPen(pixel_pen(line.tone, width, style))
        self._cursor.setPen(pixel_pen("text", 1, Qt.PenStyle.DotLine))
        self._place_cursor()

    def tip(self, place: QPointF) -> str:
        return self.describe(self._nearest(place))

    def point_at(self, place: QPointF) -> None:
        if self.stops():
            self.set_cursor(self._nearest(place))
            self.pointed.emit(self.at)

    def walk(self, right: int, down: int) -> None:
        if self.stops():
            self.set_cursor(self.at + right + down)
            self.pointed.emit(self.at)

    def cursor_place(self) -> QPointF | None:
        if not self.stops():
            return None
        line, at = self.lines[0], self.at
        x = float(self.axes[0].place(line.x)[at])
        y = float(self.axes[1].place(line.y)[at])
        return QPointF(x, y if np.isfinite(y) else self.seen.center().y())

    def _nearest(self, place: QPointF) -> int:
        if not self.stops():
            return 0
        return int(np.nanargmin(np.abs(self.axes[0].place(self.lines[0].x) - place.x())))

    def _place_cursor(self) -> None:
        place = self.cursor_place()
        self._cursor.setVisible(place is not None)
        if place is not None:
            self._cursor.setPos(place.x())

    def _describe(self) -> None:
        self.setAccessibleDescription(self.describe(self.at) or tr("nothing to show yet"))


def pixel_pen(tone: str, width: int, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
    """A pen whose width is in pixels, whatever the plot's coordinates are."""
    pen = QPen(QColor(colour(tone)), width, style)
    pen.setCosmetic(True)
    return pen


def colour(tone: str) -> str:
    """A colour of the theme by its name, or as it is."""
    return tone if tone.startswith("#") else str(getattr(tokens(), tone))


def _ends(values: Sequence[Floats]) -> tuple[float, float]:
    """The least and the largest finite number; some range where there is none, or only one."""
    finite = [part[np.isfinite(part)] for part in values]
    some = [part for part in finite if part.size]
    if not some:
        return 0.0, 1.0
    low, high = min(float(p.min()) for p in some), max(float(p.max()) for p in some)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
