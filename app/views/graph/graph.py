"""The graph of a step: splits, blocks, operations, the launches they became, and why."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QHideEvent, QKeySequence, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.files import write_named
from app.language import tr
from app.state.graph.blocks import GraphIndex, key_of
from app.state.graph.graph import Phase
from app.state.graph.overlay import Overlay
from app.state.graph.scene import (
    along,
    along_launches,
    as_dot,
    as_json,
    cyclic,
    launch_of,
    same_place,
)
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.graph.bar import GraphBar
from app.views.graph.comparing import CompareBar
from app.views.graph.legend import GraphLegend
from app.views.graph.node_table import LAUNCHES, NODES, launch_rows, node_rows
from app.views.graph.offer import PinOffer
from app.views.graph.pages import GraphPages
from app.views.graph.panel import NodePanel, part_summary, summary
from app.views.graph.picture.canvas import GraphCanvas
from app.views.graph.picture.painting import marks_of, weight_of
from app.views.graph.ribbon import SplitRibbon
from app.widgets.basics import TEXT_SIZE, label, set_tone
from app.widgets.file_dialogs import save_file
from app.widgets.layouts import vbox
from app.widgets.lists.rows import ViewReport, table_of
from engine.errors import CutawayError


def choose_and_write(parent: QWidget, name: str, write: Callable[[Path], object]) -> str:
    """Ask where to, offering a name, and write there. What went wrong, in a sentence, or empty."""
    chosen, _ = save_file(parent, tr("Save the graph"), name)
    if chosen:
        try:
            write(Path(chosen))
        except CutawayError as error:
            return str(error)
    return ""


def write(kind: str, path: Path, index: GraphIndex, canvas: GraphCanvas, title: str) -> None:
    """As svg what the canvas has, as dot or json all of the graph. Raises CutawayError."""
    if kind == "dot":
        write_named(path, as_dot(index).encode())
    elif kind == "json":
        write_named(path, as_json(index.graph).encode())
    elif canvas.scene is not None:
        write_named(path, canvas.svg(title))


WIDE, TALL = 720, 400  # the panel stands beside the graph; a verdict has room below colours
PANEL, PANEL_BELOW, UNBOUND = 280, 200, 16777215
EMPTY = tr("Open a model to see its compute graph: which device runs each operation, and why.")
LOOKING = tr("Reading the model's graph…")
HEADER = tr("From the file's header; nothing is loaded yet.")


class GraphView(QWidget):
    """Shows `bench.graph`, and what is selected in it."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self._state, self._selection = bench, bench.graph, bench.selection
        self._comparison = bench.comparison
        self._overlay: Overlay = "device"
        self._found: list[int] = []
        self._launch: int | None = None
        self._as_table = False
        self.bar, self.ribbon, self.panel = GraphBar(), SplitRibbon(), NodePanel()
        self.pages = GraphPages()
        self.canvases = self.pages.canvases
        self.legend, self.offer, self.compared = GraphLegend(), PinOffer(bench), CompareBar(bench)
        self.caption = label(tone="quiet", wrap=True)
        self._lay_out()
        self._connect()
        self.refresh()

    @property
    def as_table(self) -> bool:
        """Whether rows are shown in place of the picture."""
        return self._as_table

    @property
    def canvas(self) -> GraphCanvas:
        """The picture, or the first of two."""
        return self.canvases[self._phase]

    @property
    def index(self) -> GraphIndex | None:
        """The graph that the ribbon, the table and the panel are of."""
        return self._state.indices.get(self._phase)

    @property
    def selected(self) -> int | None:
        """The number of the node that is selected."""
        return self._state.node_of(self._phase, self._selection.now)

    def toggle_table(self) -> None:
        """Picture or table; the same numbers."""
        self._as_table = not self._as_table
        self.refresh()

    def refresh(self) -> None:
        """As the state is now."""
        state, index = self._state, self.index
        self.bar.show_chosen(state.phases, state.shows, self._overlay)
        for phase in self.canvases:
            self.pages.show_phase(phase, phase in state.phases and phase in state.scenes)
        self._show_times()
        if self._as_table and index is not None:
            self.pages.fill(index, state.launch_ns, self._comparison.errors(index))
        self._say()
        self._show_selected()

    def write(self, kind: str, path: Path) -> None:
        """Write the graph as svg, dot or json. Raises OSError."""
        if self.index is not None:
            write(kind, path, self.index, self.canvas, self._bench.session.model_name)

    def _connect(self) -> None:
        state, bar = self._state, self.bar
        state.changed.connect(self.refresh)
        state.timed.connect(self._show_times)
        self._comparison.changed.connect(self.refresh)
        self._selection.changed.connect(self._show_selected)
        bar.steps_chosen.connect(lambda phases: state.show_phases(*phases))
        bar.shows_chosen.connect(self.show_as)
        bar.overlay_chosen.connect(self._colour)
        bar.collapse_chosen.connect(state.collapse)
        bar.query_changed.connect(self._find)
        bar.next_wanted.connect(self._go_to_found)
        bar.save_wanted.connect(self._save)
        bar.table_wanted.connect(self.toggle_table)
        bar.fit_wanted.connect(self.pages.fit_all)
        find = QShortcut(QKeySequence.StandardKey.Find, self, bar.go_to_query)
        find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.ribbon.picked.connect(self._pick_split)
        self.panel.node_wanted.connect(self._pick_node)
        self.panel.source_wanted.connect(self.pages.show_source)
        self.panel.pin_wanted.connect(self.offer.choose)
        self.pages.node_picked.connect(self._pick_node)
        self.pages.node_chosen.connect(self._show_node)
        self.pages.launch_chosen.connect(self._show_launch)
        self.pages.source_closed.connect(self._source_closed)
        self.legend.device_picked.connect(self._selection.select_device)
        self.legend.type_picked.connect(bar.query.setText)
        self.legend.box_picked.connect(lambda number: self._picked(self._phase, number))
        for phase, canvas in self.canvases.items():
            canvas.picked.connect(partial(self._picked, phase))
            canvas.opened.connect(partial(self._open, phase))
            canvas.walked.connect(self._walk)
            canvas.stepped.connect(self._step)
            canvas.gone_up.connect(self._go_up)
            canvas.menu_wanted.connect(self.offer.choose_in_picture)

    @property
    def _launched(self) -> bool:
        return self._state.shows == "launches"

    def show_as(self, shows: str) -> None:
        self._launch = None
        self._state.show_as("launches" if shows == "launches" else "operations")

    def _colour(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self.refresh()

    def _picked(self, phase: Phase, number: int) -> None:
        if self._launched:
            self._pick_launch(number, phase)
        else:
            self._pick_node(number, phase)

    def _pick_node(self, number: int | None, phase: Phase | None = None) -> None:
        index = self._state.indices.get(phase or self._phase)
        if index is not None and number is not None:
            node = index.graph.nodes[number]
            if node.role == "weight":  # its numbers are elsewhere
                self._selection.select_tensor(node.name, node.layer)
                self._selection.show_in("tensors")
            else:
                self._selection.select_operation(key_of(node), node.layer, node.device)

    def _pick_launch(self, number: int | None, phase: Phase | None = None) -> None:
        """The node that comes of it is selected; a helper alone is marked."""
        index = self._state.indices.get(phase or self._phase)
        if index is None or number is None:
            return
        nodes, self._launch = index.graph.launches[number].nodes, number
        if nodes:
            self._pick_node(nodes[-1], phase)
        self._show_selected()

    def _pick_split(self, number: int) -> None:
        if self.index is not None:
            self._selection.select_split(number, self.index.graph.splits[number].device)

    def _open(self, phase: Phase, number: int) -> None:
        """An operation as the launch it became, a launch as its kernel's source."""
        index = self._state.indices.get(phase)
        if index is None:
            return
        if self._launched:
            launch = index.graph.launches[number]
            self.pages.show_source(launch.kernels[0], launch.defines[0])
            return
        self._pick_node(number, phase)
        if index.graph.nodes[number].launch >= 0:
            self.show_as("launches")

    def _walk(self, way: int) -> None:
        index = self.index
        if index is not None and self._launched and self._launch is not None:
            self._pick_launch(along_launches(index, self._launch, way))
        elif index is not None:
            self._pick_node(along(index, self.selected, way))

    def _step(self, way: int) -> None:
        """To the same place of the block before or behind."""
        if (index := self.index) is not None:
            self._launch = None
            self._pick_node(same_place(index, self.selected, way))

    def _go_up(self) -> None:
        """From launches to operations, from an operation to its block, from there to all."""
        index, now = self.index, self.selected
        if self._launched:
            self.show_as("operations")
        elif index is not None and now is not None:
            at = self.canvas.card_of(now)
            self._selection.select_layer(index.graph.nodes[now].layer)
            if at is not None:
                self.canvas.fit_card(at)
        else:
            self.pages.fit_all()

    def _find(self, words: str) -> None:
        self._found = self._state.find(self._phase, words)
        self.bar.count.setText(tr("{count} found", count=len(self._found)) if words.strip() else "")
        self._show_marks()

    def _go_to_found(self, way: int) -> None:
        self._launch = None
        self._pick_node(cyclic(self._found, self.selected, way))

    def _save(self, kind: str) -> None:
        name = f"{self._bench.session.model_name or 'graph'}-{self._phase}.{kind}"
        if problem := choose_and_write(self, name, partial(self.write, kind)):
            self._set_caption(problem, "bad")

    @property
    def _phase(self) -> Phase:
        return self._state.phases[0]

    def _show_times(self) -> None:
        """What is drawn by the time it takes, and the scenes, where they are others."""
        state, index = self._state, self.index
        times = self._bench.splits.splits if self._phase == "decode" else []
        known = index is not None and len(times) == len(index.graph.splits)
        self.ribbon.show_graph(None if index is None else index.graph, times if known else ())
        for phase, scene in state.scenes.items():
            errors = self._comparison.errors(scene.index)
            self.pages.draw(phase, scene, self._overlay, state.launch_ns, errors)
        errors = self._comparison.errors(index)
        self.legend.show_graph(index, self._overlay, state.shows, state.launch_ns, errors)

    def _show_selected(self) -> None:
        """The node, layer or split that is selected, wherever that was done."""
        now, index, number = self._selection.now, self.index, self.selected
        split = now.split
        if index is not None and number is not None:
            split = index.graph.nodes[number].split if split is None else split
            if self._launched:
                self._launch = launch_of(index, number, self._launch)
            self._scroll_to_block(index.block_of.get(number))
        elif index is not None and now.layer is not None:
            self._state.choose_block(index.block_of_layer(now.layer))
        self.ribbon.show_selected(split if split is not None and split >= 0 else None)
        self.legend.chart.show_selected([now.device])
        self._show_marks()
        self._describe_selected()

    def _scroll_to_block(self, block: int | None) -> None:
        """Have what is selected in sight, in each picture."""
        self._state.choose_block(block)
        close = any(canvas.hasFocus() for canvas in self.canvases.values())
        for phase in self._state.phases:
            number = self._state.node_of(phase, self._selection.now)
            if number is not None and self._launched:
                number = self._state.indices[phase].graph.nodes[number].launch
            if number is not None:
                self.canvases[phase].scroll_to(number, close)

    def _show_marks(self) -> None:
        state, now = self._state, self._selection.now
        for phase in state.phases:
            scene = state.scenes.get(phase)
            if scene is not None and scene.index is state.indices.get(phase):
                number, changed = state.node_of(phase, now), state.differences(phase)
                launch = self._launch if phase == self._phase else None
                found = self._found if phase == self._phase else []
                marks = marks_of(scene, now, number, launch, found, changed)
                self.canvases[phase].show_marks(marks)

    def _describe_selected(self) -> None:
        index, number, now = self.index, self.selected, self._selection.now
        if index is None:
            self.panel.say("", "")
        elif self._launched and self._launch is not None:
            self._show_launch(self._launch)
        elif number is not None:
            self._show_node(number)
        elif now.split is not None and now.split < len(index.graph.splits):
            self.panel.say(tr("Split {split}", split=now.split), self.ribbon.words(now.split))
        elif (weight := weight_of(index, now)) is not None:
            self._show_node(weight)
        elif now.layer is not None or now.device is not None:
            self.panel.say(*part_summary(index, now.layer, now.device))
        else:
            self.panel.say(tr("Graph"), summary(index))

    def _show_node(self, number: int) -> None:
        index = self.index
        if index is None:
            return
        node = index.graph.nodes[number]
        change = self._state.differences(self._phase).get(number, "")
        beside = tr("a prompt") if len(self._state.phases) > 1 else tr("the pinned graph")
        where = (
            tr("Differs from {beside}: {change}.", beside=beside, change=change) if change else ""
        )
        error = self._comparison.errors(index).get(number)
        self.panel.show_node(index, number, self._state.launch_ns.get(node.launch), where, error)
        self.canvas.setAccessibleDescription(f"{key_of(node)}, {node.op}. {node.why}")

    def _show_launch(self, number: int) -> None:
        index = self.index
        if index is not None and number < len(index.graph.launches):
            errors = self._comparison.errors(index)
            self.panel.show_launch(index, number, self._state.launch_ns.get(number), errors)
            launch = index.graph.launches[number]
            text = tr(
                "Launch {number}, {op} on {device}",
                number=number,
                op=launch.op,
                device=launch.device,
            )
            self.canvas.setAccessibleDescription(text)

    def _source_closed(self) -> None:
        self._arrange()
        self.canvas.setFocus()

    def _say(self) -> None:
        state = self._state
        if state.problem:
            self._set_caption(state.problem, "bad")
        elif state.is_known:
            self._set_caption(HEADER if state.from_header else "")
        else:
            self._set_caption(LOOKING if state.looking else EMPTY)
        self._arrange()

    def _set_caption(self, text: str, tone: str = "quiet") -> None:
        self.caption.setText(text)
        set_tone(self.caption, tone)
        self.caption.setVisible(bool(text))

    # Where things are

    def _lay_out(self) -> None:
        self.pages.setMinimumSize(160, 90)  # its tables scroll
        self._body = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._body.setSpacing(PADDING)
        self._body.addWidget(self.pages, 1)
        self._body.addWidget(self.panel)
        column = vbox(on=self, margins=(PADDING, GRID, PADDING, GRID))
        column.setAlignment(Qt.AlignmentFlag.AlignTop)
        for widget in (self.bar, self.ribbon, self.legend, self.compared, self.caption, self.offer):
            column.addWidget(widget)
        column.addLayout(self._body, 1)

    def _arrange(self) -> None:
        """What can be seen, by what is known; where room is short, less."""
        known = self.index is not None and bool(self._state.scenes)
        roomy = known and (self._state.pin is None or self._is_wide)
        self.bar.setVisible(known)
        self.pages.setVisible(known)
        shown = roomy and (self._overlay != "error" or self.height() >= fonts.px(TALL))
        self.ribbon.setVisible(shown)
        self.panel.setVisible(shown)
        self.legend.setVisible(shown and not self._as_table)
        self.compared.setVisible(roomy and self._overlay == "error")
        self.pages.show_as(self._as_table, self._launched)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._state.shown(True)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._state.shown(False)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._turn()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._turn()

    @property
    def _is_wide(self) -> bool:
        return self.width() >= fonts.px(WIDE)

    def _turn(self) -> None:
        """The panel beside the graph, or below it where the view is narrow."""
        directions, wide = QBoxLayout.Direction, self._is_wide
        way = directions.LeftToRight if wide else directions.TopToBottom
        self._body.setDirection(way)
        self.pages.turn(way)
        self.panel.setMinimumWidth(fonts.px(PANEL) if wide else 0)
        self.panel.setMaximumWidth(fonts.px(PANEL) if wide else UNBOUND)
        self.panel.setMaximumHeight(UNBOUND if wide else fonts.px(PANEL_BELOW))
        self._arrange()


def graph_report(bench: Workbench, view: GraphView) -> ViewReport:
    """What is selected in words, every node and every launch; as data all that the engine sent."""
    index, times = view.index, bench.graph.launch_ns
    if index is None:
        return ViewReport([view.caption.text()])
    errors = bench.comparison.errors(index)
    tables = [
        table_of(tr("Operations"), NODES, node_rows(index, times, errors)),
        table_of(tr("Launches"), LAUNCHES, launch_rows(index, times, errors)),
    ]
    words = [summary(index), view.panel.text]
    return ViewReport(words, tables, lambda: json.loads(as_json(index.graph)))
