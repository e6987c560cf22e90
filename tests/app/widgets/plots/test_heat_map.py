"""The heat map: painted colours of known cells, cursor, zoom, levels, grids too large to read."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolTip

from app.theme.theme import Theme, tokens
from app.theme.tokens import contrast
from app.widgets.plots.cells import MOST_READ, CellGrid, grid_of, seen_piece
from app.widgets.plots.colours import colourised, diverging, sequential
from app.widgets.plots.heat_map import HeatMap
from tests.app.helpers.painted import faults, texts
from tests.app.rest import come_to_rest

Show = Callable[[Any], Any]
LEFT = Qt.MouseButton.LeftButton
GRID = np.arange(12, dtype=np.float32).reshape(3, 4) - 4


def colour_of(plot: HeatMap, row: int, column: int) -> QColor:
    """The painted colour in a corner of a cell, beside what is written in it."""
    area = plot.cell_area(row, column)
    at = QPoint(round(area.left() + 4), round(area.top() + 4))
    return plot.view.grab().toImage().pixelColor(at)


def wanted(value: float, low: float, high: float, table: np.ndarray) -> QColor:
    return QColor(*(int(c) for c in table[round((value - low) / (high - low) * (len(table) - 1))]))


@pytest.mark.parametrize("kind", ["sequential", "diverging"])
@pytest.mark.parametrize("name", ["light", "dark", "contrast"])
def test_cells_have_the_colour_of_their_number(
    show: Show, theme: Theme, kind: str, name: str
) -> None:
    plot = show(HeatMap("Grid", diverging=kind == "diverging"))
    plot.show_cells(GRID)
    theme.choose(name)  # after it was made: it restyles
    QTest.qWait(20)
    low, high = (-7, 7) if kind == "diverging" else (-4, 7)
    assert plot.levels == (low, high)
    table = diverging() if kind == "diverging" else sequential()
    for row in range(3):
        for column in range(4):
            assert colour_of(plot, row, column) == wanted(GRID[row, column], low, high, table)


def test_levels_and_what_is_no_number(show: Show) -> None:
    plot = show(HeatMap("Grid"))
    grid = GRID.copy()
    grid[0, 0], grid[0, 1], grid[0, 2] = np.nan, np.inf, -np.inf
    plot.show_cells(grid, levels=(0, 2))
    table = sequential()
    assert [colour_of(plot, 0, at).name() for at in range(3)] == [tokens().bad.lower()] * 3
    assert colour_of(plot, 2, 3) == QColor(*(int(c) for c in table[-1]))
    assert colour_of(plot, 0, 3) == QColor(*(int(c) for c in table[0]))
    plot.set_levels(-1, 9)
    assert colour_of(plot, 2, 0) == wanted(4, -1, 9, table)


def test_tables_tell_numbers_apart(theme: Theme) -> None:
    """Each shade is farther from the ground than the one before it, on both sides of zero."""
    for name in ("light", "dark", "contrast"):
        theme.choose(name)
        panel = tokens().panel
        steps = [contrast(QColor(*map(int, c)).name(), panel) for c in sequential()]
        assert all(b >= a - 0.02 for a, b in zip(steps, steps[1:], strict=False))
        assert steps[-1] > 10
        both = [contrast(QColor(*map(int, c)).name(), panel) for c in diverging()]
        assert min(both[0], both[-1]) > 4.5
        assert min(both) == pytest.approx(both[127], abs=0.01)


def test_the_keyboard_walks_and_opens(show: Show) -> None:
    plot = show(HeatMap("Grid"))
    plot.show_cells(grid_of(GRID, row_title="layer", column_title="head"))
    went: list[tuple[int, int]] = []
    opened: list[tuple[int, int]] = []
    plot.pointed.connect(lambda *at: went.append(at))
    plot.activated.connect(lambda: opened.append(plot.at))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_End, Qt.Key.Key_PageDown):
        QTest.keyClick(plot, key)
    QTest.keyClick(plot, Qt.Key.Key_Return)
    assert went == [(0, 1), (1, 1), (1, 3), (2, 3)]
    assert opened == [(2, 3)]
    assert plot.accessibleDescription() == "layer 2, head 3: 7. 3 layers, 4 heads"
    QTest.keyClick(plot, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "layer \\ head\t0\t1\t2\t3"
    assert lines[3] == "2\t4\t5\t6\t7"
    plot.set_cursor(0, 0)
    assert went[-1] == (2, 3), "what is set by the program is not told"


def test_the_mouse_points_opens_and_says(show: Show) -> None:
    plot = show(HeatMap("Grid"))
    plot.show_cells(GRID)
    plot.mark({(1, 2): "first"})
    went: list[tuple[int, int]] = []
    opened: list[bool] = []
    plot.pointed.connect(lambda *at: went.append(at))
    plot.activated.connect(lambda: opened.append(True))
    at = plot.cell_area(1, 2).center().toPoint()
    viewport = plot.view.viewport()
    QTest.mouseClick(viewport, LEFT, pos=at)
    QTest.mouseDClick(viewport, LEFT, pos=at)
    assert went[0] == (1, 2)
    assert opened
    event = QHelpEvent(QEvent.Type.ToolTip, at, viewport.mapToGlobal(at))
    viewport.event(event) if plot.eventFilter(viewport, event) is False else None
    assert QToolTip.text() == "row 1, column 2: 2 (first)"


def test_zoomed_in_the_numbers_are_written(show: Show) -> None:
    plot = show(HeatMap("Grid"))
    plot.show_cells(np.arange(40_000, dtype=np.float32).reshape(200, 200))
    come_to_rest(plot)
    written = {text.text for text in texts(plot.view.viewport())}
    assert "20100" not in written
    plot.set_cursor(100, 100)
    for _ in range(7):
        QTest.keyClick(plot, Qt.Key.Key_Plus)
    come_to_rest(plot)
    assert "2.01e+04" in {text.text for text in texts(plot.view.viewport())}
    QTest.keyClick(plot, Qt.Key.Key_0)
    assert plot.seen == QRectF(0, 0, 200, 200)


def test_an_outlier_is_seen_however_small_it_is_drawn() -> None:
    grid = np.zeros((2000, 1500), np.float32)
    grid[1234, 567], grid[77, 3] = -9, np.nan
    piece = seen_piece(grid_of(grid), range(2000), range(1500), (300, 400))
    assert piece.largest
    down, across = piece.steps
    assert piece.values[1234 // down, 567 // across] == -9
    assert np.isnan(piece.values[77 // down, 3 // across])
    assert np.count_nonzero(np.nan_to_num(piece.values)) == 1
    assert piece.sampled == "each point is the largest of 7 × 4 numbers"


def test_of_a_huge_grid_only_what_is_drawn_is_read(show: Show) -> None:
    read: list[int] = []

    def numbers(rows: range, columns: range) -> np.ndarray:
        read.append(len(rows) * len(columns))
        return np.add.outer(np.array(rows), np.array(columns)).astype(np.float32)

    plot = show(HeatMap("Weights"))
    plot.show_cells(CellGrid((262_144, 640), numbers))
    room = plot.room.width() * plot.room.height()
    assert MOST_READ < 262_144 * 640
    assert max(read) <= 2 * room
    plot.set_cursor(262_143, 639)
    for _ in range(16):
        plot.zoom(0.5, plot.cursor_place())
    plot.set_cursor(262_143, 639)
    assert plot.value(262_143, 639) == 262_143 + 639
    assert plot.piece is not None
    assert plot.piece.steps == (1, 1)
    assert max(read) <= MOST_READ


def test_what_is_slow_is_read_in_a_thread(show: Show, qtbot: Any) -> None:
    from threading import Event, current_thread, main_thread

    go, threads = Event(), set()

    def numbers(rows: range, columns: range) -> np.ndarray:
        threads.add(current_thread() is main_thread())
        assert go.wait(60)
        return np.ones((len(rows), len(columns)), np.float32)

    plot = show(HeatMap("Slow"))
    plot.show_cells(CellGrid((10, 10), numbers, slow=True))  # returns, though reading waits
    plot.zoom(0.5)
    plot.zoom(0.5)
    assert plot.piece is None
    go.set()
    qtbot.waitUntil(lambda: plot.piece is not None and len(plot.piece.rows) <= 4)
    assert threads == {False}


@pytest.mark.full_cases(r"\[(0\.75|1\.0)")  # the views have all sizes in window/test_legible.py
@pytest.mark.parametrize("scale", [0.75, 1.0, 2.0])
def test_legible(show: Show, theme: Theme, scale: float) -> None:
    plot = show(HeatMap("Grid"))
    for shape in ((3, 4), (30, 9), (2000, 1500)):
        plot.show_cells(np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape))
        theme.choose("light", scale)
        for size in ((400, 300), (260, 160), (900, 500)):
            plot.resize(*size)
            come_to_rest(plot)
            assert list(faults(plot)) == []
            said = [text.area for text in texts(plot.view.viewport())]
            room = QRectF(plot.view.viewport().rect()).adjusted(-1, -1, 1, 1)
            assert said
            assert all(room.contains(area) for area in said), "nothing is cut at an edge"


def test_a_thousand_updates_leave_nothing(show: Show) -> None:
    plot = show(HeatMap("Grid"))
    rng = np.random.default_rng(1)
    plot.show_cells(rng.normal(size=(30, 9)))
    QTest.qWait(10)
    items = len(plot.view.scene().items())
    first = rng.normal(size=(30, 9)).astype(np.float32)
    gone = weakref.ref(first)
    plot.show_cells(first)
    del first
    for _ in range(1000):
        plot.show_cells(rng.normal(size=(30, 9)).astype(np.float32))
    gc.collect()
    assert len(plot.view.scene().items()) == items
    assert gone() is None


def test_colours_of_huge_and_of_equal_numbers() -> None:
    values = np.array([[0, 3.4e38, -3.4e38]], np.float32)
    table = sequential()
    image = colourised(values, -3.4e38, 3.4e38, table)
    assert image[0, 1, :3].tolist() == table[-1].tolist()
    assert image[0, 2, :3].tolist() == table[0].tolist()
    assert colourised(values * 0 + 5, 5, 5, table).shape == (1, 3, 4)
