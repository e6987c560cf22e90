"""The window with the graph of a model: twelve layers, the last four on another device."""

from PySide6.QtTest import QTest

from app.views.graph.graph import GraphView
from app.window.main_window import MainWindow
from engine.protocol import DescribeGraph
from tests.app.helpers.graphs import graph_done
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until

DEVICES = ("intel:0", "nvidia:0")
TILES = "attention_tiles.attention"


def client(window: MainWindow) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def graph(window: MainWindow, split: bool = True) -> None:
    """A node is selected."""
    window.bench.open_model("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    client(window).say(memory("planned"), memory("allocated"))
    client(window).load_done()
    window.panes.show_tab("graph")
    asked = client(window).last_of(DescribeGraph)
    client(window).say(graph_done(12, lambda layer: DEVICES[split and layer >= 8], id=asked.id))
    until(lambda: window.bench.graph.is_known)
    window.inspector.view(GraphView).canvas.setFocus()
    window.bench.selection.select_operation("ffn_norm-9", 9, DEVICES[split])
    QTest.qWait(50)


def graph_whole(window: MainWindow) -> None:
    graph(window)
    window.bench.selection.clear()
    window.bench.graph.collapse(False)
    QTest.qWait(50)
    window.inspector.view(GraphView).canvas.fit_all()


def graph_launches(window: MainWindow) -> None:
    graph(window)
    window.bench.graph.show_as("launches")
    until(lambda: window.bench.graph.scenes["decode"].shows == "launches")


def graph_pin(window: MainWindow) -> None:
    """A pin is tried."""
    graph(window)
    window.bench.graph.try_pin("ffn_norm-9", "intel:0")
    client(window).say(graph_done(12, id=client(window).last_of(DescribeGraph).id))


def graph_table(window: MainWindow) -> None:
    graph(window)
    window.inspector.view(GraphView).toggle_table()


def graph_both(window: MainWindow) -> None:
    graph(window, split=False)
    window.bench.graph.show_phases("decode", "prefill")
    asked = client(window).last_of(DescribeGraph)
    client(window).say(graph_done(12, id=asked.id, n_tokens=512, attention=TILES))
    until(lambda: window.bench.graph.is_known)
    QTest.qWait(50)


def graph_source(window: MainWindow) -> None:
    graph(window)
    window.inspector.view(GraphView).pages.show_source("norm.norm", "W=16 LOCAL=1 ROWS=4")


SCENES = (graph, graph_whole, graph_launches, graph_pin, graph_table, graph_both, graph_source)
