"""What devices hold, for a report."""

import msgspec

from app.state.workbench import Workbench
from app.views.memory.memory import MemoryView
from app.widgets.lists.report import ViewReport, table_of


def memory_report(bench: Workbench, view: MemoryView) -> ViewReport:
    """Every record with its bytes, each event since the model was opened, the splits of a token."""
    words = [text for text in (view.says, view.details.text()) if text]
    tables, data = [], {}
    for title, table, rows in (
        ("Memory", view.records, [cell.row() for cell in bench.memory.cells]),
        ("Events", view.events, list(bench.memory.allocations.events)),
        ("Splits", view.splits, list(enumerate(bench.splits.splits))),
    ):
        if rows:
            tables.append(table_of(title, table.rows.columns, rows))
            data[title] = rows
    return ViewReport(words, tables, lambda: msgspec.to_builtins(data))
