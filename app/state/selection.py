"""The one selection that all views share."""

from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Signal

LONGEST_PAST = 100


@dataclass(frozen=True)
class Selected:
    """What is looked at; None where nothing is. `token` is (message id, index)."""

    device: str | None = None
    component: str | None = None
    layer: int | None = None
    tensor: str | None = None
    token: tuple[int, int] | None = None


class Selection(QObject):
    """The selection, with its past (Alt+Left, Alt+Right)."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now = Selected()
        self._past: list[Selected] = []
        self._future: list[Selected] = []

    def select(self, **fields: Any) -> None:
        """Change the named fields, keep the others."""
        self._go(replace(self.now, **fields))

    def clear(self) -> None:
        """Look at nothing."""
        self._go(Selected())

    def back(self) -> None:
        """What was selected before."""
        if self._past:
            self._future.append(self.now)
            self.now = self._past.pop()
            self.changed.emit()

    def forward(self) -> None:
        """What was selected before `back`."""
        if self._future:
            self._past.append(self.now)
            self.now = self._future.pop()
            self.changed.emit()

    def _go(self, selected: Selected) -> None:
        if selected != self.now:
            self._past = [*self._past, self.now][-LONGEST_PAST:]
            self._future.clear()
            self.now = selected
            self.changed.emit()
