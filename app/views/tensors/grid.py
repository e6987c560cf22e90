"""A tensor's numbers as a table that reads what is visible."""

from collections import OrderedDict
from functools import partial
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QFontMetrics, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QHeaderView, QTableView

from app.language import tr
from app.state.tensors.numbers import Floats, Numbers
from app.theme import fonts
from app.widgets.basics import TEXT_SIZE
from app.work import Work

AT_ONCE = 1 << 15  # numbers that are read together
KEPT = 48  # such pieces
WAITING = 4  # of which so many may wait to be read: of those scrolled past none is wanted
MOST_COPIED = 1 << 16
WIDEST = "−0.000000e+00"
_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole


class NumberRows(QAbstractTableModel):
    """Rows and columns as in the tensor; "…" where a number is being read."""

    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._numbers: Numbers | None = None
        self._pieces: OrderedDict[int, Floats] = OrderedDict()
        self._wanted: list[int] = []
        self._job: Work | None = None

    def show_numbers(self, numbers: Numbers | None) -> None:
        self.beginResetModel()
        self._numbers = numbers
        self._pieces.clear()
        self._wanted.clear()
        self._job = None
        self.endResetModel()

    def value(self, row: int, column: int) -> float | None:
        """A number; None of one that is read first."""
        piece, at = divmod(row, self._tall)
        found = self._pieces.get(piece)
        if found is not None:
            self._pieces.move_to_end(piece)
            return float(found[at, column])
        if piece not in self._wanted:
            self._wanted = [*self._wanted, piece][-WAITING:]
            self._read()
        return None

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        nothing = self._numbers is None or (parent is not None and parent.isValid())
        return 0 if nothing or self._numbers is None else self._numbers.rows

    def columnCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        nothing = self._numbers is None or (parent is not None and parent.isValid())
        return 0 if nothing or self._numbers is None else self._numbers.columns

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole
    ) -> Any:
        return str(section) if role == _Role.DisplayRole else None

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        if role in (_Role.DisplayRole, _Role.AccessibleTextRole):
            value = self.value(index.row(), index.column())
            return "…" if value is None else number(value)
        if role == _Role.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    @property
    def _tall(self) -> int:
        assert self._numbers is not None
        return max(1, AT_ONCE // self._numbers.columns)

    def _read(self) -> None:
        if self._job is not None or not self._wanted or self._numbers is None:
            return
        piece = self._wanted[-1]
        first = piece * self._tall
        rows = range(first, min(first + self._tall, self._numbers.rows))
        job = Work(self._numbers.read, rows, range(self._numbers.columns))
        then = partial(self._have, self._numbers, piece, rows)
        self._job = job.then(then).fail(self._not_read).start(self)

    def _have(self, numbers: Numbers, piece: int, rows: range, values: Floats) -> None:
        if numbers is not self._numbers:
            return
        self._job = None
        self._pieces[piece] = values
        if len(self._pieces) > KEPT:
            self._pieces.popitem(last=False)
        if piece in self._wanted:
            self._wanted.remove(piece)
        last = self.index(rows[-1], numbers.columns - 1)
        self.dataChanged.emit(self.index(rows[0], 0), last, [_Role.DisplayRole])
        self._read()

    def _not_read(self, problem: str) -> None:
        self._job = None
        self._wanted.clear()
        self.failed.emit(problem)


class NumberGrid(QTableView):
    """The table; what is chosen in it copies with tabs between columns."""

    pointed = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.numbers = NumberRows(self)
        self.setAccessibleName(tr("Numbers"))
        self.setModel(self.numbers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        corner = self.findChild(QAbstractButton)
        assert corner is not None
        corner.setAccessibleName(tr("Corner of the table"))
        self.setCornerButtonEnabled(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setHighlightSections(False)
            header.setMinimumSectionSize(1)
        self.selectionModel().currentChanged.connect(self._current)
        self._scale()

    def show_numbers(self, numbers: Numbers | None) -> None:
        self.numbers.show_numbers(numbers)
        self._scale()

    def copied(self) -> str:
        """The chosen numbers, of whole rows and columns between the first and the last."""
        indexes = self.selectionModel().selection()
        if indexes.isEmpty():
            return ""
        area = indexes.first()
        columns = range(area.left(), area.right() + 1)
        rows = range(area.top(), area.bottom() + 1)[: max(1, MOST_COPIED // len(columns))]
        shown = self.numbers._numbers
        assert shown is not None
        values = shown.read(rows, columns)
        return "\n".join("\t".join(f"{x:.9g}" for x in row) for row in values.tolist())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.copied())
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._scale()

    def _scale(self) -> None:
        metrics = QFontMetrics(self.font())
        self.horizontalHeader().setDefaultSectionSize(metrics.horizontalAdvance(WIDEST) + 12)
        self.verticalHeader().setDefaultSectionSize(fonts.row())
        rows = max(0, self.numbers.rowCount() - 1)
        self.verticalHeader().setFixedWidth(metrics.horizontalAdvance(f" {rows} ") + 12)

    def _current(self, index: QModelIndex) -> None:
        if index.isValid():
            self.pointed.emit(index.row(), index.column())


def number(value: float) -> str:
    """Format a number to the width of a column; what is none is said as the dump says it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    size = abs(value)
    return f"{value:.6f}" if size == 0 or 1e-3 <= size < 1e5 else f"{value:.5e}"
