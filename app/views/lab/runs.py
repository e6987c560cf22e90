"""Runs: a patching map is foreseen, started and stopped; kept maps are opened."""

from datetime import datetime

import msgspec
import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from app.language import tr
from app.state.lab.runs import command_of, effects_of, text_of_run
from app.state.talk.context import DraftTokens
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.token.section import shown
from app.widgets.basics import Button, divider, label, scrolled
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.flow import Flow
from app.widgets.numbers import UNKNOWN, duration, grouped, mib
from app.widgets.plots.cells import grid_of
from app.widgets.plots.heat_map import HeatMap
from app.widgets.tips import plain_tip
from engine.protocol import MapPatches, PatchesMapped, PatchGrid

NOTE = tr(
    "Results of one prompt are put into the run of another, one at a time: a cell says how much of"
    " the difference between both answers comes back. 0 changes nothing, 1 restores the answer."
)
GRIDS: dict[PatchGrid, str] = {
    "residual": tr("Layers by position"),
    "parts": tr("Attention and feed-forward"),
    "heads": tr("Heads"),
    "experts": tr("Experts"),
}
DIRECTIONS = {False: tr("Restore (denoising)"), True: tr("Break (noising)")}
SITES = {
    "residual": tr("What leaves a layer"),
    "attention": tr("Attention"),
    "feed_forward": tr("Feed-forward"),
    "heads": tr("Heads"),
    "ffn_moe_down": tr("Experts"),
}
NARROW = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
SHORT = 20  # characters of a kept run
MAP = 260  # pixels of the map's height
PROMPT = "The capital of France is"
OTHER = "The capital of Italy is"


class RunsView(QWidget):
    """A form, how far the run is, and below it the map that is looked at."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Runs"))
        self._bench, self._runs = bench, bench.runs
        self._shown: object = None
        self.clean, self.corrupt, self.right, self.wrong = (QLineEdit() for _ in range(4))
        self.grid, self.direction = QComboBox(), QComboBox()
        for grid, title in GRIDS.items():
            self.grid.addItem(title, grid)
        for noising, title in DIRECTIONS.items():
            self.direction.addItem(title, noising)
        self.chat = QCheckBox(tr("As chat messages"))
        self.counter = DraftTokens(bench.session, self)
        self.foreseen = label("", "quiet", wrap=True)
        self.begin = Button(tr("Start"), self._start, kind="primary")
        self.stop = Button(tr("Stop"), self._runs.stop)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Patches that are computed"))
        self.problem = label("", "bad", wrap=True)
        self.kept, self.site = QComboBox(), QComboBox()
        self.delete = Button(tr("Delete"), self._delete)
        self.copy_json = Button(tr("Copy as JSON"), self._copy_json)
        self.copy_command = Button(tr("Copy the command"), self._copy_command)
        self.title = ElidedLabel(size="strong")
        self.map = HeatMap(tr("Effects of patches"), diverging=True)
        self.says = label("", "quiet", wrap=True)
        self._lay_out()
        self.setFocusProxy(self.clean)
        self.clean.textChanged.connect(self.counter.set_text)
        for changed in (self.counter.changed, self.grid.currentIndexChanged):
            changed.connect(self._foresee)
        self.kept.activated.connect(self._open)
        self.site.activated.connect(self._show_map)
        self.map.pointed.connect(self._pointed)
        self._runs.changed.connect(self._show)
        bench.session.changed.connect(self._show)

    def refresh(self) -> None:
        """List the kept runs; begin with prompts to try."""
        if not self.clean.text():
            self.clean.setText(PROMPT)
            self.corrupt.setText(OTHER)
        self._runs.refresh()
        self._foresee()

    @property
    def request(self) -> MapPatches:
        """The map that the form describes."""
        chat, grid = self.chat.isChecked(), self.grid.currentData()
        return MapPatches(
            0,
            clean=text_of_run(self.clean.text(), chat),
            corrupt=text_of_run(self.corrupt.text(), chat),
            right=self.right.text(),
            wrong=self.wrong.text(),
            grid=grid,
            noising=bool(self.direction.currentData()),
        )

    def _start(self) -> None:
        self._runs.start(self.request)

    def _delete(self) -> None:
        number = self.kept.currentData()
        if number is not None:
            self._runs.delete(int(number))

    def _open(self) -> None:
        number = self.kept.currentData()
        if number is not None:
            self._runs.open(int(number))

    def _copy_json(self) -> None:
        if self._runs.shown is not None:
            text = msgspec.json.encode(self._runs.shown).decode()
            QGuiApplication.clipboard().setText(text)

    def _copy_command(self) -> None:
        path = self._bench.session.path
        QGuiApplication.clipboard().setText(command_of(self.request, str(path or "MODEL")))

    def _foresee(self) -> None:
        """Say what the map takes, as far as the file and the last answer tell."""
        count = self.counter.count or 0
        found = self._runs.foreseen(count, self.grid.currentData())
        if found is None:
            self.foreseen.setText(tr("Open a model and type a prompt to see what the map takes."))
            return
        latest = self._bench.chat.latest
        rate = latest.stats.prefill_rate if latest is not None and latest.stats is not None else 0
        took = duration(found.tokens / rate) if rate else UNKNOWN
        self.foreseen.setText(
            tr(
                "{patches} patches, {tokens} tokens: about {time}, {mib} MiB of results in memory",
                patches=grouped(found.patches),
                tokens=grouped(found.tokens),
                time=took,
                mib=mib(found.bytes),
            )
        )

    def _show(self) -> None:
        runs = self._runs
        done, total = runs.progress
        self.bar.setVisible(runs.running)
        self.bar.setRange(0, total)
        self.bar.setValue(done)
        ready = self._bench.session.model is not None
        self.begin.setEnabled(ready and not runs.running)
        self.stop.setEnabled(runs.running)
        self.problem.setText(runs.problem)
        self.problem.setVisible(bool(runs.problem))
        number = self.kept.currentData()
        self.kept.clear()
        for one in runs.kept:
            made = datetime.fromtimestamp(one.made)
            short = one.title if len(one.title) <= SHORT else f"{one.title[: SHORT - 1]}…"
            self.kept.addItem(f"{made:%m-%d %H:%M}  {short}", one.id)
            self.kept.setItemData(
                self.kept.count() - 1, plain_tip(one.title), Qt.ItemDataRole.ToolTipRole
            )
        self.kept.setCurrentIndex(max(0, self.kept.findData(number)))
        for widget in (self.kept, self.delete):
            widget.setEnabled(bool(runs.kept))
        if runs.shown is not self._shown:
            self._shown = runs.shown
            self._show_result(runs.shown)

    def _show_result(self, found: PatchesMapped | None) -> None:
        for widget in (self.title, self.site, self.map, self.says, self.copy_json):
            widget.setVisible(found is not None)
        if found is None:
            return
        right, wrong = shown(found.right[1]), shown(found.wrong[1])
        self.title.setText(
            tr("{name}: {right} against {wrong}", name=found.name, right=right, wrong=wrong)
        )
        self.site.clear()
        for at, table in enumerate(found.tables):
            self.site.addItem(SITES.get(table.site, table.site), at)
        self._show_map()
        notes = [*found.notes, *([] if found.complete else [tr("Stopped: not complete.")])]
        self.says.setText(" ".join(notes))

    def _show_map(self) -> None:
        found, at = self._runs.shown, self.site.currentData()
        if found is None or at is None:
            return
        by_position = found.grid in ("residual", "parts")

        def column(number: int) -> str:
            place = found.columns[number]
            return f"{place} {shown(found.tokens[place])}" if by_position else str(place)

        grid = grid_of(
            effects_of(found, int(at)),
            row_title=tr("layer"),
            row_name=lambda row: str(found.layers[row]),
            column_title=tr("token") if by_position else tr("head"),
            column_name=column,
            text=lambda value: UNKNOWN if np.isnan(value) else f"{value:.2f}",
        )
        self.map.show_cells(grid, (-1.0, 1.0))

    def _pointed(self, row: int, column: int) -> None:
        """Say what a cell is, and select its layer or head."""
        found = self._runs.shown
        if found is None:
            return
        self.says.setText(self.map.says(row, column))
        if found.grid == "heads":
            self._bench.selection.select_head(found.layers[row], found.columns[column])
        else:
            self._bench.selection.select_layer(found.layers[row])

    def _lay_out(self) -> None:
        named = {
            self.clean: tr("Prompt"),
            self.corrupt: tr("Other prompt"),
            self.right: tr("Right token"),
            self.wrong: tr("Wrong token"),
            self.grid: tr("Cells"),
            self.direction: tr("Direction"),
            self.kept: tr("Kept runs"),
            self.site: tr("Result"),
            self.chat: self.chat.text(),
        }
        for widget, name in named.items():
            widget.setAccessibleName(name)
        for field in (self.right, self.wrong):
            field.setPlaceholderText(tr("the likeliest"))
        for combo in (self.kept, self.site, self.grid, self.direction):
            combo.setSizeAdjustPolicy(NARROW)
            combo.setMinimumContentsLength(12)
        self.chat.setFixedHeight(fonts.row())
        self.map.setMinimumHeight(fonts.px(MAP))
        inside = QWidget()
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        for widget in (self.clean, self.corrupt, self.right, self.wrong, self.grid, self.direction):
            form.addRow(label(named[widget], "quiet"), widget)
        column = _column(inside, 0)
        buttons, results = Flow(tr("Start or stop")), Flow(tr("Kept result"))
        buttons.show_items([self.chat, self.begin, self.stop])
        results.show_items([self.delete, self.copy_json, self.copy_command])
        column.addWidget(label(NOTE, "quiet", wrap=True))
        column.addLayout(form)
        column.addWidget(self.foreseen)
        column.addWidget(buttons)
        column.addWidget(self.bar)
        column.addWidget(self.problem)
        column.addWidget(divider())
        for widget in (self.kept, results, self.title, self.site, self.map, self.says):
            column.addWidget(widget)
        column.addStretch(1)
        ends = QHBoxLayout()
        ends.addStretch(1)
        ends.addWidget(Button(tr("Close"), self.done.emit))
        around = _column(self, PADDING)
        around.addWidget(label(tr("Runs: patching maps"), size="strong"))
        around.addWidget(scrolled(inside, self), 1)
        around.addLayout(ends)
        self._show_result(None)


def _column(widget: QWidget, margin: int) -> QVBoxLayout:
    column = QVBoxLayout(widget)
    column.setContentsMargins(margin, margin, margin, margin)
    column.setSpacing(GRID)
    return column
