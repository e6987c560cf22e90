"""How a person selects in each view of the window: by mouse, by keyboard."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.state.selection import Selected
from app.views.talk.message import MessageView
from app.widgets.lists.table import Table
from app.widgets.plots.legend import ChartLegend
from app.widgets.tokens.text import TokenText
from app.window.main_window import MainWindow
from engine.protocol import MemoryEvents
from tests.app.helpers.records import events, memory, step_times
from tests.app.helpers.scripted import ScriptedEngine

LEFT, ALT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.AltModifier


@pytest.fixture
def client(window: MainWindow, tiny_path: Path, qtbot: QtBot) -> ScriptedEngine:
    """A model is open, an answer of tokens is there, memory and splits are known."""
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    window.bench.preferences.update(probabilities_shown=True)
    window.bench.open_model(tiny_path)
    client.say(memory("planned"), MemoryEvents(0, events()), memory("allocated"))
    client.load_done()
    assert window.bench.chat.send("Hello")
    client.write(*(f" word{n}" for n in range(400)))
    client.end(n=400)
    client.say(step_times())
    qtbot.waitUntil(lambda: window.bench.file.content is not None)
    window.bench.selection.forget()
    window.panes.show_tab("memory")
    QApplication.processEvents()
    return client


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = ALT) -> None:
    QTest.keyClick(window.windowHandle(), key, modifiers)
    QApplication.processEvents()


def click(view: QAbstractItemView, index: QModelIndex) -> None:
    view.scrollTo(index)
    QApplication.processEvents()
    QTest.mouseClick(view.viewport(), LEFT, pos=view.visualRect(index).center())


def walk(view: QWidget, *keys: Qt.Key) -> None:
    view.setFocus()
    for key in keys:
        QTest.keyClick(view, key)


def answer(window: MainWindow) -> TokenText:
    view = window.talk.chat.column.require(1)
    assert isinstance(view, MessageView)
    assert view.tokens is not None
    return view.tokens.painter


# Who sets it: by mouse, by keyboard, and what is selected then.


def place(window: MainWindow, layer: int, column: str) -> QModelIndex:
    rows = window.inspector.memory.matrix.rows
    titles = [
        str(rows.headerData(at, Qt.Orientation.Horizontal)) for at in range(rows.columnCount())
    ]
    return rows.index(rows.grid.layers.index(layer), titles.index(column))


def matrix_by_mouse(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    click(window.inspector.memory.matrix, place(window, 9, "nvidia:0 cache"))


def matrix_by_keys(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    matrix = window.inspector.memory.matrix
    matrix.setCurrentIndex(place(window, 8, "nvidia:0 cache"))
    walk(matrix, Qt.Key.Key_Down)


def layer_by_mouse(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    click(window.inspector.memory.matrix, place(window, 1, "layer"))


def layer_by_keys(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    matrix = window.inspector.memory.matrix
    matrix.setCurrentIndex(place(window, 0, "layer"))
    walk(matrix, Qt.Key.Key_Down)


def part_by_mouse(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    bar = window.inspector.memory.bars.bars[1]
    at = next(n for n, part in enumerate(bar.parts) if part.component == "cache")
    area = bar.areas()[at]
    QTest.mouseClick(bar, LEFT, pos=area.center().toPoint())


def part_by_keys(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    bar = window.inspector.memory.bars.bars[1]
    walk(bar, Qt.Key.Key_Home, Qt.Key.Key_Right, Qt.Key.Key_Return)


def device_by_mouse(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    bar = window.inspector.memory.bars.bars[1]
    QTest.mouseClick(bar, LEFT, pos=QPoint(12, bar.height() - 6))


def record(window: MainWindow) -> tuple[Table, int]:
    window.panes.show_tab("memory")
    if not window.inspector.memory.as_table:
        window.inspector.memory.toggle_table()
    table = window.inspector.memory.records
    wanted = ("nvidia:0", "cache", 9)
    rows = table.rows.shown
    return table, next(
        at for at, r in enumerate(rows) if (r.device, r.component, r.layer) == wanted
    )


def record_by_mouse(window: MainWindow) -> None:
    table, at = record(window)
    click(table.view, table.rows.index(at, 1))


def record_by_keys(window: MainWindow) -> None:
    table, at = record(window)
    table.choose(at - 1)
    walk(table.view, Qt.Key.Key_Down)


def allocation(window: MainWindow) -> tuple[Table, int]:
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("timeline")
    table = window.inspector.memory.events
    wanted = ("nvidia:0", "cache", 9)
    rows = table.rows.shown
    return table, next(
        at for at, e in enumerate(rows) if (e.device, e.component, e.layer) == wanted
    )


def event_by_mouse(window: MainWindow) -> None:
    table, at = allocation(window)
    click(table.view, table.rows.index(at, 1))


def event_by_keys(window: MainWindow) -> None:
    table, at = allocation(window)
    table.choose(at - 1)
    walk(table.view, Qt.Key.Key_Down)


def track_by_keys(window: MainWindow) -> None:
    allocation(window)
    track = window.inspector.memory.tracks.tracks[1]
    walk(track, Qt.Key.Key_Home, *[Qt.Key.Key_Right] * 3)


def track_by_mouse(window: MainWindow) -> None:
    allocation(window)
    track = window.inspector.memory.tracks.tracks[1]
    x = round((3 + 0.5) * track.width() / track.stops())
    QTest.mouseClick(track, LEFT, pos=QPoint(x, track.height() // 3))


def split_by_mouse(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")
    band = window.inspector.memory.split_chart.band
    computed = band.areas()[1]
    QTest.mouseClick(band, LEFT, pos=computed.center().toPoint())


def split_by_keys(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")
    walk(window.inspector.memory.split_chart.band, Qt.Key.Key_Home, Qt.Key.Key_Right)


def split_row_by_mouse(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")
    table = window.inspector.memory.splits
    click(table.view, table.rows.index(1, 1))


def split_row_by_keys(window: MainWindow) -> None:
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")
    table = window.inspector.memory.splits
    table.choose(0)
    walk(table.view, Qt.Key.Key_Down)


def owners(window: MainWindow) -> ChartLegend:
    allocation(window)
    QApplication.processEvents()
    return window.inspector.memory.tracks.legends[1]


def owner_by_mouse(window: MainWindow) -> None:
    legend = owners(window)
    QTest.mouseClick(legend, LEFT, pos=legend.place_of(("nvidia:0", "cache")).center().toPoint())


def owner_by_keys(window: MainWindow) -> None:
    legend = owners(window)
    steps = legend.keys.index(("nvidia:0", "cache"))
    walk(legend, Qt.Key.Key_Home, *[Qt.Key.Key_Right] * steps, Qt.Key.Key_Return)


def devices_of_splits(window: MainWindow) -> ChartLegend:
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")
    QApplication.processEvents()
    return window.inspector.memory.split_chart.legend


def device_of_splits_by_mouse(window: MainWindow) -> None:
    legend = devices_of_splits(window)
    QTest.mouseClick(legend, LEFT, pos=legend.place_of("nvidia:0").center().toPoint())


def device_of_splits_by_keys(window: MainWindow) -> None:
    walk(devices_of_splits(window), Qt.Key.Key_Home, Qt.Key.Key_Right, Qt.Key.Key_Return)


def top_device_by_mouse(window: MainWindow) -> None:
    QTest.mouseClick(window.top.device.buttons["nvidia:0"], LEFT)


def top_device_by_keys(window: MainWindow) -> None:
    walk(window.top.device.buttons["nvidia:0"], Qt.Key.Key_Return)


TENSOR = "blk.1.attn_norm.weight"


def tensors(window: MainWindow) -> tuple[Table, int]:
    window.sheets.show_file()
    window.sheets.file.tabs.setCurrentIndex(1)
    table = window.sheets.file.tensors.table
    return table, [t.name for t in table.rows.shown].index(TENSOR)


def tensor_by_mouse(window: MainWindow) -> None:
    table, at = tensors(window)
    click(table.view, table.rows.index(at, 0))


def tensor_by_keys(window: MainWindow) -> None:
    table, at = tensors(window)
    table.choose(at - 1)
    walk(table.view, Qt.Key.Key_Down)


CELL = Selected(layer=9, device="nvidia:0", component="cache")
LAYER = Selected(layer=1)
PART = Selected(device="nvidia:0", component="cache")
DEVICE = Selected(device="nvidia:0")
SPLIT = Selected(split=1, device="nvidia:0")
SOURCES: list[tuple[Callable[[MainWindow], None], Selected]] = [
    (matrix_by_mouse, CELL),
    (matrix_by_keys, CELL),
    (record_by_mouse, CELL),
    (record_by_keys, CELL),
    (event_by_mouse, CELL),
    (event_by_keys, CELL),
    (track_by_mouse, CELL),
    (track_by_keys, CELL),
    (layer_by_mouse, LAYER),
    (layer_by_keys, LAYER),
    (part_by_mouse, PART),
    (part_by_keys, PART),
    (owner_by_mouse, PART),
    (owner_by_keys, PART),
    (device_by_mouse, DEVICE),
    (device_of_splits_by_mouse, DEVICE),
    (device_of_splits_by_keys, DEVICE),
    (top_device_by_mouse, DEVICE),
    (top_device_by_keys, DEVICE),
    (split_by_mouse, SPLIT),
    (split_by_keys, SPLIT),
    (split_row_by_mouse, SPLIT),
    (split_row_by_keys, SPLIT),
    (tensor_by_mouse, Selected(layer=1, tensor=TENSOR)),
    (tensor_by_keys, Selected(layer=1, tensor=TENSOR)),
]
