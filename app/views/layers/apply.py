"""Whether a placement fits, and the button that puts it into effect."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QSizePolicy, QVBoxLayout, QWidget

from app.state.layers.layers import LayersState
from app.state.layers.words import short_lane
from app.theme.devices import lettered
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_tone
from app.widgets.tips import set_tip


class ApplyBar(QWidget):
    """Says in words what the lanes show, and why the button cannot be pressed where it cannot."""

    def __init__(self, state: LayersState) -> None:
        super().__init__()
        self._state = state
        self.says = label(wrap=True)
        self.says.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress of the move")
        self.cancel = Button("Cancel", state.applying.cancel)
        self.button = Button("Apply", state.apply, "primary")
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self.says, 1)
        row.addWidget(self.cancel, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(self.bar)
        column.addLayout(row)

    def refresh(self) -> None:
        state, applying = self._state, self._state.applying
        text, tone = self._verdict()
        self.says.setText(text)
        set_tone(self.says, tone)
        self.bar.setVisible(applying.is_busy)
        self.bar.setRange(0, 1000 if applying.task.total else 0)  # bytes, beyond what Qt counts to
        self.bar.setValue(1000 * applying.task.done // max(1, applying.task.total))
        self.cancel.setVisible(applying.is_busy)
        moves = state.file is None or (state.file.is_open and not applying.needs_load)
        self.button.set_text("Apply" if moves else "Load")
        blocked = state.blocked()
        self.button.setEnabled(not blocked)
        set_tip(self.button, blocked or "Ctrl+Enter")

    def tell(self, text: str) -> None:
        """Something else, until the placement changes."""
        self.says.setText(text)
        set_tone(self.says, "quiet")

    def _verdict(self) -> tuple[str, str]:
        state, applying = self._state, self._state.applying
        short = [short_lane(lane, lettered) for lane in state.lanes() if lane.over]
        if applying.is_busy:
            return "Uploading moved tensors …", "quiet"
        if applying.result:
            return applying.result, "bad" if applying.failed else "good"
        if state.problem or state.measuring.problem:
            return state.problem or state.measuring.problem, "bad"
        if short:
            return f"It does not fit: {', '.join(short)}. Move layers to another device.", "bad"
        if state.answer is not None and state.answer.problem:
            return f"It does not fit: {state.answer.problem}", "bad"
        if state.pending:
            return "Estimating memory …", "quiet"
        blocked = state.blocked()
        return f"It fits. {blocked}".strip(), "quiet" if blocked else "good"
