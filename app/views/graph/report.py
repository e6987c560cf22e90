"""A graph with its causes, for a report."""

import json

from app.state.graph.export import as_json
from app.state.workbench import Workbench
from app.views.graph.graph import GraphView
from app.views.graph.panel import summary
from app.views.graph.tables import LAUNCHES, NODES, launch_rows, node_rows
from app.widgets.lists.report import ViewReport, table_of


def graph_report(bench: Workbench, view: GraphView) -> ViewReport:
    """What is selected in words, every node and every launch; as data all that the engine told."""
    index, times = view.index, bench.graph.launch_ns
    if index is None:
        return ViewReport([view.says.text()])
    errors = bench.comparison.errors(index)
    tables = [
        table_of("Operations", NODES, node_rows(index, times, errors)),
        table_of("Launches", LAUNCHES, launch_rows(index, times, errors)),
    ]
    words = [summary(index), view.panel.text]
    return ViewReport(words, tables, lambda: json.loads(as_json(index.graph)))
