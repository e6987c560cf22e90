"""What a chart's colours mean: entries in lines, each of which can be chosen."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.charts.painting import flow
from app.widgets.charts.walk import Walk

LINE, LEAST = 24, 280
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class LegendEntry(NamedTuple):
    """`key` is what choosing it means; an entry without one is only read, and has no swatch."""

    key: Hashable | None
    text: str


class ChartLegend(Walk):
    """Arrows walk over the entries that have a key; Enter or a click picks one.

    `draw` paints an entry's swatch into a square whose side `side` gives.
    """

    picked = Signal(object)  # a key

    def __init__(
        self, name: str, draw: Callable[[QPainter, QRectF, object], None], side: Callable[[], int]
    ) -> None:
        super().__init__()
        self._draw, self._side = draw, side
        self._entries: Sequence[LegendEntry] = ()
        self._selected: Collection[Hashable] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(name)
        self.setMouseTracking(True)

    @property
    def keys(self) -> list[Hashable]:
        """What can be chosen, in order."""
        return [entry.key for entry in self._entries if entry.key is not None]

    @property
    def selected(self) -> list[Hashable]:
        """The keys that are marked."""
        return [key for key in self.keys if key in self._selected]

    def show_entries(self, entries: Sequence[LegendEntry]) -> None:
        if list(entries) != list(self._entries):
            self._entries = entries
            self.setVisible(bool(entries))
            self._tell()
            self.updateGeometry()
            self.update()

    def show_selected(self, keys: Collection[Hashable]) -> None:
        """Mark these entries."""
        self._selected = keys
        self._tell()
        self.update()

    def stops(self) -> int:
        return len(self.keys)

    def walked(self) -> None:
        self._tell()

    def chosen(self) -> bool:
        self.picked.emit(self.keys[self.at])
        return True

    def place_of(self, key: Hashable) -> QRectF:
        """Where an entry is painted."""
        return next(area for entry, area in self._places() if entry.key == key)

    def sizeHint(self) -> QSize:  # noqa: N802
        bottom = max((area.bottom() for _, area in self._places()), default=0.0)
        return QSize(fonts.px(LEAST), round(bottom))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.updateGeometry()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        key = self._under(event.position())
        if key is not None:
            self.go(self.keys.index(key))
            self.picked.emit(key)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        over = self._under(event.position()) is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now, side = QPainter(self), tokens(), self._side()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for entry, area in self._places():
            text = QRectF(area)
            if entry.key is not None:
                middle = area.center().y()
                self._draw(painter, QRectF(area.left(), middle - side / 2, side, side), entry.key)
                text.setLeft(area.left() + side + GRID)
            marked = entry.key is not None and entry.key in self._selected
            painter.setFont(fonts.small())
            painter.setPen(QColor(now.text if marked else now.quiet))
            painter.drawText(text, _LEFT, entry.text)
            if marked:
                line = QRectF(area.left(), area.bottom() - 2, area.width(), 2)
                painter.fillRect(line, QColor(now.accent))
        if self.hasFocus() and self.stops():
            painter.setPen(QPen(QColor(now.text), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.place_of(self.keys[self.at]).adjusted(0.5, 0.5, 1.5, -2.5))
        painter.end()

    def _under(self, at: QPointF) -> Hashable | None:
        found = (entry.key for entry, area in self._places() if area.contains(at))
        return next(found, None)

    def _places(self) -> list[tuple[LegendEntry, QRectF]]:
        metrics, height = QFontMetricsF(fonts.small()), fonts.px(LINE)
        swatch = self._side() + GRID
        widths = [
            metrics.horizontalAdvance(entry.text) + swatch * (entry.key is not None)
            for entry in self._entries
        ]
        places = zip(self._entries, widths, flow(widths, self.width()), strict=True)
        return [
            (entry, QRectF(left, line * height, width, height))
            for entry, width, (left, line) in places
        ]

    def _tell(self) -> None:
        if not self.keys:
            self.setAccessibleDescription("")
            return
        texts = [entry.text for entry in self._entries if entry.key is not None]
        marked = " selected," if self.keys[self.at] in self._selected else ""
        self.setAccessibleDescription(f"{texts[self.at]},{marked} {self.at + 1} of {len(texts)}")
