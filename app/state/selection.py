"""The one selection that all views share."""

import re
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

LONGEST_PAST = 100
_OF_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True)
class Selected:
    """What is looked at; None where nothing is.

    `token` is (message id, index), `layer` counts from 0 with the output block after the last,
    `split` is the place of a split in the step, `component` lies on `device`.
    """

    token: tuple[int, int] | None = None
    layer: int | None = None
    split: int | None = None
    device: str | None = None
    component: str | None = None
    tensor: str | None = None


class Selection(QObject):
    """A token of the talk, and a place inside the model; a new place takes that of the old.

    Its past is kept for Alt+Left and Alt+Right.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now = Selected()
        self._past: list[Selected] = []
        self._future: list[Selected] = []

    def select_token(self, message: int, index: int) -> None:
        self._go(replace(self.now, token=(message, index)))

    def select_layer(self, layer: int | None) -> None:
        self._go(Selected(self.now.token, layer=layer))

    def select_tensor(self, name: str, layer: int | None) -> None:
        self._go(Selected(self.now.token, layer=layer, tensor=name))

    def select_device(self, device: str, component: str | None = None) -> None:
        """All of a device, or one component on it, whatever the layer."""
        self._go(Selected(self.now.token, device=device, component=component))

    def select_cell(self, layer: int | None, device: str, component: str) -> None:
        """One component of one layer on one device."""
        self._go(Selected(self.now.token, layer=layer, device=device, component=component))

    def select_split(self, split: int, device: str) -> None:
        self._go(Selected(self.now.token, split=split, device=device))

    def clear(self) -> None:
        """Look at nothing."""
        self._go(Selected())

    def forget(self) -> None:
        """Look at nothing, and know no past: what was selected is no more."""
        self._past, self._future = [], []
        if self.now != Selected():
            self.now = Selected()
            self.changed.emit()

    @property
    def has_past(self) -> bool:
        return bool(self._past)

    @property
    def has_future(self) -> bool:
        return bool(self._future)

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


def layer_of(tensor: str, n_layer: int) -> int | None:
    """The layer a tensor of the file belongs to; the output block is layer `n_layer`."""
    found = _OF_LAYER.match(tensor)
    if found is not None:
        return int(found[1])
    return n_layer if n_layer and tensor.startswith("output") else None
