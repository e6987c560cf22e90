"""Compare and Cache of the Tensors view: the list selects, and says what is selected elsewhere."""

import msgspec
import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.views.tensors.tensors import KINDS, TensorsView
from app.window.main_window import MainWindow
from engine.protocol import CacheCells, Compare, ReadCells
from tests.app.helpers.compared import compared
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine


@pytest.fixture
def engine(window: MainWindow, tiny_path: object) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    window.bench.open_model(str(tiny_path))
    made.load_done()
    window.panes.show_tab("tensors")
    return made


def test_results_are_listed_and_select_their_operation(
    window: MainWindow, engine: ScriptedEngine
) -> None:
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Compare"))
    page = view.compare
    assert not page.table.isVisible()
    page.head.compare.click()
    told = compared(4, ["ffn_norm-2"], engine.last_of(Compare).id)
    engine.say(told)
    assert page.table.rows.all_rows == told.rows
    assert "First mismatch: ffn_norm-2" in page.head.caption.text()
    page.table.choose(0)
    page.table.view.clicked.emit(page.table.rows.index(5, 0))
    now = window.bench.selection.now
    assert (now.operation, now.layer, now.device) == ("ffn_swiglu-0", 0, "intel:0")
    window.bench.selection.select_operation("l_out-3", 3)
    assert page.table.rows.shown[page.table.view.currentIndex().row()].name == "l_out-3"
    window.bench.session.unload()
    assert not page.table.isVisible()


def test_cells_are_drawn_and_told(window: MainWindow, engine: ScriptedEngine) -> None:
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Cache"))
    bits, positions = np.zeros(130, "<i4"), np.full(130, -1, "<i4")
    bits[:70], positions[:70] = 1, np.arange(70)
    bits[3] = 5
    whole = CacheCells(None, None, [0, 2], bits.tobytes(), positions.tobytes())
    engine.answer(ReadCells, [whole, msgspec.structs.replace(whole, window=64, layers=[1])])
    page = view.cells
    said = "130 cells, 70 in use (positions 0 – 69), 1 of them shared, 60 free"
    assert page.caption.text() == said
    assert page.which.currentText() == "whole context, 2 layers"
    assert page.map.cells.shape == (3, 64)
    assert page.map.describe(1, 5) == "cells from 64, cell 5: position 69"
    assert page.map.describe(1, 6) == "cells from 64, cell 6: free"
    assert page.map.describe(0, 3).endswith("(shared by 2 sequences)")
    page.map.pointed.emit(0, 3)
    assert page.place.text() == "cell 3: position 3, shared by 2 sequences"
    page.which.setCurrentIndex(1)
    assert page.cache is window.bench.cells.caches[1]
    assert page.which.currentText() == "window 64, 1 layer"


def test_slots_of_recurrent_states_are_drawn_and_told(
    window: MainWindow, engine: ScriptedEngine
) -> None:
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Cache"))
    bits, last, kept = ([1, 0, 1, 5], [31, -1, 47, 40], [1, 0, 0, 1])
    raw = [np.array(numbers, "<i4").tobytes() for numbers in (bits, last, kept)]
    engine.answer(ReadCells, [CacheCells(None, None, [0, 2, 3], *raw)])
    page = view.cells
    assert page.which.currentText() == "recurrent states, 3 layers"
    said = "4 slots, 3 in use (of tokens up to 31 – 47), 2 of them checkpoints, 1 free"
    assert page.caption.text() == said
    assert page.map.cells.shape == (1, 4)
    assert page.map.describe(0, 0) == "slots from 0, slot 0: up to token 31 (checkpoint)"
    page.map.pointed.emit(0, 1)
    assert page.place.text() == "slot 1: free"
    page.map.pointed.emit(0, 3)
    said = "slot 3: up to token 40, shared by 2 sequences, a checkpoint"
    assert page.place.text() == said


def test_the_row_of_what_is_selected_is_in_sight(
    window: MainWindow, engine: ScriptedEngine
) -> None:
    """Also where it was selected while the list was not shown."""
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Compare"))
    page = view.compare
    page.head.compare.click()
    engine.say(compared(30, [], engine.last_of(Compare).id))
    for name, layer, page_before in (("l_out-27", 27, "tensors"), ("l_out-2", 2, "memory")):
        window.panes.show_tab(page_before)
        window.bench.selection.select_operation(name, layer)
        window.panes.show_tab("tensors")
        index = page.table.view.currentIndex()
        assert page.table.rows.shown[index.row()].name == name
        inside = page.table.view.viewport().rect()
        assert inside.contains(page.table.view.visualRect(index).center()), name


def test_a_device_alone_shows_a_tensor_of_its_layers(
    window: MainWindow, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    """And says so where it has none."""
    engine.say(memory("planned"), memory("allocated"))
    qtbot.waitUntil(lambda: window.bench.tensors.ready)
    tensors, view = window.bench.tensors, window.inspector.view(TensorsView)
    assert window.bench.memory.layers_on("nvidia:0") == {8, 9, 10, 11, 12}
    window.bench.selection.select_device("intel:0")
    assert tensors.item is not None
    assert tensors.item.layer in window.bench.memory.layers_on("intel:0")
    assert "on intel:0" in view.caption
    before = tensors.item
    window.bench.selection.select_device("pocl:7")
    assert tensors.item == before
    assert "no layers on pocl:7" in view.caption
