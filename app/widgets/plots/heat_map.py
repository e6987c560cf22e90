"""A grid of numbers as colours, down to the numbers themselves."""

from functools import partial
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QTransform
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import readable
from app.widgets.plots.canvas import BETWEEN, PlotCanvas, spread, toolkit
from app.widgets.plots.cells import CellGrid, Seen, grid_of, number_text, seen_piece
from app.widgets.plots.colours import Floats, colourised, diverging, sequential
from app.work import Work

MOST_ROWS = 200  # of the table that is copied, and columns
WRITTEN = "−0.0000"  # is as wide as what is written into cells
LEAST_CURSOR = 7.0  # pixels of the cursor's frame, however small cells are


class HeatMap(PlotCanvas):
    """Shows `CellGrid` or an array; row 0 is on top. Colours run between two levels, from the
    smallest to the largest number seen first unless they are set.
    """

    pointed = Signal(int, int)  # row and column that the person went to
    levels_changed = Signal(float, float)
    failed = Signal(str)  # why the numbers could not be read

    def __init__(self, name: str, diverging: bool = False) -> None:
        super().__init__(name)
        self.is_diverging = diverging
        self.cells = grid_of(np.zeros((0, 0)))
        self.piece: Seen | None = None
        self.levels = (0.0, 1.0)
        self._kept_levels = False
        self.at = (0, 0)
        self._marks: dict[tuple[int, int], str] = {}
        self._framed: int | None = None
        self._job: Work | None = None
        self._stale = False  # what the job reads is not what is visible by now
        self.image = toolkit().ImageItem()
        self._over = _Overlay(self)
        self.box.invertY(True)
        self.box.setDefaultPadding(0.0)
        self.box.addItem(self.image, ignoreBounds=True)
        self.box.addItem(self._over, ignoreBounds=True)
        self.dress()

    # What is shown

    def show_cells(
        self, cells: CellGrid | ArrayLike, levels: tuple[float, float] | None = None
    ) -> None:
        """Show other numbers. What is visible stays where the grid's size does; None takes levels
        from the numbers.
        """
        new = cells if isinstance(cells, CellGrid) else grid_of(cells)
        same = new.shape == self.cells.shape
        self.cells, self.piece = new, None
        self._kept_levels = levels is not None
        if levels is not None:
            self.levels = levels
        rows, columns = new.shape
        self.at = (
            min(self.at[0], max(rows - 1, 0)),
            min(self.at[1], max(columns, 1) - 1),
        )
        if same:
            self.ranged()
        else:
            self._marks = {}
            limits = {"xMin": 0, "xMax": max(columns, 1), "yMin": 0, "yMax": max(rows, 1)}
            self.box.setLimits(**limits, minXRange=min(1, columns) or 1, minYRange=1)
            self.show_all()
        self._describe()

    def set_levels(self, low: float, high: float) -> None:
        """Colours run from `low` to `high`."""
        self.levels, self._kept_levels = (low, high), True
        self._paint()

    def mark(self, marks: dict[tuple[int, int], str]) -> None:
        """Frame cells, each with what that means, which their tip says too."""
        self._marks = dict(marks)
        self._over.update()
        self._describe()

    def frame_row(self, row: int | None) -> None:
        """Frame a whole row, or none."""
        if row != self._framed:
            self._framed = row
            self._over.update()

    def set_cursor(self, row: int, column: int, scroll: bool = True) -> None:
        """Put the cursor on a cell without a signal."""
        rows, columns = self.cells.shape
        if rows and columns:
            self.at = min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)
            if scroll:
                self._scroll_to_cursor()
            self._describe()
            self._over.update()

    def value(self, row: int, column: int) -> float | None:
        """The number of a cell; None of one that is not there, or takes long to read."""
        rows, columns = self.cells.shape
        if not (0 <= row < rows and 0 <= column < columns):
            return None
        piece = self.piece
        if (
            piece is not None
            and piece.steps == (1, 1)
            and row in piece.rows
            and column in piece.columns
        ):
            return float(piece.values[row - piece.rows.start, column - piece.columns.start])
        if self.cells.slow:
            return None
        return float(self.cells.read(range(row, row + 1), range(column, column + 1))[0, 0])

    def describe(self, row: int, column: int) -> str:
        """A cell in words."""
        value = self.value(row, column)
        if value is None:
            return ""
        text = self.cells.describe(row, column, value)
        return f"{text} ({self._marks[row, column]})" if (row, column) in self._marks else text

    def rows(self) -> list[list[str]]:
        """The visible numbers, at most MOST_ROWS in each direction."""
        rows, columns = (r[:MOST_ROWS] for r in self._visible())
        values = self.cells.read(rows, columns) if len(rows) and len(columns) else np.zeros((0, 0))
        names = [self.cells.column_name(column) for column in columns]
        head = [f"{self.cells.row_title} \\ {self.cells.column_title}", *names]
        written = zip(rows, values, strict=False)
        return [head] + [
            [self.cells.row_name(row), *(self.cells.text(float(x)) for x in line)]
            for row, line in written
        ]

    # What the canvas calls

    def show_all(self) -> None:
        rows, columns = self.cells.shape
        self.box.setRange(QRectF(0, 0, max(columns, 1), max(rows, 1)), padding=0)
        self.ranged()

    def ranged(self) -> None:
        rows, columns = self._visible()
        self._label(rows, columns)
        most = self.room.height(), self.room.width()
        if not len(rows) or not len(columns):
            self._take(None)
        elif not self.cells.slow:
            self._take(seen_piece(self.cells, rows, columns, most))
        elif self._job is None:  # one at a time: the next begins with what is visible then
            work = Work(seen_piece, self.cells, rows, columns, most)
            self._job = work.then(partial(self._read, self.cells)).fail(self._not_read).start(self)
        else:
            self._stale = True

    def tip(self, place: QPointF) -> str:
        return self.describe(floor(place.y()), floor(place.x()))

    def point_at(self, place: QPointF) -> None:
        rows, columns = self.cells.shape
        if 0 <= place.y() < rows and 0 <= place.x() < columns:
            self.set_cursor(floor(place.y()), floor(place.x()), scroll=False)
            self.pointed.emit(*self.at)

    def walk(self, right: int, down: int) -> None:
        if 0 not in self.cells.shape:
            self.set_cursor(self.at[0] + down, self.at[1] + right)
            self.pointed.emit(*self.at)

    def cursor_place(self) -> QPointF:
        return QPointF(self.at[1] + 0.5, self.at[0] + 0.5)

    # Drawing

    def cell_area(self, row: int, column: int) -> QRectF:
        """Where a cell is, in pixels of the view."""
        to = self.box.mapViewToScene
        return QRectF(to(QPointF(column, row)), to(QPointF(column + 1, row + 1))).normalized()

    def _visible(self) -> tuple[range, range]:
        seen, (rows, columns) = self.seen, self.cells.shape
        top, bottom = max(0, floor(seen.top())), min(rows, ceil(seen.bottom()))
        left, right = max(0, floor(seen.left())), min(columns, ceil(seen.right()))
        return range(top, max(top, bottom)), range(left, max(left, right))

    def _read(self, cells: CellGrid, piece: Seen) -> None:
        stale, self._job, self._stale = self._stale or cells is not self.cells, None, False
        if cells is self.cells:
            self._take(piece)
        if stale:
            self.ranged()

    def _not_read(self, problem: str) -> None:
        self._job, self._stale = None, False
        self.failed.emit(problem)

    def _take(self, piece: Seen | None) -> None:
        self.piece = piece
        if piece is not None and not self._kept_levels:
            finite = piece.values[np.isfinite(piece.values)]
            low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
            if self.is_diverging:
                high = max(abs(low), abs(high))
                low = -high
            self.levels, self._kept_levels = (low, high if high > low else low + 1), True
            self.levels_changed.emit(*self.levels)
        self._paint()

    def _paint(self) -> None:
        piece = self.piece
        self.image.setVisible(piece is not None)
        if piece is not None:
            table = diverging() if self.is_diverging else sequential()
            self.image.setImage(colourised(piece.values, *self.levels, table), autoLevels=False)
            down, across = piece.steps
            height, width = piece.values.shape
            area = QRectF(piece.columns.start, piece.rows.start, width * across, height * down)
            self.image.setRect(area)
        self._over.update()

    def _label(self, rows: range, columns: range) -> None:
        """Names beside the rows and below the columns, as many as there is room for."""
        room, seen = self.room, self.seen
        metrics = QFontMetricsF(fonts.small())
        tall = room.height() / max(seen.height(), 1)
        by_row = spread(rows.start, rows.stop, tall, metrics.height() + 2)
        self.set_left([(row + 0.5, self.cells.row_name(row)) for row in by_row])
        ends = (columns.start, max(columns.stop - 1, 0))
        widest = max(metrics.horizontalAdvance(self.cells.column_name(at)) for at in ends)
        wide = room.width() / max(seen.width(), 1)
        by_column = spread(columns.start, columns.stop, wide, widest + BETWEEN)
        self.set_bottom([(at + 0.5, self.cells.column_name(at)) for at in by_column])

    def _scroll_to_cursor(self) -> None:
        """Move what is visible as little as needed to show the cursor."""
        seen, place = self.seen, self.cursor_place()
        right = min(0.0, place.x() - 0.5 - seen.left()) + max(0.0, place.x() + 0.5 - seen.right())
        down = min(0.0, place.y() - 0.5 - seen.top()) + max(0.0, place.y() + 0.5 - seen.bottom())
        if right or down:
            self.box.translateBy(x=right, y=down)

    def _describe(self) -> None:
        rows, columns = self.cells.shape
        size = f"{rows} {self.cells.row_title}s, {columns} {self.cells.column_title}s"
        self.setAccessibleDescription(f"{self.describe(*self.at)}. {size}".lstrip(". "))


class _Overlay(QGraphicsObject):
    """Numbers within cells that are large enough, marks, and the cursor; painted in pixels."""

    def __init__(self, plot: HeatMap) -> None:
        super().__init__()
        self._plot = plot

    def boundingRect(self) -> QRectF:  # noqa: N802
        rows, columns = self._plot.cells.shape
        return QRectF(0, 0, max(columns, 1), max(rows, 1))

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,
        widget: QWidget | None = None,
    ) -> None:
        plot = self._plot
        painter.save()
        painter.setWorldTransform(QTransform())
        painter.setFont(fonts.small())
        self._paint_numbers(painter)
        if plot._framed is not None and plot._framed < plot.cells.shape[0]:
            ends = (plot.cell_area(plot._framed, at) for at in (0, plot.cells.shape[1] - 1))
            self._frame(painter, next(ends).united(next(ends)), tokens().text, 1)
        for (row, column), _ in plot._marks.items():
            self._frame(painter, plot.cell_area(row, column), tokens().text, 1)
        if plot.hasFocus() and 0 not in plot.cells.shape:
            self._frame(painter, plot.cell_area(*plot.at), tokens().text, 2)
        painter.restore()

    def _paint_numbers(self, painter: QPainter) -> None:
        plot, metrics = self._plot, painter.fontMetrics()
        piece = plot.piece
        if piece is None or piece.steps != (1, 1):
            return
        first = plot.cell_area(piece.rows.start, piece.columns.start)
        least = metrics.horizontalAdvance(WRITTEN) + 6
        if first.width() < least or first.height() < metrics.height():
            return
        image = plot.image.image
        for at, row in enumerate(piece.rows):
            for place, column in enumerate(piece.columns):
                area = plot.cell_area(row, column)
                text = plot.cells.text(float(piece.values[at, place]))
                if metrics.horizontalAdvance(text) + 4 > area.width():
                    continue
                ground = QColor(*(int(c) for c in image[at, place, :3])).name()
                painter.setPen(QColor(readable(ground)))
                painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)

    def _frame(self, painter: QPainter, area: QRectF, tone: str, width: int) -> None:
        wide, tall = max(area.width(), LEAST_CURSOR), max(area.height(), LEAST_CURSOR)
        area = QRectF(area.center().x() - wide / 2, area.center().y() - tall / 2, wide, tall)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(tokens().panel), width + 2))
        painter.drawRect(area)
        painter.setPen(QPen(QColor(tone), width))
        painter.drawRect(area)


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
