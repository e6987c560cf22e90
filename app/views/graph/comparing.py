"""A comparison with the host: its button, how far it is, and what came of it in words."""

from PySide6.QtWidgets import QProgressBar, QWidget

from app.language import tr
from app.state.graph.overlay import result_key
from app.state.tensors.comparison import verdict
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_tone
from app.widgets.layouts import SPARE, hbox, vbox

ABOUT = tr(
    "The host recomputes each operation from the device's inputs."
    " The next answer reads its whole prompt again."
)
COMPARING = tr("Comparing with the host …")
NO_MODEL = tr("Open a model to compare it with the host.")


class CompareBar(QWidget):
    """Shows `bench.comparison`."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self._state = bench, bench.comparison
        self.caption = label(wrap=True)
        self.compare = Button(tr("Compare with the host"), self._state.start)
        self.stop = Button(
            tr("Cancel"), self._state.cancel, kind="flat", name=tr("Cancel the comparison")
        )
        self.go = Button(
            tr("Show the result"), self.go_to_first, name=tr("Show the first mismatch")
        )
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Comparing with the host"))
        row = hbox(self.compare, self.stop, self.go, (self.bar, 1), SPARE, spacing=GRID)
        vbox(self.caption, row, on=self, spacing=GRID // 2)
        self._state.changed.connect(self._refresh)
        bench.session.changed.connect(self._refresh)
        self._refresh()

    def go_to_first(self) -> None:
        """Select the first result that deviates."""
        first = self._state.first
        if first is not None:
            self._bench.selection.select_operation(result_key(first), first.layer, first.device)

    def _refresh(self) -> None:
        state = self._state
        text, tone = ABOUT, "quiet"
        if self._bench.session.model is None:
            text = NO_MODEL
        elif state.is_busy:
            text = COMPARING
        elif state.problem:
            text, tone = state.problem, "bad"
        elif state.result is not None:
            text, tone = verdict(state.result), "bad" if state.first is not None else "good"
        self.caption.setText(text)
        set_tone(self.caption, tone)
        self.compare.setVisible(not state.is_busy)
        self.compare.setEnabled(state.can_start)
        self.stop.setVisible(state.is_busy)
        self.go.setVisible(state.first is not None and not state.is_busy)
        self.bar.setVisible(state.is_busy)
        self.bar.setRange(0, state.task.total)
        self.bar.setValue(state.task.done)
