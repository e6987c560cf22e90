"""Experts: a row a layer, a column an expert, those marked that read the word."""

from PySide6.QtWidgets import QWidget

from app.language import decimal, tr
from app.state.tensors.experts import ExpertsState, Routing
from app.state.workbench import Workbench
from app.widgets.basics import label
from app.widgets.layouts import SPARE, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.plots.cells import grid_of
from app.widgets.plots.heat_map import HeatMap

COMPUTING = tr("Computing the experts of this token …")
RESULT = "ffn_moe_out"  # what a layer's experts make together
Row = tuple[int, str]  # a layer, and whom it chose

COLUMNS = (
    Column[Row](tr("Layer"), lambda row: str(row[0]), lambda row: row[0], right=True),
    Column[Row](tr("Experts and their weights"), lambda row: row[1], mono=True),
)


class ExpertsPage(QWidget):
    """Shows `bench.experts`; a place or a row selects what the layer's experts made."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state: ExpertsState = bench.experts
        self._selection = bench.selection
        self.caption = label(wrap=True)
        self.map = HeatMap(tr("Experts by layer"))
        self.map.pointed.connect(self._pointed)
        self.place = label(tone="quiet", size="small", wrap=True)
        self.table = Table(TableRows(COLUMNS, self), tr("Layers with experts"))
        self.table.picked.connect(lambda row: self._select(row[0]))
        vbox(self.caption, (self.map, 2), self.place, (self.table, 3), SPARE, on=self)
        self._state.changed.connect(self._show)
        self._selection.changed.connect(self._follow)
        self._show()

    def _show(self) -> None:
        routing = self._state.routing
        for part in (self.map, self.place, self.table):
            part.setVisible(routing is not None)
        if routing is None:
            self.caption.setText(COMPUTING if self._state.busy else self._state.problem)
            return
        self.caption.setText(experts_words(routing))
        layers = routing.layers
        grid = grid_of(
            routing.map(),
            row_title=tr("layer"),
            row_name=lambda row: str(layers[row]),
            column_title=tr("expert"),
            text=lambda value: tr("weight {value:.3f}", value=value) if value else tr("not used"),
        )
        self.map.show_cells(grid)
        self.map.mark(
            {(at, e.expert): tr("chosen") for at, some in enumerate(routing.chosen) for e in some}
        )
        self.place.setText(
            tr("Rows are layers, columns are experts; experts used by this token are framed.")
        )
        self.table.rows.show_rows(
            [
                (layer, ", ".join(decimal(f"{e.expert}: {e.weight:.3f}") for e in some))
                for layer, some in zip(layers, routing.chosen, strict=True)
            ]
        )
        self._follow()

    def _pointed(self, row: int, column: int) -> None:
        routing = self._state.routing
        if routing is not None and row < len(routing.layers):
            self.place.setText(self.map.describe(row, column))
            layer = routing.layers[row]
            self._selection.select_expert(layer, column, f"{RESULT}-{layer}")

    def _select(self, layer: int) -> None:
        self._selection.select_operation(f"{RESULT}-{layer}", layer)

    def _follow(self) -> None:
        """The layer that is selected, wherever that was done."""
        layer, routing = self._selection.now.layer, self._state.routing
        if routing is not None and layer in routing.layers:
            self.map.frame_row(routing.layers.index(layer))
            self.table.choose_first(lambda row: row[0] == layer)


def experts_words(routing: Routing) -> str:
    """How many there are, and how many a layer takes."""
    used = max(len(some) for some in routing.chosen)
    layers = len(routing.layers)
    return tr(
        "{layers} layers have experts; each takes {used} of {n_experts} for this token.",
        layers=layers,
        used=used,
        n_experts=routing.n_experts,
    )
