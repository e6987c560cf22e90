"""Where an answer's time went, for a report."""

from typing import get_args

from app.state.profile.export import PHASES, summary
from app.state.profile.recorded import By, RecordedAnswer, as_json
from app.state.workbench import Workbench
from app.views.profile.profile import ProfileView
from app.views.profile.tables import TOTALS, Row
from app.widgets.lists.report import ReportTable, ViewReport, table_of
from engine.protocol import Phase


def profile_report(bench: Workbench, view: ProfileView) -> ViewReport:
    """Sums by operation, kernel, layer and device, of the prompt and of the answer; as data every
    launch of the recordings that are kept.
    """
    answer = bench.profile.latest
    if answer is None:
        return ViewReport(["No answer is recorded."])
    phases = [phase for phase in PHASES if answer.n_steps(phase)]
    tables = [_sums(answer, by, phase) for phase in phases for by in get_args(By)]
    kept = [one for one in (bench.profile.before, answer) if one is not None]
    return ViewReport([" ".join(summary(answer))], tables, lambda: as_json(kept))


def _sums(answer: RecordedAnswer, by: By, phase: Phase) -> ReportTable:
    totals, tokens = answer.totals(by, phase), answer.n_tokens(phase)
    whole = sum(total.ns for total in totals)
    rows: list[Row] = [(total, tokens, whole) for total in totals]
    return table_of(f"{PHASES[phase]} by {by}", TOTALS, rows)
