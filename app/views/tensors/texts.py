"""Two texts against each other: which two, how far each result is, by token as a picture."""

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QGridLayout, QProgressBar, QWidget

from app.language import tr
from app.state.tensors.comparison import TEXT
from app.state.tensors.numbers import Numbers
from app.state.tensors.texts import TextsState, error_map, largest_error, paired_key, texts_verdict
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_tone
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.layouts import SPARE, hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import UNKNOWN, small
from app.widgets.plots.cells import grid_of
from app.widgets.plots.heat_map import HeatMap
from engine.protocol import ComparedText, PairedResult, TokenPair

TYPED = tr("A text")
OTHER = "The capital of Italy is Rome. What do people eat there, and what do they read on Sundays?"
ABOUT = tr(
    "How far is what the model computes for one text from what it computes for another? Tokens are"
    " pairs from the start on as long as both are the same, then from the end back."
)
NO_MODEL = tr("Open a model to compare two texts.")
COMPARING = tr("Computing both texts …")
PICTURE = tr(
    "Each row is a result of the model, each column a pair of tokens. The colour is how far the two"
    " are apart: the squared difference relative to the result itself (NMSE). 1e-08 is nearly"
    " equal, 1 is as far as two unrelated results."
)
LEAST_MAP = 150
LEAST, MOST = -8.0, 1.0  # powers of ten that colours run between
NOT_THERE = tr("not computed for this token")
WHERE = 4  # the column of words
KEYS = tr("Enter shows the difference as numbers.")


def _least(value: float | None) -> float:
    return -1.0 if value is None else value


def _columns(state: TextsState) -> tuple[Column[PairedResult], ...]:
    def largest(row: PairedResult) -> float:
        found = largest_error(row)
        return -1.0 if found is None else found[0]

    def where(row: PairedResult) -> str:
        found, result = largest_error(row), state.result
        return UNKNOWN if found is None or result is None else pair_text(result.pairs[found[1]])

    def number(value: float | None, write: Callable[[float], str] = small) -> str:
        return UNKNOWN if value is None or value < 0 else write(value)

    kind = Column[PairedResult]
    return (
        kind(tr("Result"), paired_key, mono=True, whole=True),
        kind("NMSE", lambda r: number(r.error), lambda r: _least(r.error), right=True),
        kind(
            tr("Cosine"),
            lambda r: number(r.cosine, "{:.4f}".format),
            lambda r: _least(r.cosine),
            right=True,
        ),
        kind(tr("Largest"), lambda r: number(largest(r)), largest, right=True),
        kind(tr("At"), where),
        kind(tr("Device"), lambda r: r.device, mono=True, quiet=True),
    )


class TextChoice(QWidget):
    """A version of the open chat, or a text that is typed."""

    def __init__(self, state: TextsState, name: str, text: str) -> None:
        super().__init__()
        self._state = state
        self.which, self.typed = QComboBox(), GrowingEdit(name)
        self.which.setAccessibleName(tr("{name}, which one", name=name))
        self.typed.setProperty("plain", "false")
        self.typed.set_text(text)
        self.which.currentIndexChanged.connect(self._show)
        vbox((self.which, Qt.AlignmentFlag.AlignLeft), self.typed, on=self, spacing=GRID // 2)
        self.refresh()

    @property
    def text(self) -> ComparedText | None:
        """None where nothing is typed."""
        at = self.which.currentIndex()
        if at > 0:
            return self._state.versions()[at - 1].text
        return ComparedText(prompt=self.typed.text) if self.typed.text.strip() else None

    def refresh(self) -> None:
        """Offer what the open chat has by now."""
        titles = [TYPED, *(version.title for version in self._state.versions())]
        if titles != [self.which.itemText(at) for at in range(self.which.count())]:
            kept = self.which.currentText()
            self.which.clear()
            self.which.addItems(titles)
            self.which.setCurrentIndex(max(0, self.which.findText(kept)))
        self._show()

    def _show(self) -> None:
        self.typed.setVisible(self.which.currentIndex() <= 0)


class TextsPage(QWidget):
    """Shows `bench.texts`; a row that is chosen selects its operation, Enter its difference."""

    numbers_found = Signal(object)  # Numbers of a difference

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state, self._selection = bench.texts, bench.selection
        self._shown_result: object = None
        self.first = TextChoice(bench.texts, tr("First text"), TEXT)
        self.other = TextChoice(bench.texts, tr("Other text"), OTHER)
        self.caption = label(wrap=True)
        self.compare = Button(tr("Compare the texts"), self._start)
        self.stop = Button(
            tr("Cancel"), self._state.cancel, kind="flat", name=tr("Cancel comparing texts")
        )
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Comparing texts"))
        self.map = HeatMap(tr("Difference of results, by token"))
        self.map.pointed.connect(self._pointed)
        self.place = label(PICTURE, tone="quiet", size="small", wrap=True)
        self.table = Table(
            TableRows(_columns(bench.texts), self), tr("Results of two texts"), stretch=(4,)
        )
        self.table.picked.connect(self._pick)
        self.table.activated.connect(self._open)
        self._lay_out()
        for typed in (self.first.typed, self.other.typed):
            typed.submitted.connect(self._start)
        self._state.changed.connect(self._show)
        self._selection.changed.connect(self._follow)
        bench.session.changed.connect(self._show)
        for signal in (bench.chat.path_changed, bench.chat.message_added, bench.chat.opened):
            signal.connect(self._offer)
        self._bench = bench
        self._show()

    def _lay_out(self) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(GRID // 2)
        for row, (name, side) in enumerate(((tr("First"), self.first), (tr("Other"), self.other))):
            grid.addWidget(label(name, tone="quiet"), row, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(side, row, 1)
        grid.setColumnStretch(1, 1)
        buttons = hbox(self.compare, self.stop, (self.bar, 1), SPARE, spacing=GRID)
        self.map.setMinimumHeight(fonts.px(LEAST_MAP))
        vbox(
            grid, self.caption, buttons, (self.map, 2), self.place, (self.table, 3), SPARE, on=self
        )

    def _offer(self) -> None:
        self.first.refresh()
        self.other.refresh()

    def _start(self) -> None:
        text, other = self.first.text, self.other.text
        if text is None or other is None:
            self._say(tr("Type two texts, or choose a version of the chat."), "warn")
        else:
            self._state.start(text, other)

    def _show(self) -> None:
        state = self._state
        self._offer()
        text, tone = ABOUT, "quiet"
        if self._bench.session.model is None:
            text = NO_MODEL
        elif state.is_busy:
            text = COMPARING
        elif state.problem:
            text, tone = state.problem, "bad"
        elif state.result is not None:
            text, tone = f"{texts_verdict(state.result)} {KEYS}", ""
        self._say(text, tone)
        self.compare.setVisible(not state.is_busy)
        self.compare.setEnabled(state.can_start)
        self.stop.setVisible(state.is_busy)
        self.bar.setVisible(state.is_busy)
        self.bar.setRange(0, state.task.total)
        self.bar.setValue(state.task.done)
        for part in (self.map, self.place, self.table):
            part.setVisible(state.result is not None)
        if state.result is not self._shown_result:
            self._shown_result = state.result
            self._fill()

    def _say(self, text: str, tone: str) -> None:
        self.caption.setText(text)
        set_tone(self.caption, tone)

    def _fill(self) -> None:
        result = self._state.result
        if result is None:
            self.table.rows.show_rows(())
            self.map.show_cells([[]])
            return
        rows, pairs = result.rows, result.pairs
        self.table.rows.show_rows(rows)
        errors = error_map(result)
        powers = np.log10(np.clip(errors, 10.0**LEAST, None))
        powers[np.isnan(errors)] = LEAST - 1
        grid = grid_of(
            powers,
            row_title=tr("result"),
            row_name=lambda row: paired_key(rows[row]),
            column_title=tr("token"),
            column_name=lambda column: pair_text(pairs[column]),
            text=lambda value: (
                tr("NMSE {value:.2g}", value=10.0**value) if value >= LEAST else NOT_THERE
            ),
        )
        self.map.show_cells(grid, levels=(LEAST, MOST))
        self.place.setText(PICTURE)
        self._follow()

    def _pick(self, row: PairedResult) -> None:
        self._selection.select_operation(paired_key(row), row.layer, row.device)

    def _pointed(self, row: int, column: int) -> None:
        result = self._state.result
        if result is not None and row < len(result.rows) and column < len(result.pairs):
            self._pick(result.rows[row])
            self.place.setText(self.map.describe(row, column))

    def _open(self, row: PairedResult) -> None:
        self._say(
            tr("Computing the difference of {paired_key} …", paired_key=paired_key(row)), "quiet"
        )
        self._state.read(row, self._found, lambda problem: self._say(problem, "bad"))

    def _found(self, numbers: Numbers) -> None:
        self._show()
        self.numbers_found.emit(numbers)

    def _follow(self) -> None:
        """The row of the operation that is selected, wherever that was done."""
        named, result = self._selection.now.operation, self._state.result
        self.table.choose_first(lambda row: paired_key(row) == named)
        if result is not None:
            at = next((n for n, r in enumerate(result.rows) if paired_key(r) == named), None)
            self.map.frame_row(at)


def pair_text(pair: TokenPair) -> str:
    """Where it is in the first text, and what it says in both."""
    both = " / ".join(f"“{text}”" for text in dict.fromkeys((pair.text, pair.other_text)))
    return f"{pair.place} {both}"
