"""Layers by components: a bar and a number in each cell."""

from statistics import median
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from app.state.memory_sums import MAPPED, ORDER, LayerSum, Part
from app.theme import fonts
from app.theme.devices import draw_swatch, fill_component
from app.theme.theme import tokens
from app.theme.tokens import GRID, ROW_COMPACT
from app.widgets.numbers import UNKNOWN, mib
from app.widgets.rows import Column, Rows

LAYER_WIDTH = 96
LAYER_ROLE = Qt.ItemDataRole.UserRole


class LayerRows(Rows[LayerSum]):
    """A column for each component that occurs."""

    def __init__(self) -> None:
        super().__init__(())
        self.names: list[str] = []
        self.most: dict[str, int] = {}

    def show_layers(self, rows: list[LayerSum]) -> None:
        present = {name for row in rows if row.layer is not None for name in row.cells}
        self.names = [name for name in (*ORDER, MAPPED) if name in present]
        rows = [row for row in rows if present & row.cells.keys()]
        self.most = {
            name: _scale([_size(row.cells[name]) for row in rows if name in row.cells])
            for name in self.names
        }
        self.columns = (
            Column("layer", lambda row: row.title, width=72),
            *(Column(name, _text(name), right=True) for name in self.names),
        )
        self.show_rows(rows)

    def data(
        self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == LAYER_ROLE:
            return self.shown[index.row()]
        return super().data(index, role)


class _Cell(QStyledItemDelegate):
    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        rows = index.model()
        assert isinstance(rows, LayerRows)
        layer: LayerSum = index.data(LAYER_ROLE)
        area = QRectF(option.rect)
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, QColor(tokens().selection))
        inside = area.adjusted(GRID if index.column() == 0 else 4 * GRID, 0, -GRID, 0)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(fonts.small())
        if index.column() == 0:
            device = _device(layer)
            if device:
                swatch = QRectF(inside.left(), inside.center().y() - 7, 14, 14)
                painter.setFont(fonts.small())
                draw_swatch(painter, swatch, device)
            painter.setPen(QColor(tokens().text))
            painter.drawText(inside.adjusted(22, 0, 0, 0), middle, layer.title)
        else:
            name = rows.names[index.column() - 1]
            self._paint_parts(painter, inside, layer.cells.get(name, []), rows.most[name])
        painter.restore()

    def _paint_parts(self, painter: QPainter, inside: QRectF, parts: list[Part], most: int) -> None:
        number = fonts.px(52)
        room = inside.width() - number - GRID
        size = _size(parts)
        left, height = inside.left(), fonts.px(10)
        top = inside.center().y() - height / 2
        scale = room / max(most, size, 1) if size > most else room / max(most, 1)
        for part in parts:
            width = max(2.0, scale * part.size)
            bar = QRectF(left, top, width, height)
            if part.held:
                fill_component(painter, bar, part.device, part.component)
            else:
                painter.setPen(QColor(tokens().faint))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(bar.adjusted(0.5, 0.5, -0.5, -0.5))
            left += width
        if size > most:
            _break(painter, QRectF(inside.left() + room * 0.7, top, 10, height))
        painter.setPen(QColor(tokens().text if size else tokens().quiet))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(inside, right, mib(size) if size else UNKNOWN)


def layer_view(rows: LayerRows) -> QTableView:
    """The table of layers."""
    view = QTableView()
    view.setAccessibleName("Memory by layer, in MiB")
    view.setModel(rows)
    view.setItemDelegate(_Cell(view))
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    view.setShowGrid(False)
    view.setTabKeyNavigation(False)
    view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.verticalHeader().hide()
    view.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    view.verticalHeader().setDefaultSectionSize(fonts.px(ROW_COMPACT))
    view.horizontalHeader().setHighlightSections(False)
    rows.modelReset.connect(lambda: _fit(view.horizontalHeader()))
    return view


def _fit(header: QHeaderView) -> None:
    header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
    if header.count():
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(0, fonts.px(LAYER_WIDTH))


def _scale(sizes: list[int]) -> int:
    """The size that fills a cell; one far beyond the others (the output's) does not decide it."""
    usual = [size for size in sizes if size <= 4 * median(sizes)]
    return max(usual, default=0)


def _break(painter: QPainter, area: QRectF) -> None:
    """A cut through a bar that is longer than it is drawn."""
    painter.setPen(QPen(QColor(tokens().panel), 3))
    for shift in (0, 6):
        painter.drawLine(
            QPointF(area.left() + shift, area.bottom() + 2),
            QPointF(area.left() + 4 + shift, area.top() - 2),
        )


def _size(parts: list[Part]) -> int:
    return sum(part.size for part in parts)


def _device(layer: LayerSum) -> str:
    """The device of most of a layer."""
    parts = [part for found in layer.cells.values() for part in found]
    return max(parts, key=lambda part: part.size).device if parts else ""


def _text(name: str) -> Any:
    return lambda row: mib(_size(row.cells[name])) if name in row.cells else UNKNOWN
