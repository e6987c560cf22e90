"""How the matrix paints a cell, and the devices above its columns."""

from collections import Counter

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import (
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.language import tr
from app.state.memory.totals import Cell
from app.theme import fonts
from app.theme.devices import device_look, draw_swatch, fill_component, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID, ROW_COMPACT
from app.widgets.numbers import mib
from app.widgets.plots.paper import Paper

BAR, NUMBER, LEAST_BAR = 10, 36, 10
_MIDDLE = Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class MemoryCell(QStyledItemDelegate):
    """Solid is held, dashed is planned, a cross is refused; mapped pages are only hatched."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        view, cell = self.parent(), index.data(Qt.ItemDataRole.UserRole)
        assert isinstance(view, QTableView)
        area, now = QRectF(option.rect), tokens()
        painter.save()
        if cell is not None and cell.status == "failed":
            painter.fillRect(area, QColor(now.on("bad", 0.14)))
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, QColor(now.selection))
        if starts_device(index):
            painter.fillRect(QRectF(area.left(), area.top(), 1, area.height()), _line())
        painter.setFont(fonts.small())
        if not index.column():
            painter.setPen(QColor(now.text))
            painter.drawText(area.adjusted(GRID, 0, 0, 0), _MIDDLE, str(index.data()))
        elif cell is None:
            painter.fillRect(QRectF(area.right() - GRID - 3, area.center().y(), 3, 1), _dot())
        else:
            most = int(index.data(Qt.ItemDataRole.UserRole + 1))
            _paint_cell(painter, area.adjusted(1.5 * GRID, 0, -GRID, 0), cell, most)
        if view.hasFocus() and view.currentIndex() == index:
            painter.setPen(QPen(QColor(now.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5))
        painter.restore()


class DeviceHeader(QHeaderView):
    """Two lines: the device where its columns begin, and the components."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setAccessibleName(tr("Devices and components"))
        self.setHighlightSections(False)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(super().sizeHint().width(), fonts.px(2 * ROW_COMPACT + 2))

    def needed(self) -> list[int]:
        """The width that each section needs: for its component and its part of the device."""
        small, body = QFontMetrics(fonts.small()), QFontMetrics(fonts.body())
        titles = [
            str(self.model().headerData(at, self.orientation())) for at in range(self.count())
        ]
        devices = Counter(title.partition(" ")[0] for title in titles[1:])
        needed = [small.horizontalAdvance(titles[0]) + 2 * GRID] if titles else []
        for title in titles[1:]:
            device, _, component = title.partition(" ")
            name = swatch_size() + body.horizontalAdvance(device) + 4 * GRID
            width = small.horizontalAdvance(component) + 2 * GRID
            needed.append(max(width, -(-name // devices[device])))
        return needed

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:  # noqa: N802
        model, now = self.model(), tokens()
        area, half = QRectF(rect), rect.height() / 2
        painter.save()
        painter.fillRect(area, QColor(now.panel))
        painter.fillRect(QRectF(area.left(), area.bottom() - 1, area.width(), 1), _line())
        painter.setFont(fonts.small())
        painter.setPen(QColor(now.quiet))
        lower = area.adjusted(GRID, half, -GRID, 0)
        title = str(model.headerData(section, self.orientation()) or "")
        if section == 0:
            painter.drawText(lower, _MIDDLE, title)
            painter.restore()
            return
        painter.drawText(lower, _RIGHT, title.partition(" ")[2])
        self._paint_device(painter, area.adjusted(0, 0, 0, -half), section)
        painter.restore()

    def _paint_device(self, painter: QPainter, area: QRectF, section: int) -> None:
        """What of the device's name lies in this section: it may be wider than its first one."""
        first = section
        while not starts_device(self.model().index(0, first)):
            first -= 1
        left = float(self.sectionViewportPosition(first))
        device = str(self.model().headerData(first, self.orientation())).split(" ")[0]
        painter.setClipRect(area)
        if first == section:
            painter.fillRect(QRectF(left, area.top(), 1, 2 * area.height()), _line())
        draw_swatch(painter, left + 1.5 * GRID, area.center().y(), device)
        painter.setFont(fonts.body())
        painter.setPen(QColor(tokens().text))
        words = QRectF(left + 2.5 * GRID + swatch_size(), area.top(), 1000, area.height())
        painter.drawText(words, _MIDDLE, device)


def starts_device(index: QModelIndex | QPersistentModelIndex) -> bool:
    """Whether the columns of a device begin there."""
    model, across = index.model(), Qt.Orientation.Horizontal
    if index.column() < 2:
        return index.column() == 1
    here, before = (
        str(model.headerData(at, across)) for at in (index.column(), index.column() - 1)
    )
    return here.split(" ")[0] != before.split(" ")[0]


def _paint_cell(painter: QPainter, inside: QRectF, cell: Cell, most: int) -> None:
    now, failed = tokens(), cell.status == "failed"
    room = inside.width() - fonts.px(NUMBER) - GRID
    height = fonts.px(BAR)
    if room >= LEAST_BAR:
        share = min(1.0, cell.size / max(most, 1))
        top = round(inside.center().y() - height / 2)
        bar = QRectF(inside.left(), top, max(5.0, room * share), height)
        _paint_bar(painter, bar, cell)
        if cell.size > most:
            _break(painter, QRectF(inside.left() + room * 0.7, top, 10, height))
    painter.setPen(QColor(now.bad if failed else now.text if cell.held else now.quiet))
    painter.setFont(fonts.strong() if failed else fonts.small())
    painter.drawText(inside, _RIGHT, mib(cell.size))


def _paint_bar(painter: QPainter, bar: QRectF, cell: Cell) -> None:
    share = min(1.0, cell.held / cell.size) if cell.size else 0.0
    filled = QRectF(bar.left(), bar.top(), bar.width() * share, bar.height())
    if share:
        fill_component(painter, filled, cell.device, cell.kind)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    outline = bar.adjusted(0.5, 0.5, -0.5, -0.5)
    if cell.status == "failed":
        painter.setPen(QPen(QColor(tokens().bad), 1.5))
        painter.drawRect(outline)
        Paper(painter, bar).cross(bar.center(), bar.height() / 2 - 2, tokens().bad)
    elif share < 1:
        painter.setPen(QPen(QColor(device_look(cell.device).colour), 1, Qt.PenStyle.DashLine))
        painter.drawRect(outline)


def _break(painter: QPainter, area: QRectF) -> None:
    """A cut through a bar that is longer than it is drawn."""
    painter.setPen(QPen(QColor(tokens().panel), 3))
    for shift in (0, 6):
        painter.drawLine(
            QPointF(area.left() + shift, area.bottom() + 2),
            QPointF(area.left() + 4 + shift, area.top() - 2),
        )


def _line() -> QColor:
    return QColor(tokens().divider)


def _dot() -> QColor:
    return QColor(tokens().faint)
