"""The splits of a step as a ribbon: as wide as what they compute, with what is copied between."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.devices import device_look, fill_component
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.charts.walk import Walk
from app.widgets.numbers import grouped, kib, milliseconds
from app.widgets.tips import show_tip
from engine.protocol import GraphDone, SplitNode, SplitRecord

BAND, ABOVE, LEAST, BETWEEN = 30, 18, 6.0, 14.0
_CENTER = Qt.AlignmentFlag.AlignCenter


class SplitRibbon(Walk):
    """A piece for each split, as wide as its time where a step was measured, else as its number of
    operations. Arrows walk, Enter or a click picks.
    """

    picked = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._graph: GraphDone | None = None
        self._times: Sequence[SplitRecord] = ()
        self._selected: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Splits of the step")

    def show_graph(self, graph: GraphDone | None, times: Sequence[SplitRecord]) -> None:
        """`times` of the same splits, or none."""
        self._graph, self._times = graph, times
        self.setAccessibleDescription(self._words())
        self.updateGeometry()
        self.update()

    def show_selected(self, number: int | None) -> None:
        self._selected = number
        if number is not None:
            self._at = number
        self.setAccessibleDescription(self._words())
        self.update()

    def stops(self) -> int:
        return len(self._splits)

    def walked(self) -> None:
        self.setAccessibleDescription(self._words())
        self.picked.emit(self.at)

    def chosen(self) -> bool:
        self.picked.emit(self.at)
        return True

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(280), fonts.px(ABOVE + BAND) + 2)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        found = self._under(event.position())
        if found is not None:
            self.go(found)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            found = self._under(QPointF(event.pos()))
            show_tip(event.globalPos(), "" if found is None else self.describe(found), self)
            return True
        return super().event(event)

    def describe(self, number: int) -> str:
        """A split in words, with what is copied for it and why it begins."""
        split = self._splits[number]
        said = f"Split {number} on {split.device}: {grouped(split.n_nodes)} operations, "
        said += split.first if split.n_nodes == 1 else f"{split.first} – {split.last}"
        if number < len(self._times):
            said += f"; {milliseconds(self._times[number].compute_ns)} ms"
        said += f". It begins as {split.why}." if number else f"; {split.why}."
        copies = [copy for copy in split.copies if copy.origin is not None]
        shown = [f"{copy.name} ({kib(copy.size)} KiB from {copy.origin})" for copy in copies[:4]]
        more = f" and {len(copies) - 4} more" if len(copies) > 4 else ""
        return f"{said} Copied for it: {', '.join(shown)}{more}." if copies else said

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        places = list(self._places())
        painter.setFont(fonts.small())
        for number, area in enumerate(places):
            self._paint_piece(painter, number, area)
            if number:
                self._paint_copies(painter, number, places[number - 1], area)
        painter.end()

    def _paint_piece(self, painter: QPainter, number: int, area: QRectF) -> None:
        split, now = self._splits[number], tokens()
        ink = fill_component(painter, area, split.device, "weights")
        painter.setPen(QColor(ink))
        letter = device_look(split.device).letter
        amount = f"{grouped(split.n_nodes)} ops"
        if number < len(self._times):
            amount = f"{milliseconds(self._times[number].compute_ns)} ms"
        for text in (f"{letter}  #{number}  {amount}", f"{letter} #{number}", letter):
            if painter.fontMetrics().horizontalAdvance(text) <= area.width() - 6:
                painter.drawText(area, _CENTER, text)
                break
        focused = self.hasFocus() and number == self.at
        if focused or number == self._selected:
            painter.setPen(QPen(QColor(now.text if focused else now.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(1, 1, -1, -1))

    def _paint_copies(self, painter: QPainter, number: int, before: QRectF, area: QRectF) -> None:
        """An arrow between two pieces, and above it the bytes where there is room."""
        now = tokens()
        size = sum(copy.size for copy in self._splits[number].copies if copy.origin is not None)
        left, right, middle = before.right() + 2, area.left() - 2, area.center().y()
        tone = QColor(now.warn if size else now.faint)
        painter.setPen(QPen(tone, 1.5))
        painter.drawLine(QPointF(left, middle), QPointF(right - 3, middle))
        painter.setBrush(tone)
        painter.setPen(Qt.PenStyle.NoPen)
        head = [
            QPointF(right, middle),
            QPointF(right - 5, middle - 4),
            QPointF(right - 5, middle + 4),
        ]
        painter.drawPolygon(QPolygonF(head))
        text = f"{kib(size)} KiB"
        wide = painter.fontMetrics().horizontalAdvance(text)
        center = (left + right) / 2
        room = QRectF(center - wide / 2, 0, wide, area.top())
        free = min(before.width(), area.width()) + BETWEEN
        if size and wide <= free and room.left() >= 0 and room.right() <= self.width():
            painter.setPen(QColor(mix(now.warn, now.text, 0.5)))
            painter.drawText(room, _CENTER, text)

    @property
    def _splits(self) -> Sequence[SplitNode]:
        return self._graph.splits if self._graph is not None else ()

    def _places(self) -> Iterator[QRectF]:
        splits = self._splits
        weights = [float(split.n_nodes) for split in splits]
        if len(self._times) == len(splits):
            weights = [float(one.compute_ns) for one in self._times]
        between = min(BETWEEN, self.width() / max(4 * len(splits), 1))
        room = self.width() - between * (len(splits) - 1) - LEAST * len(splits)
        whole, left = max(sum(weights), 1.0), 0.0
        for weight in weights:
            width = LEAST + max(room, 0.0) * weight / whole
            yield QRectF(left, fonts.px(ABOVE), width, fonts.px(BAND))
            left += width + between

    def _under(self, at: QPointF) -> int | None:
        return next((i for i, area in enumerate(self._places()) if area.contains(at)), None)

    def _words(self) -> str:
        if not self.stops():
            return "No splits are known yet"
        return f"{self.stops()} splits. {self.describe(self.at)}"
