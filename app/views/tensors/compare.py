"""The comparison with the host as a list: every result in the graph's order."""

from collections.abc import Sequence
from math import isfinite

from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.graph.overlay import result_key
from app.state.workbench import Workbench
from app.views.graph.comparing import CompareBar
from app.widgets.layouts import SPARE, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import small
from engine.protocol import ComparedResult

SHORT = {"prefill": tr("prompt"), "decode": tr("token")}


def _error(row: ComparedResult) -> str:
    """The NMSE, or what is wrong where that is no number."""
    return small(row.error) if isfinite(row.error) else row.problem


COLUMNS = (
    Column[ComparedResult](tr("Result"), result_key, mono=True, whole=True),
    Column[ComparedResult](tr("Step"), lambda r: SHORT[r.phase], whole=True),
    Column[ComparedResult](tr("Device"), lambda r: r.device, mono=True, whole=True),
    Column[ComparedResult](
        "NMSE",
        lambda r: f"! {_error(r)}" if r.problem else _error(r),
        lambda r: r.error,
        right=True,
        tone=lambda r: "bad" if r.problem else "",
    ),
    Column[ComparedResult](
        tr("Allowed"), lambda r: small(r.most), lambda r: r.most, right=True, quiet=True
    ),
    Column[ComparedResult](tr("Launches"), lambda r: ", ".join(r.launches), mono=True, quiet=True),
)


class ComparePage(QWidget):
    """Shows `bench.comparison`; a row that is chosen selects its operation."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state, self._selection = bench.comparison, bench.selection
        self._shown_result: object = None
        self.head = CompareBar(bench)
        self.table = Table(TableRows(COLUMNS, self), tr("Results compared"))
        self.table.picked.connect(self._pick)
        self.table.activated.connect(lambda row: self._selection.show_in("graph"))
        vbox(self.head, (self.table, 1), SPARE, on=self)
        self._state.changed.connect(self._show)
        self._selection.changed.connect(self._follow)
        self._show()

    def _show(self) -> None:
        result = self._state.result
        self.table.setVisible(result is not None)
        if result is not self._shown_result:
            self._shown_result = result
            rows: Sequence[ComparedResult] = result.rows if result is not None else ()
            self.table.rows.show_rows(rows)
            self._follow()

    def _pick(self, row: ComparedResult) -> None:
        self._selection.select_operation(result_key(row), row.layer, row.device)

    def _follow(self) -> None:
        """The row of the operation that is selected, wherever that was done: one that deviates
        before others.
        """
        named, shown = self._selection.now.operation, self.table.rows.shown
        at = self.table.view.currentIndex().row()
        if 0 <= at < len(shown) and result_key(shown[at]) == named:
            return
        rows = [place for place, row in enumerate(shown) if result_key(row) == named]
        if rows:
            self.table.choose(next((place for place in rows if shown[place].problem), rows[0]))
