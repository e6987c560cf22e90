"""Pinned probes as a strip: a column a token, a row a result."""

from PySide6.QtWidgets import QComboBox, QLineEdit, QWidget

from app.language import tr
from app.state.selection import Selection
from app.state.tensors.probes import USUAL, ProbedColumn, ProbesState
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_tone
from app.widgets.layouts import hbox, vbox
from app.widgets.plots.cells import number_text
from app.widgets.plots.heat_map import Strip

ABOUT = tr(
    "Follows results of the model token by token during an answer: how large their"
    " numbers are. Names are given as a regular expression: l_out-\\d+ is the output of every layer"
    " (l_out-0, l_out-1, …), attn_out-\\d+ that of its attention, ffn_out-\\d+ that of its"
    " feed-forward. Answers are some 4 % slower while this is shown."
)
EXAMPLE = tr(r"Result names; default l_out-\d+, the output of every layer")


class ProbesPage(QWidget):
    """Shows `bench.probes`; a place of the strip selects its result and its token."""

    def __init__(self, state: ProbesState, selection: Selection) -> None:
        super().__init__()
        self._state, self._selection = state, selection
        self.pattern = QLineEdit("" if state.pattern == USUAL else state.pattern)
        self.pattern.setPlaceholderText(EXAMPLE)
        self.pattern.setAccessibleName(tr("Results to probe (regular expression)"))
        self.pattern.returnPressed.connect(self._pin)
        self.switch = Button(tr("Pin"), self._switch)
        self.what = QComboBox()
        self.what.setAccessibleName(tr("Colour scale"))
        self.what.addItems([tr("Root mean square"), tr("Largest value")])
        self.what.currentIndexChanged.connect(self._begin)
        self.strip = Strip(tr("Probed results by token"), row_title=tr("result"))
        self.strip.pointed.connect(self._pointed)
        self.caption = label(ABOUT, tone="quiet", size="small", wrap=True)
        line = hbox((self.pattern, 1), self.switch, spacing=GRID)
        vbox(line, self.what, (self.strip, 1), self.caption, on=self)
        state.changed.connect(self._show)
        state.begun.connect(self._begin)
        state.arrived.connect(self._add)
        self._begin()
        self._show()

    def _switch(self) -> None:
        if self._state.pinned:
            self._state.unpin()
        else:
            self._pin()

    def _pin(self) -> None:
        self._state.pin(self.pattern.text().strip() or USUAL)

    def _show(self) -> None:
        state = self._state
        self.switch.set_text(tr("Unpin") if state.pinned else tr("Pin"))
        set_tone(self.caption, "bad" if state.problem else "quiet")
        self.caption.setText(state.problem or ABOUT)

    def _begin(self) -> None:
        self.strip.begin(self._state.rows)
        self._add(list(self._state.columns))

    def _add(self, columns: list[ProbedColumn]) -> None:
        for column in columns:
            self.strip.append(column.largest if self.what.currentIndex() else column.rms)

    def _pointed(self, row: int, column: int) -> None:
        state = self._state
        if row < len(state.rows) and column < len(state.columns):
            at = state.columns[column]
            self._selection.select_operation(state.rows[row], state.layers[row], token=at.word)
            set_tone(self.caption, "quiet")
            self.caption.setText(
                tr(
                    "{rows}: root mean square {rms}, largest {largest} in channel {at}",
                    rows=state.rows[row],
                    rms=number_text(float(at.rms[row])),
                    largest=number_text(float(at.largest[row])),
                    at=int(at.at[row]),
                )
            )
