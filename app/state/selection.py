"""The one selection that all views share."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


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

    now: Selected

    def select(self, **fields: object) -> None:
        """Change the named fields, keep the others."""

    def clear(self) -> None: ...
    def back(self) -> None: ...
    def forward(self) -> None: ...
