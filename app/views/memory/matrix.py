"""Layers by components: a table of cells, each with its bar and its number."""

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from app.language import mark, tr
from app.state.memory.matrix import Grid, describe
from app.state.memory.totals import Cell
from app.theme import fonts
from app.theme.tokens import ROW_COMPACT
from app.views.memory.cell import DeviceHeader, MemoryCell
from app.widgets.basics import TEXT_SIZE
from app.widgets.numbers import mib
from app.widgets.tips import plain_tip

LEAST_WIDTH = 76
CELL, SCALE = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1
_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole


class MatrixRows(QAbstractTableModel):
    """One row per layer: its number, then one column per component of each device."""

    def __init__(self) -> None:
        super().__init__()
        self.grid, self.refusal = Grid(), ""
        self._scales: dict[str, int] = {}

    def show_grid(self, grid: Grid, refusal: str) -> None:
        """Show another grid; the cursor stays if rows and columns are the same."""
        same = (grid.layers, grid.columns) == (self.grid.layers, self.grid.columns)
        if not same:
            self.beginResetModel()
        self.grid, self.refusal, self._scales = grid, refusal, grid.scales()
        if not same:
            self.endResetModel()
        elif grid.layers:
            last = self.index(len(grid.layers) - 1, len(grid.columns))
            self.dataChanged.emit(self.index(0, 0), last)

    def place_of(self, cell: Cell) -> QModelIndex:
        """Where a cell is."""
        row = self.grid.layers.index(cell.layer)
        return self.index(row, 1 + self.grid.columns.index((cell.device, cell.kind)))

    def text(self) -> str:
        """In MiB, with tabs between columns and titles on top."""
        columns = range(self.columnCount())
        lines = [[str(self.headerData(at, Qt.Orientation.Horizontal)) for at in columns]]
        for row in range(self.rowCount()):
            lines.append([str(self.index(row, at).data() or "") for at in columns])
        return "\n".join("\t".join(line) for line in lines)

    def sentence(self, index: _Index) -> str:
        """A cell in words, or a layer with all of its bytes."""
        title = self.grid.title(self.grid.layers[index.row()])
        cell = self.cell(index)
        if cell is not None:
            return describe(cell, title, self.refusal)
        if index.column():
            device, component = self.grid.columns[index.column() - 1]
            return tr(
                "{device}, {component}, {title}: nothing",
                device=device,
                component=component,
                title=title,
            )
        mine = self.grid.row(index.row())
        devices = ", ".join(dict.fromkeys(c.device for c in mine))
        size = sum(c.size for c in mine if c.status != "mapped")
        name = tr("layer {title}", title=title) if title.isdecimal() else title
        return tr("{name}: {size} MiB on {devices}", name=name, size=mib(size), devices=devices)

    def cell(self, index: _Index) -> Cell | None:
        """What is there; None in the column of layers and where nothing is."""
        return self.grid.cell(index.row(), index.column() - 1) if index.column() else None

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.grid.layers)

    def columnCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else 1 + len(self.grid.columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Vertical or role != _Role.DisplayRole:
            return None
        return " ".join(self.grid.columns[section - 1]) if section else tr("layer")

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        cell = self.cell(index)
        if role == CELL:
            return cell
        if role == SCALE:
            return self._scales.get(cell.kind, 0) if cell is not None else 0
        if role == _Role.AccessibleTextRole:
            return self.sentence(index)
        if role == _Role.ToolTipRole:
            return plain_tip(self.sentence(index))
        if role != _Role.DisplayRole:
            return None
        if not index.column():
            return self.grid.title(self.grid.layers[index.row()])
        if cell is None:
            return ""
        marked = cell.status in (mark("planned"), mark("failed"))
        return mib(cell.size) + (f" {tr(cell.status)}" if marked else "")


class MatrixView(QTableView):
    """Arrows go from cell to cell; copying takes all of it."""

    pointed = Signal(object)  # QModelIndex that the person went to
    opened = Signal(object)  # QModelIndex: Enter, or a double click

    def __init__(self) -> None:
        super().__init__()
        self.rows = MatrixRows()
        self.rows.setParent(self)
        self.setAccessibleName(tr("Memory by layer, in MiB"))
        self._header = DeviceHeader(self)
        self.setHorizontalHeader(self._header)
        self.setModel(self.rows)
        self.setItemDelegate(MemoryCell(self))
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self._header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.rows.modelReset.connect(self._fit)
        self._showing = False
        self.selectionModel().currentChanged.connect(self._point)
        self.clicked.connect(lambda index: self.pointed.emit(index))
        self.activated.connect(lambda index: self.opened.emit(index))

    def show_selected(
        self, layer: int | None, device: str | None, component: str | None, scroll: bool = True
    ) -> None:
        """Mark a cell, a layer, or the columns of a device, and bring it into view."""
        grid = self.rows.grid
        rows = [at for at, n in enumerate(grid.layers) if n == layer and n is not None]
        columns = [
            1 + at
            for at, (on, of) in enumerate(grid.columns)
            if on == device and component in (of, None)
        ]
        if not rows and not columns:
            self.clearSelection()
            return
        self._showing = True
        first = rows[0] if rows else max(self.currentIndex().row(), 0)
        index = self.rows.index(first, columns[0] if columns else max(self._column(), 0))
        upper, lower = (first, first) if rows else (0, len(grid.layers) - 1)
        left, right = (columns[0], columns[-1]) if columns else (0, len(grid.columns))
        marked = QItemSelection(self.rows.index(upper, left), self.rows.index(lower, right))
        model = self.selectionModel()
        if index != self.currentIndex():
            model.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
        model.select(marked, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        if scroll:
            self.scrollTo(index)
        self._showing = False

    def _column(self) -> int:
        return self.currentIndex().column()

    def _point(self, now: QModelIndex) -> None:
        if now.isValid() and not self._showing:
            self.pointed.emit(now)

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.rows.text())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        self._showing = True  # Qt puts the cursor on the first cell; nobody went there
        super().focusInEvent(event)
        self._showing = False

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()
        self.show_failure()

    def show_failure(self) -> None:
        """Scroll to the refused cell."""
        failed = next((c for c in self.rows.grid.at.values() if c.status == "failed"), None)
        if failed is not None:
            self.scrollTo(self.rows.place_of(failed))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._fit()

    def _fit(self) -> None:
        """Rows as high as the text; columns as wide as they need, layers share the rest."""
        self.verticalHeader().setDefaultSectionSize(fonts.px(ROW_COMPACT))
        least = fonts.px(LEAST_WIDTH)
        widths = [max(needed, least) for needed in self._header.needed()]
        narrow = {0, *(1 + at for at in self.rows.grid.shared())}
        wide = [at for at in range(len(widths)) if at not in narrow]
        spare = max(0, self.viewport().width() - sum(widths)) // max(len(wide), 1)
        for at, width in enumerate(widths):
            self._header.resizeSection(at, width + spare * (at in wide))
