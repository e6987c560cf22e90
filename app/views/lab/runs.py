"""Runs: maps, measurements and recordings are foreseen, started and stopped; kept ones opened."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import TypeVar

import msgspec
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QProgressBar, QWidget

from app.language import tr
from app.state.talk.disk.run_rows import RunResult
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import undressed
from app.theme.tokens import PADDING
from app.views.lab.features import FeaturesForm, FeaturesResult
from app.views.lab.fields import form_of
from app.views.lab.map import MapForm, MapResult
from app.views.lab.quality import QualityForm, QualityResult
from app.views.lab.record import RecordForm, RecordResult
from app.widgets.basics import TEXT_SIZE, Button, label, scrolled, set_beside
from app.widgets.controls.flow import Flow
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.tips import plain_tip
from engine.protocol import FeaturesFound, PatchesMapped, QualityMeasured

SHORT = 20  # characters of a kept run
WIDE = 900  # pixels from which on form and result are beside each other
FORM, RESULT = 4, 5  # their shares of the width
Result = TypeVar("Result", bound=QWidget)


class RunsView(QWidget):
    """A form of one kind, how far the run is, and the result that is looked at."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Runs"))
        self._bench, self._runs = bench, bench.runs
        self._shown: object = None
        self.map_form, self.quality_form = MapForm(bench), QualityForm(bench)
        self.record_form, self.features_form = RecordForm(bench), FeaturesForm(bench)
        self.forms = (self.map_form, self.quality_form, self.record_form, self.features_form)
        self.kind = QComboBox()
        for form in self.forms:
            self.kind.addItem(form.title)
        self.note, self.foreseen = (label("", "quiet", wrap=True) for _ in range(2))
        self.begin = Button(tr("Start"), self._start, kind="primary")
        self.stop = Button(tr("Stop"), self._runs.stop)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Progress of the run"))
        self.problem = label("", "bad", wrap=True)
        self.kept = QComboBox()
        self.delete = Button(tr("Delete"), self._delete)
        self.copy_json = Button(tr("Copy as JSON"), self._copy_json)
        self.none = label(tr("The result of the run appears here."), "quiet", wrap=True)
        self.copy_command = Button(tr("Copy the command"), self._copy_command)
        self._results = vbox()
        self._result: QWidget | None = None
        self._lay_out()
        self.setFocusProxy(self.kind)
        self.kind.currentIndexChanged.connect(self._show_kind)
        for form in self.forms:
            form.changed.connect(self._foresee)
        self.kept.activated.connect(self._open)
        self._runs.changed.connect(self._show)
        bench.session.changed.connect(self._foresee)
        self._show_result(None)
        self._show_kind()

    @cached_property
    def map(self) -> MapResult:
        """Shows a map; it is made for the first one, as those of other results are."""
        made = self._placed(lambda: MapResult(self._bench))
        made.opened.connect(self.done)
        return made

    @cached_property
    def quality(self) -> QualityResult:
        """Shows a measurement of quality."""
        return self._placed(QualityResult)

    @cached_property
    def recording(self) -> RecordResult:
        """Shows a recording."""
        return self._placed(RecordResult)

    @cached_property
    def features(self) -> FeaturesResult:
        """Shows features."""
        return self._placed(lambda: FeaturesResult(self._bench))

    def _placed(self, make: Callable[[], Result]) -> Result:
        with undressed():
            made = make()
            made.hide()
            self._results.addWidget(made)
        return made

    @property
    def form(self) -> MapForm | QualityForm | RecordForm | FeaturesForm:
        """The form that is shown."""
        return self.forms[self.kind.currentIndex()]

    def refresh(self) -> None:
        """List the kept runs; fill in what is empty."""
        for form in self.forms:
            form.refresh()
        self._runs.refresh()
        self._foresee()

    def _start(self) -> None:
        form = self.form
        word = form.about_word if isinstance(form, MapForm) else None
        self._runs.start(form.request, word)

    def show_word(self) -> None:
        """Describe the map of the word whose causes are looked for."""
        begun = self._bench.causes.begun
        if begun is not None:
            self.kind.setCurrentIndex(self.forms.index(self.map_form))
            self.map_form.show_word(begun, self._bench.causes.grid)

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
        QGuiApplication.clipboard().setText(self.form.command)

    def _show_kind(self) -> None:
        for form in self.forms:
            form.setVisible(form is self.form)
        self.note.setText(self.form.note)
        self._foresee()

    def _foresee(self) -> None:
        """Show the cost of the run, and whether it can be started."""
        self.foreseen.setText(self.form.foreseen)
        self._show()

    def _show(self) -> None:
        runs = self._runs
        done, total = runs.progress
        self.bar.setVisible(runs.running)
        self.bar.setRange(0, total)
        self.bar.setValue(done)
        self.begin.setEnabled(self.form.is_ready and not runs.running)
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

    def _show_result(self, found: RunResult | None) -> None:
        self.copy_json.setVisible(found is not None)
        self.none.setVisible(found is None)
        if self._result is not None:
            self._result.hide()
            self._result = None
        if isinstance(found, PatchesMapped):
            self.map.show_result(found)
            self._result = self.map
        elif isinstance(found, QualityMeasured):
            self.quality.show_result(found)
            self._result = self.quality
        elif isinstance(found, FeaturesFound):
            self.features.show_result(found)
            self._result = self.features
        elif found is not None:
            self.recording.show_result(found)
            self._result = self.recording
        if self._result is not None:
            self._result.show()

    def _lay_out(self) -> None:
        inside, form, results = QWidget(), QWidget(), QWidget()
        buttons, of_kept = Flow(tr("Start or stop")), Flow(tr("Kept result"))
        buttons.show_items([self.begin, self.stop, self.copy_command])
        of_kept.show_items([self.delete, self.copy_json])
        kind, kept = form_of((tr("Kind of run"), self.kind)), form_of((tr("Kept runs"), self.kept))
        below = (self.foreseen, buttons, self.bar, self.problem, STRETCH)
        vbox(kind, self.note, *self.forms, *below, on=form)
        vbox(kept, of_kept, self.none, self._results, STRETCH, on=results)
        self._sides = QBoxLayout(QBoxLayout.Direction.TopToBottom, inside)
        self._sides.setContentsMargins(0, 0, 0, 0)
        self._sides.setSpacing(2 * PADDING)
        self._sides.addWidget(form, FORM)
        self._sides.addWidget(results, RESULT)
        ends = hbox(STRETCH, Button(tr("Close"), self.done.emit))
        vbox(
            label(tr("Runs"), size="strong"),
            (scrolled(inside, self), 1),
            ends,
            on=self,
            margins=PADDING,
        )

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._arrange()

    def _arrange(self) -> None:
        """The result at the right of the form where there is room for both."""
        set_beside(self._sides, self.width() >= fonts.px(WIDE))
