"""Plain rows as a table model, whose columns say how a row is written, sorted and aligned; and a
view's contents without its picture: sentences, tables and data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor

from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.tips import plain_tip

R = TypeVar("R")
_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole


@dataclass(frozen=True)
class Column(Generic[R]):
    """`text` is what is shown and copied; `key` sorts (the text where it is None).

    A column at the `right` holds numbers or times, which are never cut short, nor is one that is
    `whole`. `tone` and `quiet` colour the text, `picture` stands before it.
    """

    title: str
    text: Callable[[R], str]
    key: Callable[[R], Any] | None = None
    right: bool = False
    mono: bool = False
    quiet: bool = False
    whole: bool = False
    tone: Callable[[R], str] | None = None
    picture: Callable[[R], Any] | None = None


class TableRows(QAbstractTableModel, Generic[R]):
    """Rows, filtered and sorted as plain lists: quick with hundreds of thousands of them."""

    def __init__(self, columns: Sequence[Column[R]], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.shown: Sequence[R] = ()
        self._all: Sequence[R] = ()
        self._texts: Sequence[str] | None = None
        self._words: list[str] = []
        self._order: tuple[int, bool] | None = None

    @property
    def all_rows(self) -> Sequence[R]:
        """All rows, before filter and sort."""
        return self._all

    @property
    def total(self) -> int:
        """How many there are, whether shown or not."""
        return len(self._all)

    def show_rows(self, rows: Sequence[R], texts: Sequence[str] | None = None) -> None:
        """Replace all rows; `texts`, if at hand, is what a filter looks in, in small letters."""
        self._all, self._texts = rows, texts
        self._arrange()

    def show_columns(self, columns: Sequence[Column[R]]) -> None:
        """Replace the columns. The first ones must remain for the rows to stay sorted."""
        self.columns, self._texts = tuple(columns), None
        if self._order is not None and self._order[0] >= len(columns):
            self._order = None
        self._arrange()

    def look_for(self, query: str) -> None:
        """Show the rows in which every word of the query stands, in whichever column."""
        self._words = query.lower().split()
        self._arrange()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        down = order == Qt.SortOrder.DescendingOrder
        self._order = (column, down) if column >= 0 else None
        self._arrange()

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.shown)

    def columnCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Vertical or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == _Role.DisplayRole:
            return column.title
        if role == _Role.TextAlignmentRole:
            return _alignment(column.right)
        return None

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        column, row = self.columns[index.column()], self.shown[index.row()]
        if role in (_Role.DisplayRole, _Role.AccessibleTextRole):
            return column.text(row)
        if role == _Role.TextAlignmentRole:
            return _alignment(column.right)
        if role == _Role.FontRole:
            return fonts.mono() if column.mono else None
        if role == _Role.ForegroundRole:
            tone = column.tone(row) if column.tone is not None else "quiet" * column.quiet
            return QColor(getattr(tokens(), tone)) if tone else None
        if role == _Role.ToolTipRole:
            text = column.text(row)
            return plain_tip(text) if len(text) > 24 else None
        if role == _Role.DecorationRole and column.picture is not None:
            return column.picture(row)
        return None

    def _arrange(self) -> None:
        self.beginResetModel()
        self.shown = self._sorted(self._found())
        self.endResetModel()

    def _found(self) -> Sequence[R]:
        if not self._words:
            return self._all
        if self._texts is None:
            self._texts = [
                "\t".join([column.text(row) for column in self.columns]).lower()
                for row in self._all
            ]
        words = self._words
        pairs = zip(self._all, self._texts, strict=True)
        return [row for row, text in pairs if all(word in text for word in words)]

    def _sorted(self, rows: Sequence[R]) -> Sequence[R]:
        if self._order is None:
            return rows
        at, down = self._order
        column = self.columns[at]
        key = column.key or (lambda row: column.text(row).lower())
        return sorted(rows, key=key, reverse=down)


def _alignment(right: bool) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


Texts = Sequence[Sequence[str]]


@dataclass(frozen=True)
class ReportTable:
    """`rows` gives the texts under the titles of `columns`, from any thread."""

    title: str
    columns: Sequence[str]
    rows: Callable[[], Texts]


@dataclass(frozen=True)
class ViewReport:
    """`words` are paragraphs; `data` gives what JSON holds beside them, from any thread."""

    words: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    data: Callable[[], Any] = dict


def table_of(title: str, columns: Sequence[Column[R]], rows: Sequence[R]) -> ReportTable:
    """Rows as a table shows them."""
    return ReportTable(
        title,
        [column.title for column in columns],
        lambda: [[column.text(row) for column in columns] for row in rows],
    )


def texts_of(title: str, rows: Texts) -> ReportTable:
    """Texts at hand, of which the first row has the titles."""
    return ReportTable(title, rows[0], lambda: rows[1:])
