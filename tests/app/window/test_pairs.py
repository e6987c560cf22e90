"""From each view to each other: what a click or a key selects in one is shown by all."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.graph.blocks import key_of
from app.state.selection import Selected
from app.views.graph.graph import GraphView
from app.views.layers.layers import LayersView
from app.views.profile.profile import ProfileView
from app.views.tensors.tensors import TensorsView
from app.views.token.token import TokenView
from app.widgets.plots.time_lanes import TimeLanes
from app.window.main_window import MainWindow
from engine.protocol import AnswerRecorded, DescribeGraph, Generate, ListDevices
from tests.app.helpers import inside
from tests.app.helpers.graphs import graph_done
from tests.app.helpers.placed import ROWS, PlacedModel, move_layers, reprice
from tests.app.helpers.recorded import recorded
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until
from tests.app.window.selecting import (
    CELL,
    LEFT,
    answer,
    click,
    matrix_by_keys,
    matrix_by_mouse,
    press,
    top_device_by_keys,
    top_device_by_mouse,
    walk,
)

CTRL = Qt.KeyboardModifier.ControlModifier
Key = Qt.Key
PAGES = ("token", "memory", "layers", "graph", "tensors", "profile")
LAYERS, LAYER, DEVICE = 12, 9, "nvidia:0"  # layers 8 to 12 lie on it, or of the recording the odd
OPERATION = f"Qcur-{LAYER}"
OF_FILE, TENSOR = 1, "blk.1.attn_norm.weight"


def lies_on(layer: int) -> str:
    return ("intel:0", DEVICE)[layer >= 8]


def go(window: MainWindow, page: str) -> None:
    """To a page of the inspector, by its key."""
    QTest.keyClick(window.windowHandle(), Qt.Key(Key.Key_1 + PAGES.index(page)), CTRL)
    QApplication.processEvents()
    assert window.inspector.tab == page


def know(window: MainWindow, client: ScriptedEngine) -> None:
    """All views have something to show; a word of the answer is looked at."""
    window.bench.preferences.update(token_live=False)
    for page in ("graph", "tensors"):
        go(window, page)
        for asked in [r for r in client.asked if isinstance(r, DescribeGraph)]:
            if client.waits_for(asked.id):
                client.say(graph_done(LAYERS, lies_on, id=asked.id))
    until(lambda: window.bench.graph.is_known and window.bench.tensors.ready)
    go(window, "layers")
    client.answer(ListDevices, ROWS)
    reprice(client, PlacedModel(LAYERS))
    move_layers(window.bench.layers, range(8, LAYERS + 1), DEVICE)
    reprice(client, PlacedModel(LAYERS))
    assert window.bench.chat.send("Again")
    told = recorded(client.last_of(Generate).id, n_layer=LAYERS)  # type: ignore[attr-defined]
    assert isinstance(told, AnswerRecorded)
    client.say(told)
    client.end(n=1)
    window.bench.selection.select_token(window.bench.chat.path[1].id, 3)
    go(window, "token")
    window.bench.token.send()
    inside.answer(client, layers=LAYERS, heads=4, wanted=" word3", other=DEVICE)
    QApplication.processEvents()


# What each view shows of what is selected


def token_shows(window: MainWindow, now: Selected) -> None:
    view = window.inspector.view(TokenView)
    if now.layer is not None:
        assert view.lens.title_of(view.lens.layers[view.lens.row]) == str(now.layer)
        assert view.lens.selected == now.layer
    assert (window.bench.token.layer, window.bench.token.head) == (now.layer, now.head)
    keys = view.time.legend.keys
    assert view.time.legend.selected == [k for k in keys if now.device and k[1] == now.device]  # type: ignore[index]
    assert view.time.band.device == now.device


def memory_shows(window: MainWindow, now: Selected) -> None:
    matrix = window.inspector.memory.matrix
    grid, title = matrix.rows.grid, matrix.rows.headerData
    marked = matrix.selectedIndexes()
    if now.layer is not None:
        assert {grid.layers[index.row()] for index in marked} == {now.layer}
    if now.device is not None:
        columns = {str(title(i.column(), Qt.Orientation.Horizontal)) for i in marked}
        assert columns
        assert all(c.startswith(f"{now.device} {now.component or ''}") for c in columns)
    split = window.inspector.memory.split_chart.band.selected
    assert split == (now.split if now.split is not None else window.bench.splits.place_of(now))


def layers_shows(window: MainWindow, now: Selected) -> None:
    view = window.inspector.view(LayersView)
    assert view.chart.marked == now
    if now.layer is not None:
        tile = view.chart.walker.current
        assert tile is not None
        assert now.layer in tile.layers
        assert now.device in (tile.device, None)


def graph_shows(window: MainWindow, now: Selected) -> None:
    view = window.inspector.view(GraphView)
    index, marks = view.index, view.canvas.marks
    assert index is not None
    nodes = index.graph.nodes
    assert view.legend.chart.selected == [d for d in view.legend.chart.keys if d == now.device]
    if now.operation is not None:
        assert marks.selected is not None
        assert key_of(nodes[marks.selected]) == now.operation
        assert view.panel.title.text() == now.operation
        assert view.ribbon.selected == nodes[marks.selected].split
        return
    assert marks.selected is None
    if now.layer is not None:
        assert marks.card is not None
        card = view.canvas.scene.cards[marks.card]  # type: ignore[union-attr]
        assert index.blocks[card.shown].layer == now.layer
        assert view.panel.title.text().startswith(f"Layer {now.layer}")
    if now.split is not None:
        assert view.ribbon.selected == now.split
        assert marks.clear == {i for i, node in enumerate(nodes) if node.split == now.split}
    elif now.device is not None:
        assert marks.clear == {i for i, node in enumerate(nodes) if node.device == now.device}
        assert now.device in view.panel.title.text()


def tensors_shows(window: MainWindow, now: Selected) -> None:
    item, view = window.bench.tensors.item, window.inspector.view(TensorsView)
    if now.operation is not None or now.tensor is not None:
        assert item is not None
        assert item.name == (now.operation or now.tensor)
    if now.layer is not None:
        assert item is not None
        assert item.layer == now.layer
        assert view.title.text() == item.name


def profile_shows(window: MainWindow, now: Selected) -> None:
    view, answer = window.inspector.view(ProfileView), window.bench.profile.latest
    assert answer is not None
    if (now.operation, now.layer, now.device) == (None, None, None):
        assert not view.time_line.lanes.marked
        return
    launch = view.time_line.launch_at()
    assert launch is not None
    assert view.time_line.lanes.marked
    kind = answer.kind(launch)
    assert now.operation in (kind.name, None)
    assert now.layer is None or kind.name.endswith(f"-{now.layer}")
    assert now.device in (kind.device, None)
    assert kind.name in view.time_line.caption.text()


SHOWS: dict[str, Callable[[MainWindow, Selected], None]] = {
    "token": token_shows,
    "memory": memory_shows,
    "layers": layers_shows,
    "graph": graph_shows,
    "tensors": tensors_shows,
    "profile": profile_shows,
}


def all_show(window: MainWindow, now: Selected, first: str) -> None:
    """The view in front, each other one, and what is always there."""
    order = [first, *(page for page in PAGES if page != first)]
    for page in order:
        if window.inspector.tab != page:
            go(window, page)
        assert window.bench.selection.now == now, f"showing it in {page} selects nothing"
        SHOWS[page](window, now)
    on_top = window.top.device.buttons
    assert [d for d, b in on_top.items() if b.isChecked()] == [d for d in on_top if d == now.device]
    assert answer(window).selected == (now.token[1] if now.token is not None else None)
    said = window.inspector.selection.text
    for part in (now.operation, now.device, now.component, now.tensor):
        assert part is None or part in said
    for word, number in (("layer", now.layer), ("head", now.head), ("split", now.split)):
        assert number is None or f"{word} {number}" in said


# How a person selects in each view


def lens_by_mouse(window: MainWindow) -> None:
    lens = window.inspector.view(TokenView).lens
    row = lens.layers.index(LAYER)
    QTest.mouseClick(lens, LEFT, pos=lens.cell_area(row, 0).center().toPoint())


def lens_by_keys(window: MainWindow) -> None:
    lens = window.inspector.view(TokenView).lens
    walk(lens, Key.Key_End, *[Key.Key_Up] * LAYER)


def time_by_mouse(window: MainWindow) -> None:
    band = window.inspector.view(TokenView).time.band
    window.inspector.view(TokenView).area.ensureWidgetVisible(band)
    at = max(n for n, share in enumerate(band.shares) if share.device == DEVICE)
    QTest.mouseClick(band, LEFT, pos=band.areas()[at].center().toPoint())


def time_by_keys(window: MainWindow) -> None:
    band = window.inspector.view(TokenView).time.band
    at = max(n for n, share in enumerate(band.shares) if share.device == DEVICE)
    walk(band, Key.Key_Home, *[Key.Key_Right] * at)


def tile_by_mouse(window: MainWindow) -> None:
    chart = window.inspector.view(LayersView).chart
    tile = next(t for t in chart.picture.tiles() if LAYER in t.layers and t.device == DEVICE)
    QTest.mouseClick(chart, LEFT, pos=tile.area.center().toPoint())


def tile_by_keys(window: MainWindow) -> None:
    window.bench.selection.select_layer(LAYER - 1)
    walk(window.inspector.view(LayersView).chart, Key.Key_Right)


def lane_by_mouse(window: MainWindow) -> None:
    chart = window.inspector.view(LayersView).chart
    row = next(row for row in chart.picture.rows if row.lane.device == DEVICE)
    QTest.mouseClick(chart, LEFT, pos=row.head.center().toPoint())


def node_by_mouse(window: MainWindow) -> None:
    window.bench.selection.select_layer(LAYER)
    view = window.inspector.view(GraphView)
    assert view.index is not None
    number = view.index.by_key[OPERATION]
    until(lambda: view.canvas.box_of(number) is not None)
    view.canvas.fit_all()
    box = view.canvas.box_of(number)
    assert box is not None
    middle = QPointF(box.x + box.width / 2, box.y + box.height / 2)
    place = view.canvas.camera.transform().map(middle).toPoint()
    QTest.mouseClick(view.canvas, LEFT, pos=place)


def node_by_keys(window: MainWindow) -> None:
    window.bench.selection.select_operation(f"attn_norm-{LAYER}", LAYER, DEVICE)
    walk(window.inspector.view(GraphView).canvas, Key.Key_Down)


def ribbon_by_mouse(window: MainWindow) -> None:
    ribbon = window.inspector.view(GraphView).ribbon
    QTest.mouseClick(ribbon, LEFT, pos=QPoint(ribbon.width() - 8, ribbon.height() - 8))


def ribbon_by_keys(window: MainWindow) -> None:
    walk(window.inspector.view(GraphView).ribbon, Key.Key_Home, Key.Key_Right)


def legend_by_mouse(window: MainWindow) -> None:
    legend = window.inspector.view(GraphView).legend.chart
    QTest.mouseClick(legend, LEFT, pos=legend.place_of(DEVICE).center().toPoint())


def tensor_by_mouse(window: MainWindow) -> None:
    tree = window.inspector.view(TensorsView).tree
    tree.query.setText(TENSOR)
    at = tree.view.model().index(0, 0, tree.view.model().index(0, 0))
    click(tree.view, at)
    tree.query.clear()


def tensor_by_keys(window: MainWindow) -> None:
    tree = window.inspector.view(TensorsView).tree
    tree.query.setText(TENSOR)
    tree.view.setCurrentIndex(tree.view.model().index(0, 0))
    walk(tree.view, Key.Key_Down)
    tree.query.clear()


def launch_by_mouse(window: MainWindow) -> None:
    lanes = lanes_at_launch(window)
    place = lanes.cursor_place()
    assert place is not None
    pixel = lanes.pixel_of(place)
    QTest.keyClick(lanes, Key.Key_Left)
    QTest.mouseClick(lanes.view.viewport(), LEFT, pos=pixel)


def launch_by_keys(window: MainWindow) -> None:
    walk(lanes_at_launch(window), Key.Key_Left, Key.Key_Right)


def lanes_at_launch(window: MainWindow) -> TimeLanes:
    """The time line with the cursor on a launch of OPERATION."""
    window.bench.selection.select_operation(OPERATION, LAYER)
    return window.inspector.view(ProfileView).time_line.lanes


class Source(NamedTuple):
    """Where it is done, how, and what is selected then beside the word."""

    page: str
    act: Callable[[MainWindow], None]
    wanted: Selected


OF_LAYER, OF_DEVICE = Selected(layer=LAYER), Selected(device=DEVICE)
OF_TILE = Selected(layer=LAYER, device=DEVICE)
OF_NODE = Selected(layer=LAYER, operation=OPERATION, device=DEVICE)
OF_SPLIT = Selected(split=1, device=DEVICE)
OF_TENSOR = Selected(layer=OF_FILE, tensor=TENSOR)
SOURCES = (
    Source("token", lens_by_mouse, OF_LAYER),
    Source("token", lens_by_keys, OF_LAYER),
    Source("token", time_by_mouse, OF_DEVICE),
    Source("token", time_by_keys, OF_DEVICE),
    Source("memory", matrix_by_mouse, CELL),
    Source("memory", matrix_by_keys, CELL),
    Source("layers", tile_by_mouse, OF_TILE),
    Source("layers", tile_by_keys, OF_TILE),
    Source("layers", lane_by_mouse, OF_DEVICE),
    Source("graph", node_by_mouse, OF_NODE),
    Source("graph", node_by_keys, OF_NODE),
    Source("graph", ribbon_by_mouse, OF_SPLIT),
    Source("graph", ribbon_by_keys, OF_SPLIT),
    Source("graph", legend_by_mouse, OF_DEVICE),
    Source("tensors", tensor_by_mouse, OF_TENSOR),
    Source("tensors", tensor_by_keys, OF_TENSOR),
    Source("profile", launch_by_mouse, OF_NODE),
    Source("profile", launch_by_keys, OF_NODE),
    Source("memory", top_device_by_mouse, OF_DEVICE),
    Source("memory", top_device_by_keys, OF_DEVICE),
)


def test_each_view_shows_what_is_selected_in_each_other(
    window: MainWindow, client: ScriptedEngine, tiny_path: Path
) -> None:
    know(window, client)
    selection = window.bench.selection
    for page, act, wanted in SOURCES:
        go(window, page)
        print(act.__name__)  # noqa: T201 - seen where this fails
        act(window)
        now = selection.now
        found = Selected(**{**vars(now), "token": None})
        assert found == wanted, act.__name__
        all_show(window, now, page)
    while selection.has_past:
        press(window, Key.Key_Left)
    assert selection.now == Selected()
