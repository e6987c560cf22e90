"""One memory pool, painted: all of it as a thin line, and below, magnified, what the engine has."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.state.memory.sums import MemoryPart, PoolSum
from app.theme import fonts
from app.theme.devices import device_look, fill_component
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL, mix
from app.views.memory.cell import cross
from app.views.memory.numbers import PoolNumbers
from app.widgets.charts.painting import paint_head
from app.widgets.charts.walk import Walk
from app.widgets.numbers import mib
from app.widgets.tips import hide_tip, show_tip

HEAD, LINE, LENS, BAR = 28, 6, 12, 32
IDLE: Mapping[str, int] = MappingProxyType({})
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_CENTER = Qt.AlignmentFlag.AlignCenter


class PoolBar(Walk):
    """Shows a `PoolSum`. Arrows walk over its parts, Enter or a click inspects one."""

    inspected = Signal(object)  # MemoryPart
    device_inspected = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._selected: tuple[str | None, str | None] = (None, None)
        self._sum: PoolSum | None = None
        self.numbers = PoolNumbers((), {})
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)

    def show_sum(self, pool: PoolSum, busy: Mapping[str, int] = IDLE) -> None:
        """`busy` are the nanoseconds that each device computes for a token."""
        self._sum, self.numbers = pool, PoolNumbers.of(pool, busy)
        self.setAccessibleName(f"{pool.pool.name} memory")
        self.setAccessibleDescription(pool.text())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        bar = fonts.px(HEAD + LINE + LENS + BAR + GRID)
        return QSize(fonts.px(280), bar + self.numbers.height(self.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.updateGeometry()

    def stops(self) -> int:
        return len(self._sum.parts) if self._sum is not None else 0

    def chosen(self) -> bool:
        assert self._sum is not None
        self.inspected.emit(self._sum.parts[self.at])
        return True

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        for at, (part, area) in enumerate(self._areas()):
            if area.contains(event.position()):
                self.go(at)
                self.inspected.emit(part)
                return
        below = event.position().y() - self._numbers_top()
        device = self.numbers.device_at(below, self.width())
        if device is not None:
            self.device_inspected.emit(device)

    def show_selected(self, device: str | None, component: str | None) -> None:
        """Frame the parts of a device, or its one component."""
        self._selected = (device, component)
        parts = self._sum.parts if self._sum is not None else ()
        if parts and not self.is_selected(parts[self.at]):
            found = (at for at, part in enumerate(parts) if self.is_selected(part))
            self._at = next(found, self._at)
        self.update()

    def is_selected(self, part: MemoryPart) -> bool:
        device, component = self._selected
        return part.device == device and component in (part.component, None)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            self._tell(event)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self._sum is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_head(painter, self._sum)
        self._paint_line(painter, self._sum)
        self._paint_parts(painter)
        self.numbers.paint(painter, self._numbers_top(), self.width())
        painter.end()

    # Where things are

    def _line_area(self) -> QRectF:
        return QRectF(0, fonts.px(HEAD), self.width(), fonts.px(LINE))

    def _bar_area(self) -> QRectF:
        return QRectF(0, fonts.px(HEAD + LINE + LENS), self.width(), fonts.px(BAR))

    def _numbers_top(self) -> float:
        return self._bar_area().bottom() + GRID

    def _areas(self) -> Iterator[tuple[MemoryPart, QRectF]]:
        """Each part's place in the magnified bar; none is too thin to be seen."""
        parts = self._sum.parts if self._sum is not None else ()
        total, bar = sum(part.size for part in parts), self._bar_area()
        if not total:
            return
        least = 6.0
        room = bar.width() - least * len(parts)
        left = bar.left()
        for part in parts:
            width = least + room * part.size / total
            yield part, QRectF(left, bar.top(), width, bar.height())
            left += width

    # Painting

    def _paint_head(self, painter: QPainter, pool: PoolSum) -> None:
        said = f"{mib(pool.held)} of {mib(pool.pool.limit)}"
        if not pool.held and pool.planned:
            said = f"{mib(pool.planned)} planned of {mib(pool.pool.limit)}"
        elif pool.planned > pool.held:
            said = f"{mib(pool.held)} of {mib(pool.planned)} planned, limit {mib(pool.pool.limit)}"
        paint_head(
            painter, QRectF(0, 0, self.width(), fonts.px(HEAD - 6)), pool_name(pool.pool.name), said
        )

    def _paint_line(self, painter: QPainter, pool: PoolSum) -> None:
        """Ours from the left, the others' from the right, the limit as a mark between."""
        area, now = self._line_area(), tokens()
        path = QPainterPath()
        path.addRoundedRect(area, 3, 3)
        painter.save()
        painter.setClipPath(path)
        painter.fillRect(area, QColor(mix(now.faint, now.panel, 0.25)))
        total = max(pool.pool.total, 1)
        if pool.other is not None:
            width = area.width() * pool.other / total
            others = QRectF(area.right() - width, area.top(), width, area.height())
            painter.fillRect(others, QColor(now.faint))
        ours = max(2.0, area.width() * max(pool.held, pool.planned) / total)
        painter.fillRect(QRectF(0, area.top(), ours, area.height()), QColor(now.text))
        painter.restore()
        limit = area.width() * min(pool.pool.limit / total, 1)
        painter.setPen(QPen(QColor(now.warn), 2))
        painter.drawLine(QPointF(limit, area.top() - 3), QPointF(limit, area.bottom() + 3))
        if any(True for _ in self._areas()):
            bar = self._bar_area()
            lens = QPolygonF(
                [
                    QPointF(0, area.bottom() + 1),
                    QPointF(ours, area.bottom() + 1),
                    QPointF(bar.right(), bar.top() - 1),
                    QPointF(bar.left(), bar.top() - 1),
                ]
            )
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(mix(now.faint, now.panel, 0.24)))
            painter.drawPolygon(lens)

    def _paint_parts(self, painter: QPainter) -> None:
        areas = list(self._areas())
        if not areas:
            painter.setPen(QPen(QColor(tokens().divider), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            bar = self._bar_area().adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(bar, RADIUS_CONTROL, RADIUS_CONTROL)
            painter.setFont(fonts.small())
            painter.setPen(QColor(tokens().quiet))
            painter.drawText(bar, _CENTER, "nothing held: no model is open")
            return
        for at, (part, area) in enumerate(areas):
            self._paint_part(painter, part, area.adjusted(0, 0, -1, 0))
            if self.is_selected(part):
                painter.setPen(QPen(QColor(tokens().accent), 3))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(area.adjusted(1.5, 1.5, -2.5, -1.5))
            if self.hasFocus() and at == self.at:
                painter.setPen(QPen(QColor(tokens().text), 2))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(area.adjusted(1, 1, -2, -1))

    def _paint_part(self, painter: QPainter, part: MemoryPart, area: QRectF) -> None:
        """Solid what is held, outlined what is planned; mapped pages are only hatched."""
        now, colour = tokens(), QColor(device_look(part.device).colour)
        share = part.held / part.size if part.size else 0.0
        edge = area.left() + area.width() * share
        filled = QRectF(area.left(), area.top(), edge - area.left(), area.height())
        ink = fill_component(painter, filled, part.device, part.component)
        if share < 1:
            painter.setPen(QPen(colour, 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))
        if part.failed:
            painter.setPen(QPen(QColor(now.bad), 2))
            painter.drawRect(area.adjusted(1, 1, -1, -1))
            cross(painter, area.topRight() + QPointF(-10, 10), 3)
        rest = QRectF(edge, area.top(), area.right() - edge, area.height())
        for place, tone in ((filled, ink), (rest, now.text)):  # words may lie across the edge
            painter.save()
            painter.setClipRect(place)
            _label(painter, area.adjusted(0, 0, -16 * part.failed, 0), part, tone)
            painter.restore()

    def _tell(self, event: QHelpEvent) -> None:
        for part, area in self._areas():
            if area.contains(QPointF(event.pos())):
                planned = f"{mib(part.planned)} MiB planned, " if part.planned else ""
                what = "mapped, not allocated" if part.mapped else "held"
                text = f"{part.device} {part.component}: {planned}{mib(part.held)} MiB {what}"
                text += ", then refused" if part.failed else ""
                show_tip(event.globalPos(), text, self)
                return
        if self._sum is not None and event.pos().y() < self._bar_area().top():
            other, free = mib(self._sum.other), mib(self._sum.pool.free)
            text = f"{mib(self._sum.pool.total)} MiB in all: others use {other}, {free} are free"
            show_tip(event.globalPos(), text, self)
            return
        hide_tip()


class PoolBars(QWidget):
    """A bar for each pool, one below the other."""

    inspected = Signal(object)  # MemoryPart
    device_inspected = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.bars: list[PoolBar] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(2 * GRID)

    def show_sums(self, sums: Sequence[PoolSum], busy: Mapping[str, int] = IDLE) -> None:
        while len(self.bars) < len(sums):
            self.bars.append(PoolBar())
            self.bars[-1].inspected.connect(self.inspected)
            self.bars[-1].device_inspected.connect(self.device_inspected)
            self._column.addWidget(self.bars[-1])
        for at, bar in enumerate(self.bars):
            bar.setVisible(at < len(sums))
            if at < len(sums):
                bar.show_sum(sums[at], busy)

    def show_selected(self, device: str | None, component: str | None) -> None:
        for bar in self.bars:
            bar.show_selected(device, component)


def _label(painter: QPainter, area: QRectF, part: MemoryPart, tone: str) -> None:
    """The component with its size, or without where that does not fit."""
    painter.setFont(fonts.small())
    painter.setPen(QColor(tone))
    for text in (f"{part.component}  {mib(part.size)}", part.component):
        if painter.fontMetrics().horizontalAdvance(text) <= area.width() - 12:
            painter.drawText(area, _CENTER, text)
            return


def pool_name(pool: str) -> str:
    """How a pool is called where people read."""
    return "System memory" if pool == "system" else pool
