"""Numbers of tensors, for a report: of the page that is shown."""

from typing import Any

import msgspec
import numpy as np

from app.language import tr
from app.state.tensors.saving import dump_text
from app.state.tensors.texts import error_map, paired_key
from app.state.workbench import Workbench
from app.views.tensors.summary import described
from app.views.tensors.tensors import KINDS, TensorsView
from app.views.tensors.texts import pair_text
from app.widgets.lists.rows import ReportTable, ViewReport, table_of


def tensors_report(bench: Workbench, view: TensorsView) -> ViewReport:
    """Return a report: statistics and a dump of a tensor; of a comparison, of probes and of caches
    all rows.
    """
    makers = {
        "Weights": _tensor,
        "Live probes": _probes,
        "Compare": _compared,
        "Texts": _texts,
        "Experts": _experts,
        "Cache": _cells,
    }
    return makers[KINDS[view.kinds.currentIndex()]](bench, view)


def _tensor(bench: Workbench, view: TensorsView) -> ViewReport:
    state = bench.tensors
    numbers, found = state.numbers, state.statistics
    if state.item is None or numbers is None:
        return ViewReport([view.caption])
    tables = [
        ReportTable(
            "Numbers", [tr("Dump")], lambda: [[line] for line in dump_text(numbers).split("\n")]
        )
    ]
    if found is not None:
        words = described(found)
        tables.append(
            ReportTable(tr("Statistics"), [tr("All numbers"), tr("Value")], lambda: words)
        )
    fields = {"name": numbers.name, "type": numbers.type, "dims": numbers.dims}
    return ViewReport([f"{numbers.name}: {view.caption}"], tables, lambda: fields)


def _lines(text: str) -> list[list[str]]:
    return [[line] for line in text.split("\n")]


def _probes(bench: Workbench, view: TensorsView) -> ViewReport:
    state = bench.probes
    rows, columns = list(state.rows), list(state.columns)

    def texts() -> list[list[str]]:
        both = (np.stack([getattr(c, name) for c in columns]) for name in ("rms", "largest"))
        rms, largest = both
        made = zip(rows, rms.mean(axis=0), rms.max(axis=0), largest.max(axis=0), strict=True)
        return [[name, *(f"{value:.4g}" for value in values)] for name, *values in made]

    titles = (tr("Result"), tr("Mean of root mean squares"), tr("Maximum"), tr("Largest value"))
    tables = [ReportTable(tr("Probes"), titles, texts)] if columns else []

    def data() -> Any:
        kept = ("rms", "largest", "at")
        return {"rows": rows} | {n: [getattr(c, n).tolist() for c in columns] for n in kept}

    words = tr(
        "{columns} tokens of {rows} results that match {pattern}.",
        columns=len(columns),
        rows=len(rows),
        pattern=state.pattern,
    )
    return ViewReport([words], tables, data)


def _compared(bench: Workbench, view: TensorsView) -> ViewReport:
    result = bench.comparison.result
    rows = view.compare.table.rows
    tables = [table_of(tr("Results"), rows.columns, rows.all_rows)] if result is not None else []
    words = [view.compare.head.caption.text()]
    return ViewReport(words, tables, lambda: msgspec.to_builtins(result))


def _texts(bench: Workbench, view: TensorsView) -> ViewReport:
    result = bench.texts.result
    words = [view.texts.caption.text()]
    if result is None:
        return ViewReport(words)

    def data() -> Any:
        errors = error_map(result)
        return {
            "pairs": msgspec.to_builtins(result.pairs),
            "results": [paired_key(row) for row in result.rows],
            "nmse": [[None if np.isnan(x) else float(x) for x in row] for row in errors],
        }

    pairs = ReportTable(
        tr("Pairs"), [tr("Tokens")], lambda: [[pair_text(pair)] for pair in result.pairs]
    )
    rows = view.texts.table.rows
    return ViewReport(words, [pairs, table_of(tr("Results"), rows.columns, rows.all_rows)], data)


def _experts(bench: Workbench, view: TensorsView) -> ViewReport:
    routing, rows = bench.experts.routing, view.experts.table.rows
    words = [view.experts.caption.text()]
    if routing is None:
        return ViewReport(words)
    fields = {"layers": routing.layers, "experts": routing.n_experts, "chosen": routing.chosen}
    return ViewReport(words, [table_of(tr("Layers"), rows.columns, rows.all_rows)], lambda: fields)


def _cells(bench: Workbench, view: TensorsView) -> ViewReport:
    caches = list(bench.cells.caches)
    titles = ("Cache", tr("Cells"), tr("In use"), tr("Shared"), tr("Free"))
    rows = [[c.title, *(str(n) for n in (c.size, c.used, c.shared, c.free))] for c in caches]
    table = ReportTable(tr("Caches"), titles, lambda: rows)
    fields = {
        c.title: {"positions": c.positions.tolist(), "sequences": c.sequences.tolist()}
        for c in caches
    }
    return ViewReport([view.cells.caption.text()], [table], lambda: fields)
