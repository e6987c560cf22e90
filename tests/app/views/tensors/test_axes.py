"""Rows, columns and the places of the other dimensions, chosen by keyboard and by slider."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

from app.state.tensors.numbers import computed
from app.views.tensors.tensors import TensorsView
from app.window.main_window import MainWindow

VALUES = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)


@pytest.fixture
def view(window: MainWindow) -> TensorsView:
    window.panes.show_tab("tensors")
    view = window.inspector.view(TensorsView)
    window.bench.tensors.show_numbers(computed("experts", VALUES, "F32", ""))
    return view


def numbers(view: TensorsView, qtbot: QtBot) -> np.ndarray:
    rows = view.grid.numbers
    qtbot.waitUntil(lambda: rows.value(0, 0) is not None)
    found = [[rows.value(r, c) for c in range(rows.columnCount())] for r in range(rows.rowCount())]
    return np.array(found, np.float32)


def press(box: QComboBox, dim: int) -> None:
    """By keyboard: it is chosen as a person does."""
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Home)
    for _ in range(dim):
        QTest.keyClick(box, Qt.Key.Key_Down)
    assert box.currentIndex() == dim


def test_dimensions_are_chosen(view: TensorsView, qtbot: QtBot) -> None:
    np.testing.assert_array_equal(numbers(view, qtbot), VALUES[0, 0])
    axes = view.axes
    assert [axes.rows.itemText(at) for at in range(4)] == [
        *("dim 0 (5)", "dim 1 (4)", "dim 2 (3)", "dim 3 (2)")
    ]
    press(axes.rows, 2)
    np.testing.assert_array_equal(numbers(view, qtbot), VALUES[0, :, 0])
    assert view.heat.cells.shape == (3, 5)
    assert [place.name.text() for place in axes.places] == ["dim 1 at", "dim 3 at"]
    axes.places[0].slider.setFocus()
    QTest.keyClick(axes.places[0].slider, Qt.Key.Key_Right)
    axes.places[1].field.setValue(1)
    np.testing.assert_array_equal(numbers(view, qtbot), VALUES[1, :, 1])
    press(axes.columns, 2)  # by way of dimension 1; 2 is down, so that the two change places
    assert (axes.axes.columns, axes.axes.rows) == (2, 1)
    np.testing.assert_array_equal(numbers(view, qtbot), VALUES[1, :, :, 0].T)


def test_the_farthest_number_is_shown_where_it_is(view: TensorsView, qtbot: QtBot) -> None:
    """Whatever was chosen before: rows of all planes are counted as usual."""
    press(view.axes.rows, 3)
    view.show_page("Stats")
    qtbot.waitUntil(lambda: view.statistics.farthest.rows.total > 0)
    farthest = view.statistics.farthest.rows.shown[0]
    view.statistics.farthest.activated.emit(farthest)
    index = view.grid.currentIndex()
    qtbot.waitUntil(lambda: view.grid.numbers.value(index.row(), index.column()) is not None)
    found = view.grid.numbers.value(index.row(), index.column())
    assert found == farthest.value
    assert abs(farthest.value) == np.abs(VALUES).max()


def test_with_rows_and_columns_alone_nothing_is_chosen(
    window: MainWindow, view: TensorsView
) -> None:
    assert view.axes.isVisible()
    window.bench.tensors.show_numbers(computed("plain", VALUES[0, 0], "F32", ""))
    assert not view.axes.isVisible()
