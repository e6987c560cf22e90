"""Tensors: a tree of them, and the numbers of the one that is chosen."""

from math import prod
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QProgressBar, QSplitter, QStackedWidget, QWidget

from app.language import mark, tr
from app.state.lab.shading import loss_of
from app.state.models.model import shape_text
from app.state.tensors.numbers import Numbers, sliced
from app.state.tensors.results import NO_WORD
from app.state.tensors.saving import dump_text, save_csv, save_npy
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.tensors.axes import AxesBar
from app.views.tensors.blocks import BlocksPage
from app.views.tensors.cache_cells import CellsPage
from app.views.tensors.compare import ComparePage
from app.views.tensors.experts import ExpertsPage
from app.views.tensors.grid import NumberGrid
from app.views.tensors.probes import ProbesPage
from app.views.tensors.summary import NormsPage, StatisticsPage
from app.views.tensors.texts import TextsPage
from app.views.tensors.tree import TensorTree
from app.widgets.basics import Button, IconButton, label, scrolled, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.fitted_tabs import FittedTabs
from app.widgets.file_dialogs import save_file
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import grouped
from app.widgets.plots.cells import CellGrid, number_text
from app.widgets.plots.heat_map import HeatMap
from app.widgets.plots.histogram import Histogram
from app.widgets.plots.levels import LevelSliders
from app.work import Work

PAGES = (mark("Numbers"), mark("Heat map"), mark("Spread"), mark("Stats"), mark("Blocks"))
KINDS = (
    *(mark("Weights"), mark("Live probes"), mark("Compare")),
    *(mark("Texts"), mark("Experts"), mark("Cache")),
)
OF_ALL = ("Spread", "Stats")  # need every number
LEAST_TREE, LEAST_RIGHT = 170, 260
BESIDE = 520  # pixels from which on the tree stands beside the numbers, not above them


class TensorsView(QWidget):
    """Shows `bench.tensors`."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state = state = bench.tensors
        self._selection, self._file, self._runs = bench.selection, bench.file, bench.runs
        self._devices_of, self._layers_on = bench.memory.devices_of, bench.memory.layers_on
        self._plane: Numbers | None = None
        self._job: Work | None = None
        self.tree = TensorTree()
        self.tree.picked.connect(state.choose)
        self.tree.opened.connect(self.show_picture)
        self.title = ElidedLabel(where=Qt.TextElideMode.ElideMiddle, size="strong")
        self._caption = label(tone="quiet", size="small", wrap=True)
        self.axes = AxesBar()
        self.axes.changed.connect(self._show_plane)
        self.tabs = FittedTabs(tr("Tensor views"))
        self.tabs.setProperty("level", "second")
        self.grid = NumberGrid()
        self.heat = HeatMap(tr("Heat map of the tensor"), diverging=True)
        self.levels = LevelSliders(self.heat)
        self.histogram = Histogram(tr("Histogram of the tensor"), log=True)
        self.norms, self.statistics = NormsPage(), StatisticsPage()
        self.blocks = BlocksPage(state)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setAccessibleName(tr("Reading all numbers"))
        self._stop = Button(tr("Stop"), state.cancel, kind="flat")
        self._place = label(tone="quiet", size="small")
        self._save = Button(tr("Save…"), self._choose_file, kind="flat")
        self.copy = IconButton("copy", tr("Copy the numbers as text"), self._copy_dump)
        self._stack = QStackedWidget()
        self.kinds = FittedTabs(tr("Weights or results"))
        self.kinds.setProperty("level", "second")
        self.probes = ProbesPage(bench.probes, bench.selection)
        self._probing, self._celled, self._routed = bench.probes, bench.cells, bench.experts
        self.compare, self.cells = ComparePage(bench), CellsPage(bench.cells)
        self.texts, self.experts = TextsPage(bench), ExpertsPage(bench)
        self.texts.numbers_found.connect(self._show_found)
        self._lay_out()
        self.tabs.currentChanged.connect(self._turned)
        self.grid.pointed.connect(self._pointed)
        self.heat.pointed.connect(self._pointed)
        self.heat.activated.connect(lambda: self._go(*self.heat.at))
        self.norms.row_wanted.connect(lambda row: self._go(row, 0))
        self.statistics.place_wanted.connect(self._go_to_all)
        for failing in (self.grid.numbers.failed, self.heat.failed):
            failing.connect(self._failed)
        bench.selection.changed.connect(self._show_caption)
        state.listed.connect(self._list)
        bench.runs.changed.connect(self._show_loss)
        state.opened.connect(self._open)
        state.measured.connect(self._measured)
        self._list()
        self._open()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._look()
        self._turned()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        beside = self.width() >= fonts.px(BESIDE)
        side = Qt.Orientation.Horizontal if beside else Qt.Orientation.Vertical
        self._split.setOrientation(side)
        self.tabs.setTabText(PAGES.index("Heat map"), tr("Heat map") if beside else tr("Map"))

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._look()

    def _look(self) -> None:
        """Only what is visible is requested."""
        kind = KINDS[self.kinds.currentIndex()] if self.isVisible() else ""
        self._state.shown(kind == "Weights")
        self._probing.shown(kind == "Live probes")
        self._celled.shown(kind == "Cache")
        self._routed.shown(kind == "Experts")

    @property
    def caption(self) -> str:
        """The description of the tensor."""
        return self._caption.text()

    @property
    def page(self) -> str:
        """Which way to look is chosen."""
        return PAGES[self.tabs.currentIndex()]

    def show_page(self, title: str) -> None:
        self.tabs.setCurrentIndex(PAGES.index(title))

    def show_picture(self) -> None:
        """Show the tensor as a heat map, with the keyboard in it."""
        self.kinds.setCurrentIndex(0)
        self.show_page("Heat map")
        self.heat.setFocus()

    def show_probes(self) -> None:
        self.kinds.setCurrentIndex(KINDS.index("Live probes"))

    def _show_found(self, numbers: Numbers) -> None:
        """Numbers that another page has found, as those of a tensor."""
        self.kinds.setCurrentIndex(0)
        self._state.show_numbers(numbers)
        self.show_page("Heat map")
        self.heat.setFocus()

    def _lay_out(self) -> None:
        heat = QWidget()
        vbox((self.heat, 1), self.levels, on=heat, spacing=6)
        spread = QSplitter(Qt.Orientation.Vertical)
        spread.setObjectName("spread")
        spread.setChildrenCollapsible(False)
        spread.setHandleWidth(GRID)
        spread.addWidget(self.histogram)
        spread.addWidget(self.norms)
        pages_of_numbers = (spread, self.statistics, self.blocks)
        pages = (self.grid, heat, *(scrolled(page, self._stack) for page in pages_of_numbers))
        for title, page in zip(PAGES, pages, strict=True):
            self.tabs.put(tr(title))
            self._stack.addWidget(page)
        self.tabs.currentChanged.connect(self._stack.setCurrentIndex)
        head = hbox((self.title, 1), self.copy, self._save, spacing=GRID)
        line = hbox(self.tabs, STRETCH)
        waiting = hbox((self.bar, 1), self._stop)
        self._right = QWidget()
        vbox(
            head,
            self._caption,
            self.axes,
            line,
            waiting,
            (self._stack, 1),
            self._place,
            on=self._right,
            margins=(GRID, 0, 0, 0),
        )
        self._right.setMinimumWidth(LEAST_RIGHT)
        self.tree.setMinimumWidth(LEAST_TREE)
        self._split = split = QSplitter(Qt.Orientation.Horizontal)
        split.setObjectName("tensors")
        split.setChildrenCollapsible(False)
        split.setHandleWidth(1)
        split.addWidget(self.tree)
        split.addWidget(self._right)
        split.setStretchFactor(0, 2)
        split.setStretchFactor(1, 5)
        whole = vbox(self.kinds, on=self, margins=(PADDING, GRID, PADDING, PADDING))
        self._kinds = QStackedWidget(self)  # a parent that comes later dresses all in it again
        whole.addWidget(self._kinds, 1)
        kinds = (split, self.probes, self.compare, self.texts, self.experts, self.cells)
        for title, page in zip(KINDS, kinds, strict=True):
            self.kinds.put(tr(title))
            self._kinds.addWidget(scrolled(page, self._kinds))
        self.kinds.currentChanged.connect(self._kinds.setCurrentIndex)
        self.kinds.currentChanged.connect(self._look)

    def _show_loss(self) -> None:
        """Offer what tensors of the file lose, as a kept run has measured it."""
        path = self._file.path
        self.tree.show_loss(None if path is None else loss_of(self._runs, path.stem))

    def _list(self) -> None:
        self._show_loss()
        self.tree.show_groups(self._state.groups)
        self.tree.go_to(self._state.item)

    def _open(self) -> None:
        """Another tensor, or a problem with it."""
        state = self._state
        item, numbers = state.item, state.numbers
        self.tree.go_to(item)
        self.title.setText(item.name if item is not None else "")
        self._show_caption()
        has = item is not None and not state.problem
        for part in (self.tabs, self._stack, self._place, self._save, self.copy):
            part.setVisible(has)
        self.axes.show_dims(numbers.dims if has and numbers is not None else ())
        self._place.setText("")
        self._show_plane()
        self.blocks.show_numbers(numbers)
        self._measured()
        self._turned()

    def _show_caption(self) -> None:
        """The tensor in words, or why there is none."""
        state = self._state
        item, numbers = state.item, state.numbers
        set_tone(self._caption, "bad" if state.problem not in ("", NO_WORD) else "quiet")
        if state.problem:
            self._caption.setText(state.problem)
        elif item is None:
            empty = tr("Open a model to see the numbers in its tensors.")
            chosen = tr("Choose a tensor to see its numbers.")
            self._caption.setText(chosen if state.groups else empty)
        else:
            dims = numbers.dims if numbers is not None else item.dims
            parts = [item.type, shape_text(dims), tr("{prod} numbers", prod=grouped(prod(dims)))]
            if item.result is not None:
                parts.append(numbers.where if numbers is not None else tr("computing …"))
            elif item.layer is not None and (devices := self._devices_of(item.layer)):
                parts.append(tr("on {devices}", devices=", ".join(devices)))
            if (device := self._bare_device()) is not None:
                parts.append(tr("no layers on {device}", device=device))
            self._caption.setText(" · ".join(parts))

    def _bare_device(self) -> str | None:
        """The device that is selected and has no layer, of which nothing can be shown here."""
        now = self._selection.now
        alone = now.device is not None and now.layer is None and now.operation is None
        return now.device if alone and not self._layers_on(now.device or "") else None

    def _show_plane(self) -> None:
        numbers = self._state.numbers
        self._plane = plane = None if numbers is None else sliced(numbers, self.axes.axes)
        self.grid.show_numbers(plane)
        if plane is None:
            self.heat.show_cells([[]])
        else:
            self.heat.show_cells(
                CellGrid((plane.rows, plane.columns), plane.read, slow=True, text=number_text)
            )

    def _turned(self) -> None:
        if self.isVisible() and self.page in OF_ALL:
            self._state.measure()

    def _measured(self) -> None:
        state = self._state
        waits = state.done is not None
        self.bar.setVisible(waits)
        self._stop.setVisible(waits)
        self.bar.setValue(round(1000 * (state.done or 0)))
        if waits and state.done:
            return
        found = state.statistics
        if found is not None and found.finite:
            self.histogram.show_counts(found.counts, found.edges)
        else:
            self.histogram.show_counts([], [0.0])
        self.norms.show_statistics(found)
        self.statistics.show_statistics(found)

    def _pointed(self, row: int, column: int) -> None:
        """One cursor for the table and the heat map."""
        value = self.grid.numbers.value(row, column)
        shown = "" if value is None else f": {value:.9g}"
        self._place.setText(
            tr("row {row}, column {column}{value}", row=row, column=column, value=shown)
        )
        item, numbers = self._state.item, self._state.numbers
        selected = item is not None and item.name == self._selection.now.operation
        if selected and numbers is not None:
            heads = len(numbers.dims) > 2  # the third dimension counts tokens
            self._selection.select_channel(column + (row * numbers.dims[0] if heads else 0))
        if self.page == "Numbers":
            self.heat.set_cursor(row, column)
        else:
            self.grid.setCurrentIndex(self.grid.numbers.index(row, column))

    def _go(self, row: int, column: int) -> None:
        """Show a number of the plane in the table."""
        self.show_page("Numbers")
        index = self.grid.numbers.index(row, column)
        self.grid.setCurrentIndex(index)
        self.grid.scrollTo(index)
        self.grid.setFocus()

    def _go_to_all(self, row: int, column: int) -> None:
        """The same, where rows of all planes are counted."""
        numbers = self._state.numbers
        if numbers is not None:
            self.axes.show_dims(numbers.dims, row)
            self._show_plane()
            self._go(row % self.grid.numbers.rowCount(), column)

    def _failed(self, problem: str) -> None:
        set_tone(self._caption, "bad")
        self._caption.setText(problem)

    def _copy_dump(self) -> None:
        if self._state.numbers is not None:
            copy = QGuiApplication.clipboard().setText
            Work(dump_text, self._state.numbers).then(copy).fail(self._failed).start(self)

    def _choose_file(self) -> None:
        numbers = self._state.numbers
        if numbers is None:
            return
        kinds = tr("NumPy array (*.npy);;Comma-separated values (*.csv)")
        path, kind = save_file(self, tr("Save numbers"), f"{numbers.name}.npy", kinds)
        if path:
            self.save(numbers, Path(path))

    def save(self, numbers: Numbers, path: Path) -> None:
        """Write all numbers to a file, CSV by its name, in a job."""
        write = save_csv if path.suffix.lower() == ".csv" else save_npy

        def saved(done: bool) -> None:
            self._place.setText(tr("saved as {name}", name=path.name) if done else tr("not saved"))

        def show_progress(part: float) -> None:
            self._place.setText(tr("saving {name}: {part:.0f} %", name=path.name, part=100 * part))

        job = Work.polling(_saved, write, numbers, path)
        self._job = job.then(saved).fail(self._failed).progress(show_progress).start(self)


def _saved(job: Work, write: object, numbers: Numbers, path: Path) -> bool:
    def show_progress(done: int, total: int) -> bool:
        job.report(done / total)
        return not job.cancelled

    return bool(write(numbers, path, show_progress))  # type: ignore[operator]
