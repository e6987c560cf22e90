"""Layers: where each lies, moved by hand, priced at once, and put into effect."""

from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QComboBox, QMenu, QWidget

from app.language import tr
from app.state.lab.shading import Shade, drift_of, effect_of
from app.state.layers.lanes import PARTS, Lane, LayerTile, TileBand
from app.state.layers.layers import LayersState
from app.state.layers.words import PART_WORDS, why
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.devices import lettered, swatch_size
from app.theme.tokens import GRID, PADDING, ROW
from app.views.layers.chart import LanesChart
from app.views.layers.figures import ApplyBar, FiguresLine, figures_of, speed_words
from app.views.layers.paint import fill_part, unusual_kinds
from app.views.layers.picture import ShownTile
from app.views.layers.rule import RuleField
from app.widgets.basics import Button, IconButton, divider, label, scrolled
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.lists.rows import Column, TableRows, ViewReport, table_of
from app.widgets.lists.table import Table
from app.widgets.numbers import mib
from app.widgets.plots.legend import ChartLegend, LegendEntry
from app.widgets.plots.paper import Paper
from app.widgets.plots.scale import ColourScale
from app.widgets.tips import set_tip


class PartRow(NamedTuple):
    """What a device has of a part of a layer."""

    tile: LayerTile
    band: TileBand


def part_rows(lanes: Iterable[Lane]) -> list[PartRow]:
    """By layer, and in a layer as the bands of its tile."""
    tiles = sorted((t for lane in lanes for t in lane.tiles), key=lambda t: (t.layer, not t.home))
    return [PartRow(tile, band) for tile in tiles for band in tile.bands]


def part_columns(state: LayersState, shade: Shade | None = None) -> tuple[Column[PartRow], ...]:
    """Layer, device, part with its bytes, what kind of layer it is and why it lies there; and the
    layer's value in a shade.
    """

    def title(row: PartRow) -> str:
        out = state.answer is not None and row.tile.layer == state.answer.n_layer
        return "out" if out else str(row.tile.layer)

    def kind(row: PartRow) -> str:
        return ", ".join(state.answer.labels[row.tile.layer]) if state.answer is not None else ""

    def cause(row: PartRow) -> str:
        return why([row.tile], state.answer) if state.answer is not None else ""

    return (
        Column[PartRow](tr("Layer"), title, lambda r: r.tile.layer, right=True),
        Column[PartRow](tr("Device"), lambda r: lettered(r.tile.device)),
        Column[PartRow](tr("Part"), lambda r: PART_WORDS[r.band.part]),
        Column[PartRow]("MiB", lambda r: mib(r.band.size), lambda r: r.band.size, right=True),
        Column[PartRow](tr("Kind"), kind, quiet=True),
        Column[PartRow](tr("Why"), cause, quiet=True),
        Column[PartRow](
            tr("Bytes"), lambda r: str(r.band.size), lambda r: r.band.size, right=True, quiet=True
        ),
        *([shade_column(shade)] if shade is not None else []),
    )


def shade_column(shade: Shade) -> Column[PartRow]:
    """The value of a row's layer; layers without one sort first."""

    def text(row: PartRow) -> str:
        return shade.text(shade.of([row.tile.layer]))

    def value(row: PartRow) -> float:
        found = shade.of([row.tile.layer])
        return -inf if found is None else found

    return Column[PartRow](shade.title, text, value, right=True)


def parts_legend(parent: QWidget) -> ChartLegend:
    """A swatch for each part; picking one is for who wants to move it."""

    def draw(paper: Paper, area: QRectF, part: object) -> None:
        fill_part(paper, area, parent.property("device") or "host", str(part))

    return ChartLegend(tr("Parts of a layer"), draw, swatch_size)


def parts_of(tiles: Sequence[LayerTile], labels: Sequence[Sequence[str]]) -> list[LegendEntry]:
    """An entry for each part there is, from the top of a tile to its bottom, and one for what the
    line below a layer's number means.
    """
    there = {band.part for tile in tiles for band in tile.bands}
    entries = [LegendEntry(part, PART_WORDS[part]) for part in PARTS if part in there]
    kinds = dict.fromkeys(unusual_kinds(labels).values())
    return (
        [*entries, LegendEntry(None, tr("underlined: {kinds}", kinds=", ".join(kinds)))]
        if kinds
        else entries
    )


COLOURS: dict[str, str] = {
    "memory": tr("Memory"),
    "drift": tr("Drift"),
    "effect": tr("Effect"),
}
LEAST_ROWS, WHY = 7, 5
CHART_SHARE = 0.66  # of the height, where it has that much to show
KEYS = tr(
    "Drag layers, or choose them with the arrows and Shift and move them with Alt+Up and Alt+Down."
    " Enter opens a layer, Ctrl+Left and Ctrl+Right move a boundary, Ctrl+Enter applies."
)
MEASURE_TIP = tr("Measures each device with this model; takes a few seconds per device")
NO_MODEL = tr("Choose a model (Ctrl+O) to see its layers, even before loading it.")


class Tall(QWidget):
    """What is scrolled: as high as its words are at its width."""

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.fit()
        return done

    def fit(self) -> None:
        """Request the height that is needed now."""
        layout = self.layout()
        if layout is not None:
            by_width = layout.hasHeightForWidth()  # else there are no words
            height = layout.minimumHeightForWidth(self.width()) if by_width else 0
            self.setMinimumHeight(height)
            layout.activate()


class LayersView(QWidget):
    """Shows `bench.layers`: lanes with tiles or a table, what it costs, the rule, and Apply."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self.state = bench, bench.layers
        self._as_table = False
        self.chart = LanesChart(self.state)
        self.table = Table(TableRows(part_columns(self.state), self), tr("Layers"), stretch=(WHY,))
        self.figures, self.rule = FiguresLine(), RuleField(self.state)
        self.apply = ApplyBar(self.state)
        self.legend = parts_legend(self)
        self.details = label(wrap=True)
        self.reasons = label(tone="quiet", wrap=True)
        self._keys = label(KEYS, tone="quiet", size="small", wrap=True)
        self._empty = label(NO_MODEL, tone="quiet", wrap=True)
        self._caption = ElidedLabel(size="small")
        self._caption.setProperty("tone", "quiet")
        self.undo = IconButton("undo", tr("Undo (Ctrl+Z)"), self.state.undo)
        self.redo = IconButton("redo", tr("Redo (Ctrl+Shift+Z)"), self.state.redo)
        self.automatic = Button(tr("Automatic"), self.state.automatic, "flat")
        self.add = Button(tr("Add a device"), self._offer_devices, "flat", "plus")
        self.measure = Button(tr("Measure speed"), self._measure, "flat")
        self.colour = QComboBox()
        self.colour.setAccessibleName(tr("Colour of the layers"))
        self.scale = ColourScale(tr("Meaning of the colours"))
        self._switch = IconButton("table", tr("Show as a table (Ctrl+T)"), self.toggle_table)
        self._lay_out()
        self._connect()
        self.refresh()

    @property
    def as_table(self) -> bool:
        """Whether numbers alone are shown."""
        return self._as_table

    def toggle_table(self) -> None:
        """Chart or table; the same numbers."""
        self._as_table = not self._as_table
        words = tr("Show as a chart") if self._as_table else tr("Show as a table")
        self._switch.set_picture(
            "chart" if self._as_table else "table", tr("{words} (Ctrl+T)", words=words)
        )
        self.refresh()

    @property
    def shade(self) -> Shade | None:
        """Values by layer that are shown as colours; None for the devices' colours."""
        return self.chart.shade

    def _shades(self) -> dict[str, Shade]:
        """The values that kept runs have of the model."""
        if self.state.file is None:
            return {}
        runs, name = self._bench.runs, self.state.file.path.stem
        found = {"drift": drift_of(runs, name), "effect": effect_of(runs, name)}
        return {kind: shade for kind, shade in found.items() if shade is not None}

    def _offer_colours(self, shades: Iterable[str]) -> None:
        """List what there is; memory where the chosen one is gone."""
        now, kinds = self.colour.currentData(), ["memory", *shades]
        if kinds != [self.colour.itemData(at) for at in range(self.colour.count())]:
            self.colour.clear()
            for kind in kinds:
                self.colour.addItem(COLOURS[kind], kind)
            self.colour.setCurrentIndex(max(0, self.colour.findData(now)))

    def _show_shade(self) -> None:
        """Show the values of kept runs, if others are known now."""
        shades = self._shades()
        self._offer_colours(shades)
        shade = shades.get(self.colour.currentData())
        if shade != self.chart.shade:
            self.chart.show_shade(shade)
            self.table.rows.show_columns(part_columns(self.state, shade))
            if shade is not None:
                self.scale.show_scale(shade.heading, shade.ends, shade.is_diverging)
        some = bool(self.state.lanes())
        self.colour.setVisible(some and self.colour.count() > 1)
        self.scale.setVisible(some and shade is not None and not self._as_table)
        self.legend.setVisible(some and shade is None and not self._as_table)

    def refresh(self) -> None:
        state = self.state
        some = bool(state.lanes())
        self.chart.refresh()
        rows = part_rows(state.lanes()) if self._as_table else []
        if list(self.table.rows.all_rows) != rows:
            self.table.rows.show_rows(rows)
            self._show_row()
        tiles = [tile for lane in state.lanes() for tile in lane.tiles]
        self.figures.show_figures(figures_of(state), speed_words(state))
        self.setProperty("device", next((t.device for t in tiles), None))
        labels = state.answer.labels if state.answer is not None else []
        self.legend.show_entries(parts_of(tiles, labels))
        self.rule.refresh()
        self.apply.refresh()
        self._show_words(some)
        self.undo.setEnabled(state.can_undo)
        self.redo.setEnabled(state.can_redo)
        self.automatic.setEnabled(some and not state.is_automatic)
        self._show_measure(some)
        self.add.setVisible(some and bool(state.unused_devices()))
        for widget in (self._caption, self.figures, self._switch, self.rule, self.apply):
            widget.setVisible(some)
        self.chart.setVisible(some and not self._as_table)
        self._show_shade()
        self._keys.setVisible(some and not self._as_table)
        self.table.setVisible(some and self._as_table)
        self._empty.setVisible(not some)

    def show_menu(self, place: QPoint) -> None:
        """What can be done with what is chosen."""
        menu = self.menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(place)

    def menu(self) -> QMenu:
        """Moves of all that is chosen or of parts of it, and what concerns the whole."""
        menu, state, taken = QMenu(self), self.state, self.chart.walker.taken
        devices = [*state.lane_devices(), *state.unused_devices()]
        if taken:
            for device in devices:
                move = menu.addAction(tr("Move to {lettered}", lettered=lettered(device)))
                move.triggered.connect(partial(self.chart.move_to, device))
                move.setEnabled(device != taken[0].device)
            tiles = [tile for shown in taken for tile in shown.tiles]
            for part in PARTS if not taken[0].part else ():
                if any(b.part == part and b.pattern for tile in tiles for b in tile.bands):
                    self._offer_part(
                        menu.addMenu(tr("Move only {part_words}", part_words=PART_WORDS[part])),
                        tiles,
                        part,
                    )
            menu.addSeparator()
            inside = menu.addAction(tr("Open"), self.chart.open)
            inside.setEnabled(taken[0].opens)
        for text, run, possible in (
            (tr("Undo"), state.undo, state.can_undo),
            (tr("Redo"), state.redo, state.can_redo),
            (tr("Automatic placement"), state.automatic, not state.is_automatic),
            (tr("Measure the devices again"), partial(state.measure, True), bool(state.lanes())),
            (tr("Copy as --place"), self.rule.copy_place, state.answer is not None),
            (tr("Copy for llama.cpp"), self.rule.copy_llama_cpp, state.answer is not None),
            (self.apply.button.text(), state.apply, not state.blocked()),
        ):
            menu.addAction(text, run).setEnabled(possible)
        return menu

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self.state.shown(True)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        # Before what is scrolled gets its place, so that no frame has lanes higher than theirs.
        if watched is self.area and event.type() == QEvent.Type.Resize:
            self.chart.set_room(self.area.height() * CHART_SHARE)
            self._body.fit()
        return super().eventFilter(watched, event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self.state.shown(False)

    def _lay_out(self) -> None:
        head = hbox(
            self.undo,
            self.redo,
            self.automatic,
            self.add,
            self.measure,
            STRETCH,
            self._switch,
            spacing=GRID // 2,
        )
        self.table.setMinimumHeight(fonts.px(LEAST_ROWS * ROW))
        self._body = Tall()
        words = (self._keys, self.details, self.reasons)
        vbox(
            self._empty,
            self.chart,
            self.legend,
            self.scale,
            *words,
            (self.table, 100),
            self.rule,
            STRETCH,
            on=self._body,
            margins=(0, 0, GRID, 0),
        )
        self.area = scrolled(self._body)
        self.area.installEventFilter(self)
        second = hbox((self.figures, 1), (self.colour, Qt.AlignmentFlag.AlignTop), spacing=GRID)
        vbox(
            head,
            self._caption,
            second,
            (self.area, 1),
            divider(),
            self.apply,
            on=self,
            margins=(PADDING, GRID, PADDING, GRID),
        )

    def _connect(self) -> None:
        selection = self._bench.selection
        self.state.changed.connect(self.refresh)
        self._bench.session.changed.connect(self.refresh)
        self._bench.runs.changed.connect(self._show_shade)
        self.colour.activated.connect(self._show_shade)
        selection.changed.connect(self._show_selected)
        self.chart.pointed.connect(self._point)
        self.chart.described.connect(self._show_details)
        self.chart.refused.connect(self.apply.show_text)
        self.chart.device_picked.connect(selection.select_device)
        self.chart.menu_wanted.connect(self.show_menu)
        self.chart.seen_wanted.connect(self._scroll_to)
        self.table.picked.connect(self._row_picked)
        self.legend.picked.connect(self._part_picked)
        self.rule.copied.connect(self.apply.show_text)
        self.rule.refused.connect(lambda: self.area.ensureWidgetVisible(self.rule))
        for keys, run in (
            (QKeySequence("Ctrl+Z"), self.state.undo),
            (QKeySequence("Ctrl+Shift+Z"), self.state.redo),
            (QKeySequence("Ctrl+Return"), self.state.apply),
            (QKeySequence("Ctrl+Enter"), self.state.apply),
        ):
            shortcut = QShortcut(keys, self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(run)

    def _show_details(self, text: str) -> None:
        """What is chosen in the lanes."""
        text = "" if self._as_table else text
        self.details.setText(text)
        self.details.setVisible(bool(text))

    def _show_words(self, some: bool) -> None:
        state = self.state
        answer = state.answer if some and not self._as_table else None
        lines = (
            [*(tr("Warning: {w}", w=w) for w in answer.warnings), *answer.reasons] if answer else []
        )
        self.reasons.setText("\n".join(lines))
        self.reasons.setVisible(bool(lines))
        name = state.file.path.stem if state.file is not None else ""
        self._empty.setText(
            state.problem or (tr("Reading {name} …", name=name) if name else NO_MODEL)
        )
        if state.file is None:
            self._caption.setText("")
        elif state.is_automatic:
            self._caption.setText(tr("Placed by the engine"))
        else:
            edited = tr("changed, not applied yet") if state.is_edited else tr("current")
            self._caption.setText(tr("Placed by hand, {edited}", edited=edited))

    def _show_measure(self, some: bool) -> None:
        """The button that measures, or says how far it is and cancels."""
        measuring, task = self.state.measuring, self.state.measuring.task
        self.measure.setVisible(measuring.is_busy or (some and self.state.answer is not None))
        share = f" {100 * task.done // task.total} %" if task.total else ""
        words, tip = tr("Measure again") if self._is_known else tr("Measure speed"), MEASURE_TIP
        if measuring.waits:
            words, tip = (
                tr("Cancel measuring (waiting)"),
                tr("Starts when no answer is being generated."),
            )
        elif measuring.is_busy:
            words, tip = (
                tr("Cancel measuring{share}", share=share),
                tr("Pauses while an answer is generated."),
            )
        self.measure.set_text(words)
        set_tip(self.measure, measuring.problem or tip)

    @property
    def _is_known(self) -> bool:
        """Whether the speed of what is shown was measured."""
        return self.state.answer is not None and self.state.answer.speed is not None

    def _measure(self) -> None:
        if self.state.measuring.is_busy:
            self.state.measuring.cancel()
        else:
            self.state.measure(again=self._is_known)

    def _offer_part(self, menu: QMenu, tiles: list[LayerTile], part: str) -> None:
        for device in [*self.state.lane_devices(), *self.state.unused_devices()]:
            action = menu.addAction(tr("to {lettered}", lettered=lettered(device)))
            action.triggered.connect(partial(self.state.move_tiles, tiles, device, {part}))

    def _part_picked(self, part: object) -> None:
        """That part of every layer, to one device."""
        tiles = [tile for lane in self.state.lanes() for tile in lane.tiles]
        mine = [t for t in tiles if any(b.part == part and b.pattern for b in t.bands)]
        if not mine:
            self.apply.show_text(tr("The cache stays with its layer."))
            return
        menu = QMenu(self)
        menu.addAction(
            tr("{part_words} of all layers", part_words=PART_WORDS[str(part)].capitalize())
        ).setEnabled(False)
        self._offer_part(menu, mine, str(part))
        menu.aboutToHide.connect(menu.deleteLater)
        place = self.legend.place_of(str(part)).bottomLeft().toPoint()
        menu.popup(self.legend.mapToGlobal(place))

    def _offer_devices(self) -> None:
        menu = QMenu(self)
        for device in self.state.unused_devices():
            action = menu.addAction(lettered(device))
            action.triggered.connect(partial(self.state.add_lane, device))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.add.mapToGlobal(self.add.rect().bottomLeft()))

    def _point(self, tile: ShownTile) -> None:
        layer = tile.layers[0]
        component = {"cache": "cache", "vision": "vision", "": None}.get(tile.part, "weights")
        if component is not None:
            self._bench.selection.select_cell(layer, tile.device, component)
        else:
            self._bench.selection.select_layer(layer, tile.device)

    def _row_picked(self, row: PartRow) -> None:
        component = row.band.part if row.band.part in ("cache", "vision") else "weights"
        self._bench.selection.select_cell(row.tile.layer, row.tile.device, component)

    def _show_selected(self) -> None:
        now = self._bench.selection.now
        self.chart.show_selected(now)
        self._show_row()

    def _show_row(self) -> None:
        now = self._bench.selection.now
        if now.layer is not None:
            self.table.choose_first(
                lambda r: r.tile.layer == now.layer and now.device in (None, r.tile.device)
            )

    def _scroll_to(self, place: QRect) -> None:
        middle = self.chart.mapTo(self._body, place.center())
        self.area.ensureVisible(middle.x(), middle.y(), 0, place.height() // 2 + GRID)


def layers_report(bench: Workbench, view: LayersView) -> ViewReport:
    """Each part of each layer with its bytes and its cause; the rule, and what it would cost."""
    state = bench.layers
    columns, rows = part_columns(state, view.shade), part_rows(state.lanes())
    words = [view.figures.in_words(), view.apply.caption.text()]
    if state.answer is not None:
        words += [*state.answer.warnings, *state.answer.reasons]
    rule = state.draft.rule
    words.insert(0, tr("Rule: {rule}", rule=rule) if rule else tr("Placed by the engine."))
    fields = {"rule": rule, "plan": state.answer}
    shade = view.shade
    if shade is not None:
        words.append(shade.heading)
    return ViewReport(
        [w for w in words if w],
        [table_of(tr("Layers"), columns, rows)],
        lambda: msgspec.to_builtins(fields),
    )
