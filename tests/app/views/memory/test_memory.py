"""Memory: bars, matrix, timeline, splits, and their tables."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QTableView

from app.window.main_window import MainWindow
from engine.errors import WorkerDied
from engine.protocol import Failed, MemoryEvents, Unloaded
from tests.app.helpers.records import events, memory, refused, step_times
from tests.app.helpers.scripted import ScriptedEngine

CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def client(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


def held(window: MainWindow) -> int:
    bars = window.inspector.memory.bars.bars
    return sum(part.held for bar in bars for part in bar.parts if not part.mapped)


def test_bars_grow_while_loading(window: MainWindow, client: ScriptedEngine) -> None:
    window.bench.open_model("/models/some.gguf")
    client.say(memory("planned"))
    assert held(window) == 0
    happened = events()
    client.say(MemoryEvents(0, happened[:5]))
    assert held(window) == sum(e.size for e in happened[:5]) > 0
    client.say(MemoryEvents(0, happened[5:]))
    wanted = sum(row.size for row in memory("allocated").rows if row.status == "allocated")
    assert held(window) == wanted
    client.say(memory("allocated"))
    client.load_done()
    assert held(window) == wanted
    client.say(Unloaded(0))
    assert window.inspector.memory.bars.bars[0].isHidden()


def test_the_picture_stays_when_the_engine_dies(window: MainWindow, client: ScriptedEngine) -> None:
    window.bench.open_model("/models/some.gguf")
    client.say(memory("planned"), MemoryEvents(0, events()), memory("allocated"))
    client.load_done()
    before, cells = held(window), list(window.bench.memory.cells)
    client.die(WorkerDied(-9, "it was killed"))
    assert held(window) == before > 0
    assert window.bench.memory.cells == cells
    assert window.bench.memory.allocations.events[-1].used == 0
    assert window.bench.session.vitals.rate is None
    client.restart()
    assert window.bench.memory.cells == []


def test_the_output_block_has_one_name(window: MainWindow, client: ScriptedEngine) -> None:
    window.bench.open_model("/models/some.gguf")
    client.say(memory("planned", layers=12), MemoryEvents(0, events()), memory("allocated"))
    view = window.inspector.memory
    view.show_page("timeline")
    for table in (view.records, view.events):
        layers = [column.title for column in table.rows.columns].index("Layer")
        texts = {str(table.rows.index(at, layers).data()) for at in range(table.rows.rowCount())}
        assert {"0", "11", "out", "shared"} <= texts
        assert "12" not in texts


def test_a_refused_cell_is_explained(window: MainWindow, client: ScriptedEngine) -> None:
    window.bench.open_model("/models/some.gguf")
    asked, text = client.last.id, "nvidia:0: no room for cache of layer 9: 1.6 MiB wanted, 0.2 left"
    client.say(memory("planned", fits=False), refused(), Failed(asked, "NoMem", text))
    view = window.inspector.memory
    assert text in view.details.text()
    assert "smaller context" in view.details.text()
    failed = window.bench.memory.failed
    assert failed is not None
    place = view.matrix.rows.place_of(failed)
    assert view.matrix.rows.grid.layers[place.row()] == 9
    assert view.matrix.rows.sentence(place) == view.details.text()
    assert "failed" in str(place.data())
    (part,) = [p for bar in view.bars.bars for p in bar.parts if p.failed]
    assert (part.device, part.component) == ("nvidia:0", "cache")
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL | SHIFT)
    track = view.tracks.tracks[0]
    assert "refused" in track.accessibleDescription()
    assert view.events.rows.shown[-1].kind == "refuse"


def test_the_timeline_is_walked_and_listed(window: MainWindow, client: ScriptedEngine) -> None:
    client.say(memory("planned"), MemoryEvents(0, events()), memory("allocated"))
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL | SHIFT)
    view = window.inspector.memory
    assert view.page == "timeline"
    assert [e.used for e in view.events.rows.shown] == [e.used for e in events()]
    for track in (t.track for t in view.tracks.tracks if t.isVisible()):
        for at, event in enumerate(track.events):
            assert sum(sizes[at] for sizes in track.heights.values()) == event.used
    track = view.tracks.tracks[0]
    track.setFocus()
    QTest.keyClick(track, Qt.Key.Key_Home)
    assert "2.0 MiB for weights of layer 0 on intel:0" in view.details.text()
    QTest.keyClick(track, Qt.Key.Key_Right)
    assert "cache of layer 0" in view.details.text()
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL)
    assert view.as_table
    assert view.events.isVisible()
    assert not track.isVisible()
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL | SHIFT)
    assert view.records.isVisible()


@pytest.mark.styled
@pytest.mark.parametrize(("width", "scale"), [(1600, 1.0), (900, 1.0), (640, 1.0), (1100, 2.0)])
def test_the_sentence_of_the_timeline_is_whole(
    window: MainWindow, client: ScriptedEngine, width: int, scale: float
) -> None:
    client.say(memory("planned"), MemoryEvents(0, events()), memory("allocated"))
    window.bench.preferences.update(font_scale=scale)
    window.resize(width, 900)
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL | SHIFT)
    QTest.qWait(50)
    view = window.inspector.memory
    assert view.isVisible()
    (line,) = [part for part in view.findChildren(QLabel) if part.text() == view.caption]
    words = line.fontMetrics().boundingRect(line.rect(), Qt.TextFlag.TextWordWrap, line.text())
    assert line.rect().contains(words), "no word is cut off"
    assert not line.visibleRegion().isEmpty()


def test_splits_are_walked_and_listed(window: MainWindow, client: ScriptedEngine) -> None:
    client.say(memory("allocated"))
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_L, CTRL | SHIFT)
    view = window.inspector.memory
    assert view.page == "splits"
    assert "No times" in view.split_chart.band.accessibleDescription()
    assert not view.splits.isVisible()
    for token in (1, 2):
        client.say(step_times(token))
    assert [n for n, _ in view.splits.rows.shown] == [0, 1, 2]
    assert [s for _, s in view.splits.rows.shown] == step_times(2).splits
    view.split_chart.band.setFocus()
    QTest.keyClick(view.split_chart.band, Qt.Key.Key_Right)
    said = view.details.text()
    assert "Split 1 on nvidia:0: 66 nodes, attn_norm-8 – result_output" in said
    assert "computes for 1.12 ms after 2 copies of 6.8 KiB in 74 µs" in said
    assert said in view.split_chart.band.accessibleDescription()
    client.say(step_times(3))  # what is chosen stays in sight
    assert view.details.text() == said
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_L, CTRL | SHIFT)
    assert view.page == "layers"
    numbers = view.bars.bars[0].numbers
    at = numbers.titles.index("ms/token")
    assert {name: row[at] for name, row in numbers.rows.items()} == {
        "intel:0": "3.80",
        "host": "0.26",
    }
    client.say(Unloaded(0))
    assert window.bench.splits.busy() == {}


def test_the_matrix_copies(window: MainWindow, client: ScriptedEngine) -> None:
    client.say(memory("planned"))
    window.inspector.memory.matrix.setFocus()
    QTest.keyClick(window.inspector.memory.matrix, Qt.Key.Key_C, CTRL)
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
    assert lines[0][:3] == ["layer", "intel:0 weights", "intel:0 cache"]
    assert lines[1][:3] == ["0", "2.0 planned", "1.0 planned"]
    assert [line[0] for line in lines[-2:]] == ["out", "shared"]


def test_the_table_has_the_same_numbers_and_copies(
    window: MainWindow, client: ScriptedEngine
) -> None:
    window.panes.show_tab("memory")
    client.say(memory("planned"), memory("allocated"))
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL)
    assert window.inspector.memory.as_table
    window.inspector.memory.records.copy_all()
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
    assert lines[0] == ["Device", "Component", "Layer", "MiB", "Status", "Bytes"]
    assert [int(line[-1]) for line in lines[1:]] == [r.size for r in memory("allocated").rows]
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_T, CTRL)
    assert not window.inspector.memory.as_table


def test_a_layer_is_inspected_by_keyboard(window: MainWindow, client: ScriptedEngine) -> None:
    client.say(memory("allocated"))
    table: QTableView = window.inspector.memory.matrix
    table.setFocus()
    for _ in range(3):
        QTest.keyClick(table, Qt.Key.Key_Down)
    chosen = window.bench.selection.now.layer
    assert chosen is not None
    assert chosen > 0
    window.bench.session.changed.emit()
    assert table.currentIndex().row() == chosen, "what does not change memory keeps the cursor"


def test_parts_of_a_bar_are_walked_by_arrows(window: MainWindow, client: ScriptedEngine) -> None:
    client.say(memory("allocated"))
    bar = window.inspector.memory.bars.bars[0]
    bar.setFocus()
    QTest.keyClick(bar, Qt.Key.Key_Right)
    QTest.keyClick(bar, Qt.Key.Key_Return)
    now = window.bench.selection.now
    assert (now.device, now.component) == ("intel:0", "cache")


@pytest.mark.styled
def test_devices_have_their_whole_names_in_a_narrow_table(
    window: MainWindow, client: ScriptedEngine
) -> None:
    client.say(memory("planned"), MemoryEvents(0, events()), memory("allocated"), step_times())
    window.panes.show_tab("memory")
    view = window.inspector.memory
    view.show_page("splits")
    window.resize(1600, 1000)
    QTest.qWait(50)
    window.resize(1100, 700)
    QTest.qWait(50)
    rows = view.splits.view.model()
    titles = [rows.headerData(at, Qt.Orientation.Horizontal) for at in range(rows.columnCount())]
    column = titles.index("Device")
    assert view.splits.view.columnWidth(column) >= view.splits.view.sizeHintForColumn(column)
