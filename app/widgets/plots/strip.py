"""A heat map that rolls: a column for each token, the latest at the right."""

import numpy as np
from numpy.typing import ArrayLike
from PySide6.QtCore import QTimer

from app.widgets.plots.cells import CellGrid, number_text
from app.widgets.plots.colours import Floats
from app.widgets.plots.heat_map import HeatMap

FRAME_MS = 33


class Strip(HeatMap):
    """`rows` names its rows; the latest `most` columns are kept. Drawn at most once a frame."""

    def __init__(
        self, name: str, row_title: str = "layer", most: int = 512, diverging: bool = False
    ) -> None:
        self._most, self._row_title = most, row_title
        self._values = np.zeros((0, most), np.float32)
        self._kept = self._first = 0  # columns kept, and the number of the first of them
        self._names: list[str] = []
        self._timer = QTimer(singleShot=True, interval=FRAME_MS)
        super().__init__(name, diverging)
        self._timer.setParent(self)
        self._timer.timeout.connect(self.redraw)

    def begin(self, rows: list[str]) -> None:
        """Forget all columns; rows are these from now on."""
        self._names = list(rows)
        self._values = np.zeros((len(rows), self._most), np.float32)
        self._kept = self._first = 0
        self._kept_levels = False
        self.redraw()

    def append(self, column: ArrayLike) -> None:
        """The numbers [rows] of the next token; those of the oldest go where there are too many."""
        values = np.asarray(column, np.float32)
        if values.shape != (len(self._names),):
            raise ValueError(f"a column of {len(self._names)} numbers, not {values.shape}")
        if self._kept == self._most:
            self._values[:, :-1] = self._values[:, 1:]
            self._kept, self._first = self._kept - 1, self._first + 1
        self._values[:, self._kept] = values
        self._kept += 1
        if not self._timer.isActive():
            self._timer.start()

    @property
    def columns(self) -> range:
        """The tokens that are kept, by their number since `begin`."""
        return range(self._first, self._first + self._kept)

    def redraw(self) -> None:
        """Show what came; colours run to the largest number so far."""
        self._timer.stop()
        values, first, names = self._values[:, : self._kept], self._first, self._names
        finite = np.abs(values[np.isfinite(values)])
        top = float(finite.max()) if finite.size else 1.0

        def read(rows: range, columns: range) -> Floats:
            return values[
                rows.start : rows.stop : rows.step, columns.start : columns.stop : columns.step
            ]

        at_end = self.at[1] >= self.cells.shape[1] - 1
        row = self.at[0]
        self.show_cells(
            CellGrid(
                (len(names), self._kept),
                read,
                row_title=self._row_title,
                column_title="token",
                row_name=names.__getitem__,
                column_name=lambda column: str(first + column),
                text=number_text,
            ),
            levels=(-top if self.is_diverging else 0.0, top or 1.0),
        )
        if at_end:
            self.set_cursor(row, self._kept - 1, scroll=False)
