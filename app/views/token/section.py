"""A part of the view: its chart, or the same numbers as a table."""

from collections.abc import Callable

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import label
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.lists.view_report import ReportTable, texts_of

LEAST = 150  # pixels of a table

Line = tuple[str, ...]


class Section(QWidget):
    """A title above a chart or its table. `rows` gives the table, titles first; they never change.

    Columns from `numbers` on are aligned to the right.
    """

    def __init__(
        self, title: str, chart: QWidget, rows: Callable[[], list[list[str]]], numbers: int = 1
    ) -> None:
        super().__init__()
        self.title, self.chart, self._rows = title, chart, rows
        columns = [
            Column[Line](name, _part(at), _key(at), right=at >= numbers)
            for at, name in enumerate(rows()[0])
        ]
        self.table = Table(TableRows(columns, self), title, stretch=(0,))
        self.table.setMinimumHeight(fonts.px(LEAST))
        self.as_table = False
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(label(title, "", "strong"))
        column.addWidget(chart, 1)
        column.addWidget(self.table, 1)
        self.table.hide()

    def show_table(self, as_table: bool) -> None:
        """Chart or table; the same numbers."""
        self.as_table = as_table
        self.chart.setVisible(not as_table)
        self.table.setVisible(as_table)
        self.refresh()

    def refresh(self) -> None:
        """The table's rows as they are now."""
        if self.as_table:
            self.table.rows.show_rows([tuple(row) for row in self._rows()[1:]])

    def report(self) -> ReportTable:
        """The table, as it is now."""
        return texts_of(self.title, self._rows())

    @property
    def text(self) -> str:
        """Title and table, with tabs between columns."""
        return "\n".join([self.title, *("\t".join(row) for row in self._rows())])


def _part(at: int) -> Callable[[Line], str]:
    return lambda line: line[at]


def _key(at: int) -> Callable[[Line], tuple[float, str]]:
    """Numbers by size, words behind them."""

    def key(line: Line) -> tuple[float, str]:
        digits = line[at].replace("\u2009", "").removesuffix(" %").removeprefix("< ")
        try:
            return float(digits), ""
        except ValueError:
            return float("inf"), line[at]

    return key
