"""Memory: a bar for each pool, the layers below, and the same records as a table."""

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.state.memory_sums import LayerSum, Part, layers, pools
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING, ROW
from app.views.memory_bar import PoolBars
from app.views.memory_layers import LayerRows, layer_view
from app.widgets.basics import IconButton, divider, label
from app.widgets.numbers import mib
from app.widgets.rows import Column, Rows
from app.widgets.table import Table
from engine.protocol import Memory, MemoryRow

RECORDS = (
    Column[MemoryRow]("Device", lambda r: r.device, mono=True, width=88),
    Column[MemoryRow]("Component", lambda r: r.component, width=96),
    Column[MemoryRow](
        "Layer",
        lambda r: "–" if r.layer is None else str(r.layer),
        lambda r: -1 if r.layer is None else r.layer,
        right=True,
        width=60,
    ),
    Column[MemoryRow]("MiB", lambda r: mib(r.size), lambda r: r.size, right=True, width=72),
    Column[MemoryRow]("Status", lambda r: r.status, quiet=True, width=80),
    Column[MemoryRow]("Bytes", lambda r: str(r.size), lambda r: r.size, right=True, quiet=True),
)


class MemoryView(QWidget):
    """Shows `bench.memory`, planned beside held, live while loading and answering."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._memory, self._session, self._selection = bench.memory, bench.session, bench.selection
        self._tables_of: tuple[Memory | None, Memory | None] | None = None
        self.bars = PoolBars()
        self.bars.inspected.connect(self._part_chosen)
        self._says = label(tone="quiet")
        self._switch = IconButton("table", "Show as a table (Ctrl+T)", self.toggle_table)
        self.layer_rows = LayerRows()
        self.layer_rows.setParent(self)
        self.layers = layer_view(self.layer_rows)
        self.layers.selectionModel().currentRowChanged.connect(self._layer_chosen)
        self.records = Table(Rows(RECORDS, self), "Records")
        self._chart = self._make_chart()
        self._stack = QStackedWidget()
        self._stack.addWidget(self._chart)
        self._stack.addWidget(self.records)
        self._says.setMinimumHeight(fonts.px(ROW))
        head = QHBoxLayout()
        head.addWidget(self._says, 1)
        head.addWidget(self._switch)
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, GRID, PADDING, PADDING)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addWidget(self._stack, 1)
        self._memory.changed.connect(self.refresh)
        self._session.changed.connect(self.refresh)
        self._session.stage_changed.connect(self._refresh_bars)
        self.refresh()

    @property
    def as_table(self) -> bool:
        return self._stack.currentWidget() is self.records

    def toggle_table(self) -> None:
        """Chart or table; the same numbers."""
        self._stack.setCurrentWidget(self._chart if self.as_table else self.records)
        picture = "chart" if self.as_table else "table"
        words = "Show as a chart" if self.as_table else "Show as a table"
        self._switch.set_picture(picture, f"{words} (Ctrl+T)")

    def refresh(self) -> None:
        planned, held = self._memory.planned, self._memory.held
        self._refresh_bars()
        self._says.setText(self._sentence())
        if self._tables_of == (planned, held):
            return  # tables keep their place and what is chosen in them
        self._tables_of = planned, held
        found = layers(planned, held)
        self.layer_rows.show_layers(found)
        self._by_layer.setVisible(bool(found))
        self.layers.setVisible(bool(found))
        shown = held if held is not None and held.rows else planned
        self.records.rows.show_rows(shown.rows if shown is not None else [])
        self._switch.setVisible(shown is not None)

    def _refresh_bars(self) -> None:
        sums = pools(self._memory.planned, self._memory.held, self._loaded())
        self.bars.show_sums(sums)

    def _loaded(self) -> int | None:
        """Bytes of weights that are on their devices, while they are being loaded."""
        stage = self._session.stage
        if self._session.status != "loading":
            return None
        return stage.done if stage is not None and stage.name == "load" else 0

    def _sentence(self) -> str:
        memory = self._memory
        if memory.held is None and memory.planned is None:
            return "What each device holds shows here when a model opens."
        if self._session.status == "loading":
            return "Loading: outlined is planned, solid is there."
        return "Solid is held, outlined is planned. Numbers in MiB."

    def _make_chart(self) -> QWidget:
        chart = QWidget()
        self._by_layer = QWidget()
        heading = QVBoxLayout(self._by_layer)
        heading.setContentsMargins(0, GRID, 0, 0)
        heading.setSpacing(GRID)
        title = label("By layer", size="strong")
        heading.addWidget(divider())
        heading.addWidget(title)
        column = QVBoxLayout(chart)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(self.bars)
        column.addWidget(self._by_layer)
        column.addWidget(self.layers, 1)
        column.addStretch(0)
        column.setAlignment(Qt.AlignmentFlag.AlignTop)
        return chart

    def _part_chosen(self, part: Part) -> None:
        self._selection.select(device=part.device, component=part.component)

    def _layer_chosen(self, index: QModelIndex) -> None:
        if index.isValid():
            chosen: LayerSum = self.layer_rows.shown[index.row()]
            self._selection.select(layer=chosen.layer)
