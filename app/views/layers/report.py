"""Where layers lie and why, for a report."""

import msgspec

from app.state.workbench import Workbench
from app.views.layers.layers import LayersView
from app.views.layers.table import part_columns, part_rows
from app.widgets.lists.report import ViewReport, table_of


def layers_report(bench: Workbench, view: LayersView) -> ViewReport:
    """Each part of each layer with its bytes and its cause; the rule, and what it would cost."""
    state = bench.layers
    columns, rows = part_columns(state), part_rows(state.lanes())
    words = [view.figures.in_words(), view.apply.says.text()]
    if state.answer is not None:
        words += [*state.answer.warnings, *state.answer.reasons]
    rule = state.draft.rule
    words.insert(0, f"Rule: {rule}" if rule else "Placed by the engine.")
    told = {"rule": rule, "plan": state.answer}
    return ViewReport(
        [w for w in words if w],
        [table_of("Layers", columns, rows)],
        lambda: msgspec.to_builtins(told),
    )
