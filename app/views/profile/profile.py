"""Where an answer's time went: recorded on demand, over time, summed, under the roof, compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QStackedWidget, QWidget

from app.files import write_named
from app.language import tr
from app.state.profile.recorded import (
    PHASES,
    By,
    RecordedAnswer,
    TimeDifference,
    Total,
    as_json,
    chrome_trace,
    differences,
    layer_of_node,
    summary,
)
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.profile.roofline import Roofline
from app.views.profile.time_line import TimeLine
from app.widgets.basics import Button, IconButton, label, scrolled
from app.widgets.controls.fitted_tabs import FittedTabs
from app.widgets.file_dialogs import save_file
from app.widgets.layouts import SPARE, hbox, vbox
from app.widgets.lists.rows import Column, ReportTable, TableRows, ViewReport, table_of
from app.widgets.lists.table import Table
from app.widgets.numbers import UNKNOWN, grouped
from app.work import Work
from engine.protocol import Phase

Row = tuple[Total, int, int]  # with the phase's tokens, and the nanoseconds of all groups


def _rate(value: float) -> str:
    """In billions per second; a dash where there is nothing to be read or computed."""
    return f"{value / 1e9:.1f}" if value else UNKNOWN


def _number(title: str, value: Callable[[Row], float], text: Callable[[float], str]) -> Column[Row]:
    return Column(title, lambda row: text(value(row)), value, right=True)


TOTALS = (
    Column[Row](tr("Name"), lambda row: row[0].name, mono=True),
    _number(tr("Launches"), lambda row: row[0].count, lambda n: grouped(int(n))),
    _number("ms/token", lambda row: row[0].ns / max(row[1], 1) / 1e6, lambda ms: f"{ms:.4f}"),
    _number("%", lambda row: 100 * row[0].ns / max(row[2], 1), lambda part: f"{part:.1f}"),
    _number("GB/s", lambda row: row[0].bytes_per_s, _rate),
    _number("GFLOP/s", lambda row: row[0].flops_per_s, _rate),
)


def _ms(ns: float | None) -> str:
    return UNKNOWN if ns is None else f"{ns / 1e6:.4f}"


def _tone(row: TimeDifference) -> str:
    change = row.change or 0.0
    if abs(change) < 1e3:  # below a microsecond per token it is noise
        return "quiet"
    return "bad" if change > 0 else "good"


DIFFERENCES = (
    Column[TimeDifference](tr("Name"), lambda row: row.name, mono=True),
    Column[TimeDifference](
        tr("before ms"), lambda row: _ms(row.before), lambda row: row.before or 0, right=True
    ),
    Column[TimeDifference](
        tr("after ms"), lambda row: _ms(row.after), lambda row: row.after or 0, right=True
    ),
    Column[TimeDifference](
        tr("change ms"),
        lambda row: f"{(row.change or 0) / 1e6:+.4f}",
        lambda row: row.change or 0,
        right=True,
        tone=_tone,
    ),
)


def _sums(answer: RecordedAnswer, by: By, phase: Phase) -> ReportTable:
    totals, tokens = answer.totals(by, phase), answer.n_tokens(phase)
    whole = sum(total.ns for total in totals)
    rows: list[Row] = [(total, tokens, whole) for total in totals]
    return table_of(tr("{phases} by {by}", phases=PHASES[phase], by=by), TOTALS, rows)


TRACE = tr("Chrome trace (*.json)")


class Saving(QObject):
    """Asks the person for a name and writes in a thread; `described` carries the result."""

    described = Signal(str)

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view = view

    def trace(self, answer: RecordedAnswer) -> None:
        """For Perfetto or chrome://tracing."""
        named = "answer.trace.json"
        chosen, _ = save_file(self._view, tr("Save the recording"), named, TRACE)
        if chosen:
            self.described.emit(tr("Saving …"))
            Work(write_trace, Path(chosen), answer).then(self._saved).fail(
                self.described.emit
            ).start(self)

    def _saved(self, path: Path) -> None:
        self.described.emit(tr("Saved {name} in {parent}.", name=path.name, parent=path.parent))


def write_trace(path: Path, answer: RecordedAnswer) -> Path:
    """Returns what was written. Raises CutawayError where it cannot be."""
    write_named(path, json.dumps(chrome_trace(answer)).encode())
    return path


BY: tuple[By, ...] = get_args(By)
ACROSS = 360  # pixels at normal text: narrower, the button goes below the choices
EMPTY = tr(
    "Record an answer to see where its time goes: each launch on each device, sums by operation, "
    "layer and kernel, and what the kernels reach of what the devices can do."
)
ALONE = tr(
    "Record a second answer, with another placement for instance, to compare it with this one."
)
WAITING = tr("The next answer will be recorded. Send a message.")


class ProfileView(QWidget):
    """Shows `bench.profile`; a launch selects its operation, and what is selected is shown."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self._state = bench, bench.profile
        self._is_showing = False
        self.saving = Saving(self)
        self.record = Button(tr("Record the next answer"), self._record, "primary")
        self.time_line, self.roofline = TimeLine(), Roofline(self._state)
        self.totals = Table(TableRows(TOTALS, self), tr("Sums"), stretch=(0,))
        self.differences = Table(TableRows(DIFFERENCES, self), tr("Differences"), stretch=(0,))
        self.alone = label(ALONE, tone="quiet", wrap=True)
        self.pages = QStackedWidget()
        self.tabs = FittedTabs(tr("Views of the recorded answer"))
        self._lay_out()
        self._empty_caption = label(EMPTY, tone="quiet", wrap=True)
        self.record_empty = Button(tr("Record the next answer"), self._record, "primary")
        self._place()
        self.time_line.launch_pointed.connect(self._select_launch)
        self.totals.picked.connect(lambda row: self._select_total(row[0].name))
        self.differences.picked.connect(lambda row: self._select_total(row.name))
        self.roofline.kernel_pointed.connect(lambda name: self._select_longest("kernel", name))
        for box in (self.phase, self.by):
            box.currentIndexChanged.connect(self.refresh)
        self.tabs.currentChanged.connect(self._tab_changed)
        self._state.changed.connect(self.refresh)
        self.saving.described.connect(self.status.setText)
        bench.selection.changed.connect(self._show_selected)
        self.refresh()

    @property
    def shown_phase(self) -> Phase:
        phase: Phase = self.phase.currentData()
        return phase

    def refresh(self) -> None:
        """Show what is recorded."""
        state, answer = self._state, self._state.latest
        words = tr("Stop recording") if state.recording else tr("Record the next answer")
        for button in (self.record, self.record_empty):
            button.set_text(words)
        self._scroll.setVisible(answer is not None)
        self._empty.setVisible(answer is None)
        self._empty_caption.setText(WAITING if state.recording else EMPTY)
        sentences = summary(answer) if answer is not None else []
        self.status.setText(" ".join([*sentences, *([WAITING] if state.recording else [])]))
        if answer is None:
            return
        if not answer.n_steps(self.shown_phase):
            other = next(phase for phase in PHASES if answer.n_steps(phase))
            self.phase.setCurrentIndex(self.phase.findData(other))
        phase = self.shown_phase
        self._is_showing = True
        self.time_line.show_answer(answer, phase)
        self._show_tables(answer, phase)
        self.roofline.show_answer(answer, phase)
        self._is_showing = False
        self._show_selected()

    def _show_tables(self, answer: RecordedAnswer, phase: Phase) -> None:
        by: By = self.by.currentData()
        totals, tokens = answer.totals(by, phase), answer.n_tokens(phase)
        whole = sum(total.ns for total in totals)
        rows: list[Row] = [(total, tokens, whole) for total in totals]
        self.totals.rows.show_rows(rows)
        before = self._state.before
        found: list[TimeDifference] = []
        if before is not None and before.n_steps(phase):
            found = differences(before, answer, by, phase)
        self.differences.rows.show_rows(found)
        self.differences.setVisible(bool(found))
        self.alone.setVisible(not found)

    # Selection

    def _select_launch(self, launch: int) -> None:
        answer = self._state.latest
        if answer is not None and not self._is_showing:
            kind = answer.kind(launch)
            phase = answer.record.steps[int(answer.steps_of[launch])].phase
            place = answer.place_in_step(launch)
            key = self._bench.graph.key_of_launch(phase, place, kind.name)
            layer = layer_of_node(kind.name)
            self._bench.selection.select_operation(key, layer, kind.device)

    def _select_total(self, name: str) -> None:
        by: By = self.by.currentData()
        if by == "device":
            self._bench.selection.select_device(name)
        elif by == "layer" and name.startswith("layer "):
            self._bench.selection.select_layer(int(name.removeprefix("layer ")))
        else:
            self._select_longest(by, name)

    def _select_longest(self, by: By, name: str) -> None:
        """Select the longest launch of a group."""
        answer = self._state.latest
        if answer is not None:
            found = answer.longest(by, name, self.shown_phase)
            if found is not None:
                self._select_launch(found)

    def _show_selected(self) -> None:
        """Put the cursor of the time line on the operation, or on the first of the layer, and that
        of the tables and the roofline on the group it is counted in.
        """
        answer, now = self._state.latest, self._bench.selection.now
        if answer is None or self._is_showing:
            return
        at = self.time_line.launch_at()
        found = answer.find(now.operation, now.layer, now.device, self.shown_phase, at)
        if found is None:
            self.time_line.show_nothing()
            return
        self._is_showing = True
        self.time_line.show_launch(found)
        by: By = self.by.currentData()
        if by == "device" or now.operation is not None or (by == "layer" and now.layer is not None):
            name = answer.group(by, found)
            self.totals.choose_first(lambda row: row[0].name == name)
            self.differences.choose_first(lambda row: row.name == name)
        if now.operation is not None:
            self.roofline.show_kernel(answer.group("kernel", found))
        self._is_showing = False

    def _save(self) -> None:
        if self._state.latest is not None:
            self.saving.trace(self._state.latest)

    def _record(self) -> None:
        self._state.record(not self._state.recording)

    def _tab_changed(self, at: int) -> None:
        self.pages.setCurrentIndex(at)
        self.by.setVisible(self.pages.widget(at) in (self._sums, self._compared))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        across = self.width() >= fonts.px(ACROSS)
        way = QBoxLayout.Direction.LeftToRight if across else QBoxLayout.Direction.TopToBottom
        self._second.setDirection(way)

    # Parts

    def _lay_out(self) -> None:
        self.phase, self.by = QComboBox(), QComboBox()
        self.phase.setAccessibleName(tr("Part of the answer"))
        for phase in reversed(PHASES):
            self.phase.addItem(PHASES[phase], phase)
        self.by.setAccessibleName(tr("Sums by"))
        for by in BY:
            self.by.addItem(tr("by {by}", by=by), by)
        self.tabs.setProperty("level", "second")
        self._sums, self._compared = _page(self.totals), _page(self.alone, self.differences)
        for title, page in (
            (tr("Time line"), self.time_line),
            (tr("Sums"), self._sums),
            (tr("Roofline"), self.roofline),
            (tr("Compare"), self._compared),
        ):
            self.tabs.put(title)
            self.pages.addWidget(page)
        self.by.hide()

    def _place(self) -> None:
        self.status = label(tone="quiet", size="small", wrap=True)
        first = hbox(
            (self.tabs, 1),
            IconButton("download", tr("Save the recording as a Chrome trace (JSON)"), self._save),
            spacing=GRID,
        )
        self._second = second = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        second.setSpacing(GRID)
        second.addWidget(self.phase)
        second.addWidget(self.by)
        second.addStretch(1)
        second.addWidget(self.record)
        self._body, self._empty = QWidget(), QWidget()
        vbox(first, second, self.status, (self.pages, 1), on=self._body)
        empty = vbox(on=self._empty)
        empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        empty.addWidget(self._empty_caption)
        empty.addWidget(self.record_empty, 0, Qt.AlignmentFlag.AlignLeft)
        self._scroll = scrolled(self._body)
        vbox((self._scroll, 1), self._empty, SPARE, on=self, margins=PADDING, spacing=6)


def _page(*widgets: QWidget) -> QWidget:
    page = QWidget()
    column = vbox(on=page, spacing=6)
    for widget in widgets:
        column.addWidget(widget)
    return page


def profile_report(bench: Workbench, view: ProfileView) -> ViewReport:
    """Sums by operation, kernel, layer and device, of the prompt and of the answer; as data every
    launch of the recordings that are kept.
    """
    answer = bench.profile.latest
    if answer is None:
        return ViewReport([tr("No answer is recorded.")])
    phases = [phase for phase in PHASES if answer.n_steps(phase)]
    tables = [_sums(answer, by, phase) for phase in phases for by in get_args(By)]
    kept = [one for one in (bench.profile.before, answer) if one is not None]
    return ViewReport([" ".join(summary(answer))], tables, lambda: as_json(kept))
