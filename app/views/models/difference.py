"""Differences between the open file and another."""

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QVBoxLayout, QWidget

from app.state.models.model import Difference, ModelState
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, label, set_tone
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped

TONES = {"only A": "warn", "only B": "good", "changed": "link"}
COLUMNS = (
    Column[Difference]("Where", lambda d: d.where, tone=lambda d: TONES[d.where]),
    Column[Difference]("Kind", lambda d: d.kind, quiet=True),
    Column[Difference]("Name", lambda d: d.name, mono=True),
    Column[Difference]("A", lambda d: " ".join(d.a.split())),
    Column[Difference]("B", lambda d: " ".join(d.b.split())),
)


class DifferencePage(QWidget):
    """Choose a file; keys and tensors that are not the same in both."""

    def __init__(self, state: ModelState) -> None:
        super().__init__()
        self._state = state
        self._says = label(tone="quiet", wrap=True)
        self.choose = Button("Compare with…", self._choose, picture="compare")
        self.table = Table(TableRows(COLUMNS, self), "Differences", stretch=(3, 4))
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self._says, 1)
        row.addWidget(self.choose)
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, 12, PADDING, PADDING)
        column.setSpacing(GRID)
        column.addLayout(row)
        column.addWidget(self.table, 1)
        column.addStretch(0)
        state.difference_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        state = self._state
        set_tone(self._says, "bad" if state.difference_problem else "quiet")
        if state.difference_problem:
            text = state.difference_problem
        elif state.other is None:
            text = "Choose another file to see which keys and tensors differ from this one."
        else:
            count = len(state.differences)
            name = Path(state.other.path).name
            text = f"{grouped(count) if count else 'No'} differences. B is {name}."
        self._says.setText(text)
        self.table.setVisible(state.other is not None)
        self.table.rows.show_rows(state.differences)

    def _choose(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Compare with", "", "Models (*.gguf)")
        if path:
            self._state.compare(Path(path))
