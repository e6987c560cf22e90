"""The ground of every plot: a pyqtgraph view with axes in the window's colours, mouse and keys.

pyqtgraph takes 0.2 s to import: the first plot does, or `warm` beforehand in a thread.
"""

from collections.abc import Callable
from functools import cache
from math import ceil, floor, isfinite, log10
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.basics import LOOKS
from app.widgets.layouts import vbox
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper
from app.widgets.tips import show_tip
from app.work import Work


@cache
def toolkit() -> Any:
    """The package, with options that hold for all plots."""
    import pyqtgraph

    pyqtgraph.setConfigOptions(imageAxisOrder="row-major", useOpenGL=False, antialias=False)
    return pyqtgraph


def warm(parent: QObject) -> None:
    """Import it in a thread, so that the first plot does not wait."""
    Work(toolkit).start(parent)


CLICK = 4  # pixels that the mouse may move within a click
ZOOM = 0.5  # of the range that is left by one key
BETWEEN = 10  # pixels between numbers of an axis
STEPS = (1, 2, 5)

Ticks = list[tuple[float, str]]


class PlotCanvas(Painted):
    """Wheel and drag zoom and move; arrows walk, Enter opens, + and - zoom, 0 shows all, Ctrl+C
    copies the numbers as a table.
    """

    activated = Signal()  # Enter or a double click, at the cursor

    def __init__(self, name: str, least: tuple[int, int] = (240, 120)) -> None:
        super().__init__(name)
        kit = toolkit()
        self._least = least
        self._pressed: QPoint | None = None
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.view = kit.GraphicsView(self)
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.view.setMinimumSize(1, 1)
        self._grid = kit.GraphicsLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.layout.setSpacing(0)
        self.view.setCentralItem(self._grid)
        self.box: Any = kit.ViewBox(enableMenu=False)
        self.left: Any = kit.AxisItem("left")
        self.bottom: Any = kit.AxisItem("bottom")
        self._grid.addItem(self.left, 0, 0)
        self._grid.addItem(self.box, 0, 1)
        self._grid.addItem(self.bottom, 1, 1)
        self.left.linkToView(self.box)
        self.bottom.linkToView(self.box)
        vbox(self.view, on=self, margins=1)
        viewport = self.view.viewport()
        viewport.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Qt gives each scene's one its own
        viewport.setMouseTracking(True)
        viewport.installEventFilter(self)
        self.box.sigRangeChanged.connect(self._range_changed)
        self.box.sigResized.connect(self._range_changed)

    # What a plot says of itself

    def tip(self, place: QPointF) -> str:
        """The tip at a place in the plot's coordinates."""
        return ""

    def text(self) -> str:
        """The table with tabs between columns."""
        return self.table_text()

    def point_at(self, place: QPointF) -> None:
        """The person clicked there."""

    def walk(self, right: int, down: int) -> None:
        """The person pressed an arrow, PageUp (-10 down), Home (far to the left) or alike."""

    def show_all(self) -> None:
        """Everything there is fills the plot."""

    def ranged(self) -> None:
        """Another piece is visible, or the plot has another size."""

    def restyle(self) -> None:
        """The theme or the size of text is another one."""

    # The visible piece

    @property
    def seen(self) -> QRectF:
        """What is visible, in the plot's coordinates."""
        return QRectF(self.box.viewRect())

    @property
    def room(self) -> QSize:
        """Pixels of the plot within its axes."""
        return QSize(max(1, round(self.box.width())), max(1, round(self.box.height())))

    def zoom(self, share: float, about: QPointF | None = None) -> None:
        """Show `share` of what is visible now, about a place or the middle."""
        self.box.scaleBy((share, share), center=about if about is not None else self.seen.center())

    def cursor_place(self) -> QPointF | None:
        """Where the cursor is, in the plot's coordinates."""
        return None

    def set_left(self, ticks: Ticks) -> None:
        """The marks of the left axis, which is as wide as they need."""
        half, seen, room = self._letters().height() / 2, self.seen, self.room.height()
        per = room / max(seen.height(), 1e-300)
        inside = [t for t in ticks if half <= (t[0] - seen.top()) * per <= room - half]
        self.left.setTicks([inside])
        self.left.setWidth(max((self.width_of(text) for _, text in ticks), default=0) + fonts.px(8))

    def set_bottom(self, ticks: Ticks) -> None:
        """The marks of the lower axis."""
        seen, room = self.seen, self.room.width()
        per = room / max(seen.width(), 1e-300)
        halves = ((at, text, self.width_of(text) / 2) for at, text in ticks)
        inside = [
            (at, text)
            for at, text, half in halves
            if half <= (at - seen.left()) * per <= room - half
        ]
        self.bottom.setTicks([inside])
        self.bottom.setHeight(self._letters().height() + fonts.px(8))

    def width_of(self, text: str) -> float:
        """Pixels of a mark's text."""
        return self._letters().horizontalAdvance(text)

    def _letters(self) -> QFontMetricsF:
        return QFontMetricsF(fonts.small())

    def _range_changed(self, *_: object) -> None:
        self.ranged()

    # Events

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        kind = event.type()
        if isinstance(event, QHelpEvent) and kind == QEvent.Type.ToolTip:
            show_tip(event.globalPos(), self.tip(self.place_of(event.pos())), self)
            return True
        if isinstance(event, QMouseEvent) and event.button() == Qt.MouseButton.LeftButton:
            at = event.position().toPoint()
            if kind == QEvent.Type.MouseButtonPress:
                self.setFocus(Qt.FocusReason.MouseFocusReason)
                self._pressed = at
            elif kind == QEvent.Type.MouseButtonRelease and self._pressed is not None:
                moved, self._pressed = (at - self._pressed).manhattanLength(), None
                if moved < CLICK and self.over_plot(at):
                    self.point_at(self.place_of(at))
            elif kind == QEvent.Type.MouseButtonDblClick and self.over_plot(at):
                self.activated.emit()
        return False

    def place_of(self, at: QPoint) -> QPointF:
        """A pixel of the view in the plot's coordinates."""
        return QPointF(self.box.mapSceneToView(self.view.mapToScene(at)))

    def pixel_of(self, place: QPointF) -> QPoint:
        """The reverse of `place_of`."""
        return QPoint(self.view.mapFromScene(self.box.mapViewToScene(place)))

    def over_plot(self, at: QPoint) -> bool:
        """Whether a pixel of the view is within the axes."""
        return bool(self.box.sceneBoundingRect().contains(self.view.mapToScene(at)))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, far = Qt.Key(event.key()), 1 << 30
        steps = {
            Qt.Key.Key_Left: (-1, 0),
            Qt.Key.Key_Right: (1, 0),
            Qt.Key.Key_Up: (0, -1),
            Qt.Key.Key_Down: (0, 1),
            Qt.Key.Key_PageUp: (0, -10),
            Qt.Key.Key_PageDown: (0, 10),
            Qt.Key.Key_Home: (-far, 0),
            Qt.Key.Key_End: (far, 0),
        }
        plain = not event.modifiers() & (
            Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.ControlModifier
        )
        if plain and key in steps:
            self.walk(*steps[key])
        elif plain and key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Minus):
            share = 1 / ZOOM if key == Qt.Key.Key_Minus else ZOOM
            self.zoom(share, self.cursor_place())
        elif plain and key == Qt.Key.Key_0:
            self.show_all()
        elif plain and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.activated.emit()
        else:
            super().keyPressEvent(event)

    def draw(self, paper: Paper) -> None:
        if self.hasFocus():
            paper.focus(self.rect().toRectF())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self.dress()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(self._least[0]), fonts.px(self._least[1]))

    def sizeHint(self) -> QSize:  # noqa: N802
        return self.minimumSizeHint()

    def dress(self) -> None:
        """Put on the theme's colours and fonts; the last thing of making a plot."""
        now = tokens()
        self.view.setBackground(QColor(now.panel))
        for axis in (self.left, self.bottom):
            axis.setPen(QColor(now.divider))
            axis.setTextPen(QColor(now.quiet))
            axis.setStyle(tickFont=fonts.small(), tickTextOffset=fonts.px(4), tickLength=0)
        self.updateGeometry()
        self.restyle()
        self.ranged()
        self._repaint()

    def event(self, event: QEvent) -> bool:
        return QWidget.event(self, event)  # tips are those of the view

    def _repaint(self) -> None:
        self.update()
        self.view.viewport().update()


def spread(first: int, last: int, pixels: float, needed: float) -> range:
    """Numbers from `first` up to `last` for an axis that has `pixels` for each of them and needs
    `needed` for one that is written: steps of 1, 2, 5, 10 …
    """
    tens = 1
    while pixels > 0:
        for step in STEPS:
            if step * tens * pixels >= needed:
                start = -(-first // (step * tens)) * step * tens
                return range(start, last, step * tens)
        tens *= 10
    return range(0)


MOST_MARKS = 50


def round_marks(
    low: float,
    high: float,
    room: float,
    needed: Callable[[str], float],
    text: Callable[[float], str],
) -> Ticks:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers on `room` pixels; a written
    one takes `needed(text)`.
    """
    span = high - low
    if not (isfinite(span) and span > 0 and room > 0):
        return []
    power = floor(log10(span)) - 1
    for tens in range(power, power + 4):
        for step in STEPS:
            size = step * 10.0**tens
            places = [
                n * size for n in range(ceil(low / size - 1e-9), floor(high / size + 1e-9) + 1)
            ]
            if len(places) > MOST_MARKS:
                continue
            widest = max((needed(text(at)) for at in places), default=0.0)
            if widest <= room * size / span:
                return [(at, text(at)) for at in places]
    return []


def decade_marks(
    low: float,
    high: float,
    room: float,
    needed: Callable[[str], float],
    text: Callable[[float], str],
) -> Ticks:
    """Powers of ten between two logarithms on `room` pixels; where fewer than two are visible, also
    2 and 5 times these.
    """
    span = high - low
    if not (isfinite(span) and span > 0 and room > 0):
        return []
    for steps in ((1,), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9)):
        places = [
            tens + log10(step)
            for tens in range(floor(low), ceil(high) + 1)
            for step in steps
            if low <= tens + log10(step) <= high
        ]
        if len(places) >= 2:
            break
    marks = [(at, text(10.0**at)) for at in places]
    kept: Ticks = []
    for at, label in marks:
        gap = (at - kept[-1][0]) * room / span if kept else room
        if gap >= (needed(label) + needed(kept[-1][1])) / 2 if kept else True:
            kept.append((at, label))
    return kept
