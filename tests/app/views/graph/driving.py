"""A graph that a scripted engine tells."""

from PySide6.QtWidgets import QPushButton

from app.views.graph.graph import GraphView
from engine.protocol import DescribeGraph, GraphDone
from tests.app.helpers.graphs import graph_done
from tests.app.helpers.scripted import ScriptedEngine


def halves(layer: int) -> str:
    return ("intel:0", "pocl:0")[layer >= 2]


GRAPH = graph_done(4, halves)
GRAPH_INDEX = {node.name: i for i, node in enumerate(GRAPH.nodes)}


def tell(client: ScriptedEngine, graph: GraphDone) -> None:
    request = client.last_of(DescribeGraph)
    fields = {name: getattr(graph, name) for name in graph.__struct_fields__}
    client.say(GraphDone(**(fields | {"id": request.id})))


def buttons(view: GraphView) -> list[QPushButton]:
    """Those of the panel that are not on their way out."""
    return [button for button in view.panel.findChildren(QPushButton) if button.isVisible()]
