"""Summary of a tensor: statistics, histogram, and norms by row."""

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.language import tr
from app.state.tensors.statistics import Outlier, Statistics
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import label
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped
from app.widgets.plots.cells import number_text
from app.widgets.plots.lines import Lines, PlotAxis, PlotLine

BESIDE = 640  # pixels from which on the tables stand beside each other
NamedText = tuple[str, str]

WORDS = (
    Column[NamedText](tr("All numbers"), lambda r: r[0]),
    Column[NamedText](tr("Value"), lambda r: r[1], right=True),
)
FARTHEST = (
    Column[Outlier](
        tr("Value"), lambda o: number_text(o.value), lambda o: abs(o.value), right=True
    ),
    Column[Outlier](tr("Row"), lambda o: grouped(o.row), lambda o: o.row, right=True),
    Column[Outlier](tr("Column"), lambda o: grouped(o.column), lambda o: o.column, right=True),
)


class StatisticsPage(QWidget):
    """Sums and counts, and the numbers farthest from zero with their places."""

    place_wanted = Signal(int, int)

    def __init__(self) -> None:
        super().__init__()
        self.words = Table(TableRows(WORDS, self), tr("Statistics"), stretch=(0,), short=True)
        self.farthest = Table(
            TableRows(FARTHEST, self), tr("Largest magnitude"), stretch=(0,), short=True
        )
        self.farthest.activated.connect(lambda o: self.place_wanted.emit(o.row, o.column))
        for table in (self.words, self.farthest):
            table.setMinimumHeight(fonts.px(150))
        self._row = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(2 * GRID)
        self._row.addWidget(self.words, 3)
        self._row.addWidget(self.farthest, 2)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        beside = self.width() >= fonts.px(BESIDE)
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.LeftToRight if beside else direction.TopToBottom)

    def show_statistics(self, found: Statistics | None) -> None:
        self.words.rows.show_rows(described(found) if found is not None else ())
        self.farthest.rows.show_rows(found.outliers if found is not None else ())


def described(found: Statistics) -> list[NamedText]:
    """Statistics in words."""
    whole = max(found.size, 1)
    return [
        (tr("numbers"), grouped(found.size)),
        (tr("least"), number_text(found.low) if found.finite else "–"),
        (tr("largest"), number_text(found.high) if found.finite else "–"),
        (tr("mean"), number_text(found.mean)),
        (tr("standard deviation"), number_text(found.deviation)),
        (tr("root mean square"), number_text(found.rms)),
        (tr("sum of absolute values (L1)"), number_text(found.absolute)),
        (tr("Euclidean norm (L2)"), number_text(found.norm)),
        (
            tr("zeros"),
            tr(
                "{zeros} ({zeros2:.3g} %)",
                zeros=grouped(found.zeros),
                zeros2=100 * found.zeros / whole,
            ),
        ),
        ("NaN", grouped(found.nan)),
        (tr("infinite"), grouped(found.inf)),
    ]


class NormsPage(QWidget):
    """The Euclidean norm of each row."""

    row_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.lines = Lines(
            tr("Row norms"), PlotAxis(tr("row"), lambda x: str(round(x))), PlotAxis(tr("norm"))
        )
        self.lines.activated.connect(lambda: self.row_wanted.emit(self.lines.at))
        vbox(
            label(tr("The Euclidean norm of each row"), tone="quiet", size="small"),
            (self.lines, 1),
            on=self,
            spacing=6,
        )

    def show_statistics(self, found: Statistics | None) -> None:
        norms = found.norms.astype(np.float64) if found is not None else np.zeros(0)
        self.lines.show_lines(
            [PlotLine(tr("norm"), np.arange(len(norms)).astype(np.float64), norms)]
        )
