"""Memory: a bar for each pool with the layers below, their past, and the splits of a token."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec
from PySide6.QtCore import QEvent, QModelIndex, Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QToolButton, QWidget

from app.language import tr
from app.state.memory.matrix import describe, grid, layer_title
from app.state.memory.totals import Cell, MemoryPart, kind_of, pools
from app.state.selection import Selected
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING, ROW
from app.views.memory.bar import PoolBars
from app.views.memory.matrix import MatrixView
from app.views.memory.splits import SPLITS, Numbered, SplitsChart, describe_split
from app.views.memory.timeline import WHAT, PoolTracks, describe_event, event_columns, is_of
from app.widgets.basics import TEXT_SIZE, IconButton, divider, label, scrolled, set_tone
from app.widgets.layouts import hbox, vbox
from app.widgets.lists.rows import Column, TableRows, ViewReport, table_of
from app.widgets.lists.table import Table
from app.widgets.numbers import mib
from engine.protocol import MemoryEvent, MemoryRow

LEAST_ROWS = 7  # of a table; below that the whole view scrolls

Page = Literal["layers", "timeline", "splits"]
PAGES: dict[Page, str] = {
    "layers": tr("Memory by layer"),
    "timeline": tr("Allocations"),
    "splits": tr("Splits of a token"),
}


def record_columns(title: Callable[[int | None], str]) -> tuple[Column[MemoryRow], ...]:
    """`title` says what a layer is called."""
    return (
        Column[MemoryRow](tr("Device"), lambda r: r.device, mono=True, whole=True),
        Column[MemoryRow](tr("Component"), lambda r: tr(r.component)),
        Column[MemoryRow](
            tr("Layer"),
            lambda r: title(r.layer),
            lambda r: -1 if r.layer is None else r.layer,
            right=True,
        ),
        Column[MemoryRow]("MiB", lambda r: mib(r.size), lambda r: r.size, right=True),
        Column[MemoryRow](tr("Status"), lambda r: tr(r.status), quiet=True),
        Column[MemoryRow](
            tr("Bytes"), lambda r: str(r.size), lambda r: r.size, right=True, quiet=True
        ),
    )


class MemoryView(QWidget):
    """Shows `bench.memory`, planned beside held, live while loading and answering."""

    tensors_wanted = Signal(object)  # of a layer, or None: of those that belong to none

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._memory, self._session, self._selection = bench.memory, bench.session, bench.selection
        self._splits = bench.splits
        self._cells: list[Cell] = []
        self._as_table = False
        self._page: Page = "layers"
        self._events_shown: tuple[int, MemoryEvent | None] = (-1, None)
        self.bars, self.tracks = PoolBars(), PoolTracks()
        self.bars.inspected.connect(self._part_chosen)
        self.bars.device_inspected.connect(self._selection.select_device)
        self.tracks.pointed.connect(self._event_pointed)
        self.tracks.owner_picked.connect(lambda owner: self._selection.select_device(*owner))
        self.matrix = MatrixView()
        self.matrix.pointed.connect(self._cell_pointed)
        self.matrix.opened.connect(self._cell_opened)
        self.records = Table(
            TableRows(record_columns(self._title), self), tr("Records"), stretch=(1,)
        )
        self.events = Table(
            TableRows(event_columns(self._title), self), tr("Events"), stretch=(WHAT,)
        )
        self.records.picked.connect(self._record_picked)
        self.records.activated.connect(lambda row: self.tensors_wanted.emit(row.layer))
        self.events.picked.connect(self._event_pointed)
        self.split_chart = SplitsChart()
        self.splits = Table(TableRows(SPLITS, self), tr("Splits"))
        self.split_chart.pointed.connect(self._split_pointed)
        self.split_chart.device_picked.connect(self._selection.select_device)
        self.splits.chosen.connect(self._split_chosen)
        self.splits.picked.connect(self._split_picked)
        self._choices = {page: self._choice(page, name) for page, name in PAGES.items()}
        self._caption = label(tone="quiet", size="small", wrap=True)
        self.copy_button = IconButton("copy", tr("Copy the matrix as text"), self.matrix.copy)
        self._switch = IconButton("table", tr("Show as a table (Ctrl+T)"), self.toggle_table)
        self.details = label(wrap=True, tone="quiet")
        self._line = divider()
        self._stack = QStackedWidget()
        for page in (self.matrix, self.records, self.events, self.splits):
            self._stack.addWidget(page)
        self._lay_out()
        self._scale()
        self._memory.changed.connect(self.refresh)
        self._session.changed.connect(self.refresh)
        self._splits.changed.connect(self.refresh)
        self._selection.changed.connect(self._show_selected)
        self._arrange()

    @property
    def as_table(self) -> bool:
        """Whether numbers alone are shown."""
        return self._as_table

    @property
    def page(self) -> Page:
        """What is shown: what is where, what happened, or how a token runs."""
        return self._page

    @property
    def caption(self) -> str:
        """What is shown, in a sentence."""
        return self._sentence()

    def toggle_table(self) -> None:
        """Chart or table; the same numbers."""
        self._as_table = not self._as_table
        self._arrange()

    def show_page(self, page: Page) -> None:
        self._page = page
        for name, button in self._choices.items():
            button.setChecked(name == page)
        self._arrange()

    def go_to_layers(self) -> None:
        """Show the layers, with the keyboard in their chart or table."""
        self.show_page("layers")
        self._show_selected()
        (self.records.view if self._as_table else self.matrix).setFocus()

    def toggle_page(self, page: Page) -> None:
        """Show that page, or the layers where it can be seen already."""
        self.show_page("layers" if self.isVisible() and self._page == page else page)

    def refresh(self) -> None:
        memory = self._memory
        self.bars.show_sums(pools(memory.cells, memory.pools), self._splits.busy())
        self._caption.setText(self._sentence())
        if memory.cells != self._cells or self.matrix.rows.refusal != memory.refusal:
            self._cells = memory.cells  # else tables keep their place and what is chosen
            self.matrix.rows.show_grid(grid(self._cells, memory.n_layer), memory.refusal)
            self.records.rows.show_rows([cell.row() for cell in self._cells])
            self._show_selected(scroll=False)
            self._show_failure()
        if self._page == "timeline":
            self._refresh_past()
        elif self._page == "splits":
            self.split_chart.show_times(self._splits.latest)
            self.splits.rows.show_rows(list(enumerate(self._splits.splits)))
            self._show_split()
        self._show_parts()

    def _refresh_past(self) -> None:
        events = self._memory.allocations.events
        if events and self._events_shown == (len(events), events[-1]):
            return
        self._events_shown = (len(events), events[-1]) if events else (0, None)
        self.tracks.show_tracks(self._memory.allocations.tracks())
        self.events.rows.show_rows(list(events))
        if events:
            self.events.view.scrollToBottom()
        self._show_past()

    def _arrange(self) -> None:
        picture = "chart" if self._as_table else "table"
        words = tr("Show as a chart") if self._as_table else tr("Show as a table")
        self._switch.set_picture(picture, tr("{words} (Ctrl+T)", words=words))
        pages: dict[Page, QWidget] = {
            "layers": self.records if self._as_table else self.matrix,
            "timeline": self.events,
            "splits": self.splits,
        }
        self._stack.setCurrentWidget(pages[self._page])
        self._set_caption("")
        self.refresh()

    def _show_parts(self) -> None:
        """What there is something to show in."""
        chart, some = not self._as_table, bool(self._cells)
        past = bool(self._memory.allocations.events)
        full = {"layers": some, "timeline": past, "splits": bool(self._splits.splits)}
        layers = chart and self._page == "layers"
        self.bars.setVisible(layers)
        self._line.setVisible(layers and some)
        self.tracks.setVisible(chart and self._page == "timeline")
        self.split_chart.setVisible(chart and self._page == "splits")
        self._stack.setVisible(full[self._page])
        self.copy_button.setVisible(layers and some)
        for widget in (self._switch, *self._choices.values()):
            widget.setVisible(some or past)

    def _sentence(self) -> str:
        memory = self._memory
        if self._page == "timeline":
            return tr("Each step is one allocation; × marks a failed one.")
        if self._page == "splits":
            return tr("Solid is computing, hatched is copying; measured once per second.")
        if not memory.cells:
            return tr("Open a model to see what each device holds.")
        if memory.died:
            return tr("State when the engine stopped. All memory is freed now.")
        if memory.failed is not None:
            some = any(cell.held for cell in memory.cells if cell.status != "mapped")
            return (
                tr("State when memory ran out. All memory is freed now.")
                if some
                else tr("Nothing was allocated.")
            )
        if self._session.status == "loading":
            return tr("Loading: solid is allocated, dashed planned.")
        return tr("Solid is held, dashed is planned; MiB.")

    def _lay_out(self) -> None:
        head = hbox(spacing=GRID // 2)
        for choice in self._choices.values():
            head.addWidget(choice)
        head.addStretch(1)
        head.addWidget(self.copy_button)
        head.addWidget(self._switch)
        body = QWidget()
        inside = vbox(
            self.bars, self.tracks, self.split_chart, self._line, (self._stack, 1), on=body
        )
        inside.setAlignment(Qt.AlignmentFlag.AlignTop)
        margins = (PADDING, GRID, PADDING, GRID)
        vbox(head, self._caption, (scrolled(body), 1), self.details, on=self, margins=margins)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._scale()

    def _scale(self) -> None:
        """Heights that go with the text."""
        self.details.setMinimumHeight(fonts.px(ROW))
        self._stack.setMinimumHeight(fonts.px(LEAST_ROWS * ROW))

    def _choice(self, page: Page, name: str) -> QToolButton:
        button = QToolButton()
        button.setText(page.capitalize())
        button.setCheckable(True)
        button.setChecked(page == self._page)
        button.setAccessibleName(name)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(partial(self.show_page, page))
        return button

    def _set_caption(self, text: str, tone: str = "quiet") -> None:
        self.details.setText(text)
        set_tone(self.details, tone)
        self.details.setVisible(bool(text))

    def _title(self, layer: int | None) -> str:
        return layer_title(layer, self._memory.n_layer)

    def _show_failure(self) -> None:
        """Scroll to where memory ran out; the selection stays as it is."""
        failed = self._memory.failed
        if failed is None:
            self._show_cell(self.matrix.currentIndex())
            return
        self.matrix.show_failure()
        title = self.matrix.rows.grid.title(failed.layer)
        self._set_caption(describe(failed, title, self._memory.refusal), "bad")

    def _show_cell(self, index: QModelIndex) -> None:
        cell = self.matrix.rows.cell(index) if index.isValid() else None
        text = self.matrix.rows.sentence(index) if index.isValid() else ""
        self._set_caption(text, "bad" if cell is not None and cell.status == "failed" else "quiet")

    def _cell_pointed(self, index: QModelIndex) -> None:
        self._show_cell(index)
        layer = self.matrix.rows.grid.layers[index.row()]
        cell = self.matrix.rows.cell(index)
        if cell is None:
            self._selection.select_layer(layer)
        else:
            self._selection.select_cell(layer, cell.device, cell.kind)

    def _cell_opened(self, index: QModelIndex) -> None:
        self.tensors_wanted.emit(self.matrix.rows.grid.layers[index.row()])

    def _record_picked(self, row: MemoryRow) -> None:
        self._selection.select_cell(row.layer, row.device, kind_of(row))

    def _event_pointed(self, event: MemoryEvent) -> None:
        self._selection.select_cell(event.layer, event.device, event.component)
        self._set_caption(describe_event(event), "bad" if event.kind == "refuse" else "quiet")

    def _split_pointed(self, number: int) -> None:
        self.splits.choose(number)
        self._selection.select_split(number, self._splits.splits[number].device)

    def _split_picked(self, chosen: Numbered) -> None:
        number, split = chosen
        self._selection.select_split(number, split.device)

    def _split_chosen(self, chosen: Numbered | None) -> None:
        if chosen is not None:
            self._set_caption(describe_split(*chosen))

    def _part_chosen(self, part: MemoryPart) -> None:
        self._selection.select_device(part.device, part.component)

    def _show_selected(self, scroll: bool = True) -> None:
        """Each part of this view shows what is selected, wherever that was done."""
        now = self._selection.now
        self.matrix.show_selected(now.layer, now.device, now.component, scroll)
        self.bars.show_selected(now.device, now.component)
        if (now.layer, now.device) != (None, None):
            self.records.choose_first(lambda row: _matches(row, now))
        self._show_past()
        self._show_split()

    def _show_past(self) -> None:
        now = self._selection.now
        self.tracks.show_selected(now)
        self.events.choose_first(lambda event: is_of(event, now))

    def _show_split(self) -> None:
        split = self._splits.place_of(self._selection.now)
        self.split_chart.show_selected(split, self._selection.now.device)
        if split is not None:
            self.splits.choose_first(lambda numbered: numbered[0] == split)


def _matches(row: MemoryRow, selected: Selected) -> bool:
    return (
        (selected.layer is None or row.layer == selected.layer)
        and selected.device in (row.device, None)
        and selected.component in (kind_of(row), None)
    )


def memory_report(bench: Workbench, view: MemoryView) -> ViewReport:
    """Every record with its bytes, each event since the model was opened, the splits of a token."""
    words = [text for text in (view.caption, view.details.text()) if text]
    tables, data = [], {}
    for title, table, rows in (
        (tr("Memory"), view.records, [cell.row() for cell in bench.memory.cells]),
        (tr("Events"), view.events, list(bench.memory.allocations.events)),
        (tr("Splits"), view.splits, list(enumerate(bench.splits.splits))),
    ):
        if rows:
            tables.append(table_of(title, table.rows.columns, rows))
            data[title] = rows
    return ViewReport(words, tables, lambda: msgspec.to_builtins(data))
