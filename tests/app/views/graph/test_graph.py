"""The graph before a scripted engine: looked at, walked, searched, pinned and saved."""

import xml.etree.ElementTree as ET
from importlib.resources import files
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.state.graph.blocks import key_of
from app.views.graph.graph import GraphView
from app.views.graph.node_table import CAUSES, cause_words
from app.window.main_window import MainWindow
from engine.errors import CutawayError
from engine.protocol import (
    DescribeGraph,
    SplitRecord,
    StepTimes,
)
from engine.scheduler.assign import CAUSES as SCHEDULED
from tests.app.helpers.graphs import graph_done
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.graph.driving import GRAPH, GRAPH_INDEX, buttons, halves, tell

CTRL = Qt.KeyboardModifier.ControlModifier
Key = Qt.Key


def selected(window: MainWindow) -> str | None:
    return window.bench.selection.now.operation


def press(view: GraphView, *keys: Qt.Key) -> None:
    for key in keys:
        QTest.keyClick(view.canvas, key)


def place_of(view: GraphView, name: str) -> QPoint:
    """Where a box is in its canvas."""
    assert view.index is not None
    box = view.canvas.box_of(view.index.by_key[name])
    assert box is not None
    middle = QPointF(box.x + box.width / 2, box.y + box.height / 2)
    return view.canvas.camera.transform().map(middle).toPoint()


def test_without_a_model_it_says_what_to_do(window: MainWindow) -> None:
    window.panes.show_tab("graph")
    view = window.inspector.view(GraphView)
    assert "Open a model" in view.caption.text()
    assert not view.bar.isVisible()


def test_a_click_selects_for_all_views(window: MainWindow, view: GraphView) -> None:
    QTest.mouseClick(view.canvas, Qt.MouseButton.LeftButton, pos=place_of(view, "ffn_norm-0"))
    now = window.bench.selection.now
    assert (now.operation, now.layer, now.device) == ("ffn_norm-0", 0, "intel:0")
    assert view.panel.title.text() == "ffn_norm-0"
    assert view.panel.why.text().startswith("Its weight blk.0.ffn_norm-0 lies on intel:0")
    assert "layer 0 › ffn_norm-0" in window.inspector.selection.text
    assert view.index is not None
    lit = {view.index.graph.nodes[n].name for n in view.canvas.marks.lit}
    assert lit == {"ffn_inp-0", "ffn_gate-0", "ffn_up-0"}


def test_it_is_walked_along_its_edges(window: MainWindow, view: GraphView) -> None:
    view.canvas.setFocus()
    press(view, Key.Key_Down)
    assert selected(window) == "embd"
    press(view, Key.Key_Down)
    assert selected(window) == "attn_norm-0"
    press(view, Key.Key_Down)
    assert selected(window) == "Qcur-0"
    press(view, Key.Key_Right)
    assert selected(window) == "Kcur-0"
    press(view, Key.Key_Up)
    assert selected(window) == "attn_norm-0"
    press(view, Key.Key_PageDown)
    assert selected(window) == "attn_norm-1"
    assert "attn_norm-1" in view.canvas.accessibleDescription()
    press(view, Key.Key_PageDown, Key.Key_PageUp)
    assert selected(window) == "attn_norm-1"


def test_enter_opens_and_backspace_goes_up(
    window: MainWindow, view: GraphView, qtbot: QtBot
) -> None:
    view.canvas.setFocus()
    window.bench.selection.select_operation("Kcur-3", 3, "pocl:0")
    press(view, Key.Key_Return)
    qtbot.waitUntil(lambda: view.canvas.scene is not None and view.canvas.scene.shows == "launches")
    assert view.panel.title.text() == "matmul"
    assert "3 nodes in one launch" in view.panel.why.text()
    press(view, Key.Key_Down)
    assert view.panel.title.text() == "rope"
    press(view, Key.Key_Up)
    press(view, Key.Key_Return)
    source = files("kernels_cl") / "matmul_tiled.cl"
    assert view.pages.has_source
    assert view.pages.source.text.toPlainText() == source.read_text("utf-8")
    cursor = view.pages.source.text.textCursor()
    assert cursor.block().text().startswith("__kernel")
    QTest.keyClick(view.pages.source.text, Key.Key_Backspace)
    assert not view.pages.has_source
    press(view, Key.Key_Backspace)
    qtbot.waitUntil(
        lambda: view.canvas.scene is not None and view.canvas.scene.shows == "operations"
    )
    press(view, Key.Key_Backspace)
    assert (selected(window), window.bench.selection.now.layer) == (None, 3)
    small = view.canvas.camera.scale
    press(view, Key.Key_Backspace)
    assert view.canvas.camera.scale < small


def test_a_layer_selected_elsewhere_is_shown(
    window: MainWindow, view: GraphView, qtbot: QtBot
) -> None:
    assert view.canvas.scene is not None
    assert [card.shown for card in view.canvas.scene.cards] == [0, 1, 3, 5]
    window.bench.selection.select_layer(3)
    qtbot.waitUntil(lambda: view.canvas.scene.cards[2].shown == 4)
    assert view.canvas.marks.card == 2


def test_a_split_selected_elsewhere_is_marked(window: MainWindow, view: GraphView) -> None:
    window.bench.selection.select_split(1, "pocl:0")
    graph = GRAPH
    inside = {i for i, node in enumerate(graph.nodes) if node.split == 1}
    assert view.canvas.marks.clear == inside
    assert "Split 1 on pocl:0" in view.panel.why.text()
    assert "attn_norm-2 runs there: as asked" in view.panel.why.text()
    assert "pocl:0#l_out-1 (0.2 KiB from intel:0)" in view.panel.why.text()
    assert view.ribbon.at == 1


def test_the_ribbon_selects(window: MainWindow, view: GraphView) -> None:
    view.ribbon.setFocus()
    QTest.keyClick(view.ribbon, Key.Key_Right)
    assert (window.bench.selection.now.split, window.bench.selection.now.device) == (1, "pocl:0")
    QTest.mouseClick(
        view.ribbon, Qt.MouseButton.LeftButton, pos=QPoint(5, view.ribbon.height() - 8)
    )
    assert window.bench.selection.now.split == 0


def test_finding(window: MainWindow, view: GraphView) -> None:
    view.canvas.setFocus()
    QTest.keyClick(view.canvas, Key.Key_F, CTRL)
    assert view.bar.query.hasFocus()
    QTest.keyClicks(view.bar.query, "ffn_up")
    assert view.bar.count.text() == "4 found"
    for wanted in ("ffn_up-0", "ffn_up-1", "ffn_up-2", "ffn_up-3", "ffn_up-0"):
        QTest.keyClick(view.bar.query, Key.Key_Return)
        assert selected(window) == wanted
    QTest.keyClick(view.bar.query, Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert selected(window) == "ffn_up-3"
    QTest.keyClick(view.bar.query, Key.Key_Escape)
    assert view.bar.count.text() == ""
    assert list(view.canvas.marks.found) == []


def test_zoom_and_pan(view: GraphView) -> None:
    canvas = view.canvas
    canvas.setFocus()
    camera = canvas.camera
    before = camera.scale
    fixed = camera.scene_point(QPointF(canvas.rect().center()))
    press(view, Key.Key_Plus, Key.Key_Plus)
    assert camera.scale == pytest.approx(before * 1.25**2)
    after = camera.scene_point(QPointF(canvas.rect().center()))
    assert (after - fixed).manhattanLength() < 1e-6
    left = camera.left
    QTest.keyClick(canvas, Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert camera.left == pytest.approx(left + 60 / camera.scale)
    start = QPoint(30, 30)
    point = camera.scene_point(QPointF(start))
    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
    for step in range(1, 6):
        QTest.mouseMove(canvas, start + QPoint(10 * step, 4 * step))
    QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=start + QPoint(50, 20))
    moved = camera.scene_point(QPointF(start + QPoint(50, 20)))
    assert (moved - point).manhattanLength() < 1e-6
    press(view, Key.Key_0)
    assert camera.scale == pytest.approx(before)


def test_the_table_has_the_same(window: MainWindow, view: GraphView) -> None:
    QTest.keyClick(window.windowHandle(), Key.Key_T, CTRL)
    assert view.as_table
    assert view.pages.nodes.isVisible()
    assert view.index is not None
    rows = view.pages.nodes.rows.shown
    assert [row.number for row in rows] == list(view.index.block_of)
    view.pages.nodes.copy_all()
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()]
    assert [line[1] for line in lines[1:]] == [key_of(GRAPH.nodes[row.number]) for row in rows]
    view.pages.nodes.choose(3)
    assert view.panel.title.text() == key_of(GRAPH.nodes[rows[3].number])
    view.bar.shows.setCurrentIndex(1)
    assert view.pages.launches.isVisible()
    assert len(view.pages.launches.rows.shown) == len(GRAPH.launches)
    QTest.keyClick(window.windowHandle(), Key.Key_T, CTRL)
    assert not view.as_table


def test_the_panel_leads_on(window: MainWindow, view: GraphView) -> None:
    window.bench.selection.select_operation("ffn_swiglu-1", 1, "intel:0")
    links = {b.accessibleName(): b for b in buttons(view)}
    assert {"Reads: ffn_gate-1", "Reads: ffn_up-1", "Read by: ffn_out-1"} <= links.keys()
    links["Read by: ffn_out-1"].click()
    assert selected(window) == "ffn_out-1"
    said = view.panel.arena.accessibleDescription()
    life = GRAPH.arenas[0].lives[GRAPH.nodes[view.selected or 0].life]
    assert f"at byte {life.offset}" in said.replace("\u2009", "")
    window.bench.selection.back()
    assert view.panel.title.text() == "ffn_swiglu-1"


def test_overlays_and_their_legend(view: GraphView) -> None:
    assert view.legend.chart.keys == ["intel:0", "pocl:0"]
    view.bar.overlay.setCurrentIndex(1)
    assert view.legend.chart.keys == ["F32"]
    view.bar.overlay.setCurrentIndex(2)
    assert view.legend.chart.keys == [0.0, 1.0]
    view.bar.overlay.setCurrentIndex(3)
    assert view.legend.chart.keys == []
    assert "No times yet" in view.legend.text


def test_both_steps_beside_each_other(
    window: MainWindow, client: ScriptedEngine, view: GraphView, qtbot: QtBot
) -> None:
    view.bar.steps.setCurrentIndex(2)
    tell(client, graph_done(4, halves, n_tokens=512, attention="attention_tiles.attention"))
    qtbot.waitUntil(lambda: window.bench.graph.is_known)
    both = view.canvases.values()
    assert all(canvas.isVisible() for canvas in both)
    for canvas in both:
        names = {GRAPH.nodes[n].name for n in canvas.marks.changed}
        assert names == {f"mixed-{i}" for i in range(4)}
    window.bench.selection.select_operation("mixed-1", 1, "intel:0")
    assert "Differs from a prompt: attention_tiles.attention there" in view.panel.note.text()
    assert [c.marks.selected for c in both] == [view.selected, view.selected]


def test_files(view: GraphView, tmp_path: Path) -> None:
    for kind in ("svg", "dot", "json"):
        view.write(kind, tmp_path / f"graph.{kind}")
    tree = ET.parse(tmp_path / "graph.svg")  # noqa: S314  our own
    texts = " ".join("".join(e.itertext()) for e in tree.iter() if e.tag.endswith("text"))
    for name in ("embd", "Qcur-0", "ffn_out-2", "result_output", "layers 0 – 1"):
        assert name in texts
    assert (tmp_path / "graph.dot").read_text("utf-8").startswith("digraph")
    assert '"n_layer": 4' in (tmp_path / "graph.json").read_text("utf-8")
    with pytest.raises(CutawayError, match="missing"):
        view.write("svg", tmp_path / "missing" / "graph.svg")


def times(count: int, n_context: int = 20, ns: int = 1000) -> StepTimes:
    splits = [
        SplitRecord(s.device, s.n_nodes, s.first, s.last, 1, 256, 500, 9000) for s in GRAPH.splits
    ]
    return StepTimes(0, n_context, 900_000, splits, [ns * (i + 1) for i in range(count)])


def test_times_of_a_measured_step(
    window: MainWindow, client: ScriptedEngine, view: GraphView
) -> None:
    view.bar.overlay.setCurrentIndex(3)
    client.say(times(len(GRAPH.launches)))
    assert view.legend.chart.keys == [0.0, 1.0]
    launch = GRAPH.nodes[GRAPH_INDEX["ffn_up-1"]].launch
    window.bench.selection.select_operation("ffn_up-1", 1, "intel:0")
    assert window.bench.graph.launch_ns[launch] == 1000 * (launch + 1)
    facts = [label.text() for label in view.panel.findChildren(QLabel) if label.isVisible()]
    assert f"{1000 * (launch + 1) / 1e6:.2f} ms, measured" in facts
    client.say(times(len(GRAPH.launches) - 1))  # of other kernels
    assert window.bench.graph.launch_ns == {}


def test_a_context_that_outgrew_the_graph_is_asked_for_anew(
    client: ScriptedEngine, view: GraphView
) -> None:
    before = client.last_of(DescribeGraph)
    client.say(times(len(GRAPH.launches), n_context=200))
    assert client.last_of(DescribeGraph) is before
    client.say(times(len(GRAPH.launches), n_context=300))
    after = client.last_of(DescribeGraph)
    assert isinstance(after, DescribeGraph)
    assert (after.n_tokens, after.n_cells, after.path) == (1, 300, "")


def test_a_hidden_view_does_nothing(
    window: MainWindow, client: ScriptedEngine, view: GraphView
) -> None:
    window.panes.show_tab("memory")
    scene, asked = view.canvas.scene, len(client.asked)
    client.say(times(len(GRAPH.launches), n_context=3000))
    assert window.bench.graph.launch_ns == {}
    assert view.canvas.scene is scene
    assert len(client.asked) == asked


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("1.wgt1", "its weight is on this device"),
        ("1.wgt0", "its weight is on this device"),
        ("2.src12", "same device as its input"),
        ("usr", "pinned by you"),
        ("9.new", "9.new"),
    ],
)
def test_a_cause_is_said_in_plain_words(cause: str, words: str) -> None:
    assert cause_words(cause) == words


def test_every_cause_of_the_scheduler_has_plain_words() -> None:
    assert set(SCHEDULED) <= set(CAUSES)
