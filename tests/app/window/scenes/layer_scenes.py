"""The window with layers placed by hand on three devices."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.state.layers.layers import LayersState
from app.views.layers.layers import LayersView
from app.window.main_window import MainWindow
from engine.protocol import ListDevices
from tests.app.helpers.placed import ROWS, PlacedModel, move_layers, reprice
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine


def client(window: MainWindow) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def placed(window: MainWindow, model: PlacedModel | None = None) -> LayersState:
    """Layers on three devices by hand, of an open model."""
    window.bench.open_model("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    client(window).say(memory("planned"), memory("allocated"))
    client(window).load_done()
    model = model or PlacedModel(30)
    window.panes.show_tab("layers")
    client(window).answer(ListDevices, ROWS)
    reprice(client(window), model)
    state = window.bench.layers
    move_layers(state, range(24, 30), "nvidia:0")
    move_layers(state, [3, 4], "pocl:0")
    reprice(client(window), model)
    return state


def placed_short(window: MainWindow) -> None:
    """A lane has too little memory, and a rule was typed that is none."""
    move_layers(placed(window), range(12, 31), "nvidia:0")
    reprice(client(window), PlacedModel(30))
    window.bench.layers.type_rule("0-11=intel:0, 12-40=nvidia:0")
    reprice(client(window), PlacedModel(30))


def placed_open(window: MainWindow) -> None:
    placed(window, PlacedModel(80, (15000, 15000, 200), experts=True))
    chart = window.inspector.view(LayersView).chart
    chart.setFocus()
    chart.open(next(tile for tile in chart.picture.tiles() if 10 in tile.layers))
    QTest.keyClick(chart, Qt.Key.Key_Return)


def placed_table(window: MainWindow) -> None:
    placed(window, PlacedModel(18))
    window.inspector.view(LayersView).toggle_table()


SCENES = (placed, placed_short, placed_open, placed_table)
