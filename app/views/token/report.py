"""How a word came to be, for a report."""

import msgspec

from app.state.workbench import Workbench
from app.views.token.token import TokenView
from app.widgets.lists.report import ViewReport, texts_of


def token_report(bench: Workbench, view: TokenView) -> ViewReport:
    """Lens, attention, sources, choice and time as tables; the choice and the times as told."""
    inside = bench.token.inside
    tables = [section.report() for section in view.sections]
    tables.insert(2, texts_of("Sources", view.attention.source_rows()))
    told = None if inside is None else {"choice": inside.choice, "step": inside.step}
    return ViewReport([view.head.caption], tables, lambda: msgspec.to_builtins(told))
