"""What a pin would change, and whether to have it."""

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.state.graph.difference import GraphChange
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.graph.pinning import pin_menu
from app.widgets.basics import Button, label, surface
from app.widgets.numbers import kib

SHOWN = 3  # names of nodes that move


class PinOffer(QWidget):
    """Shown while a pin is tried; nothing has happened yet."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self._state = bench, bench.graph
        surface(self, "canvas")
        self.says = label(wrap=True)
        self.apply = Button("Apply and reload", self._apply, "primary")
        self.drop = Button("Cancel", self._state.drop_pin)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, GRID // 2, GRID, GRID // 2)
        row.setSpacing(GRID)
        row.addWidget(self.says, 1)
        row.addWidget(self.apply)
        row.addWidget(self.drop)
        self.hide()
        self._state.changed.connect(self._refresh)

    def choose(self, number: int, place: QPoint) -> None:
        """Offer the devices that a node of the graph can be pinned to, at a place of the screen."""
        index = self._state.indices.get(self._state.phases[0])
        if index is not None and self._state.shows == "operations":
            pin_menu(self._state, index.graph.nodes[number], self).popup(place)

    def _refresh(self) -> None:
        pin, change = self._state.pin, self._state.change()
        self.setVisible(pin is not None)
        if pin is not None:
            self.says.setText(sentence(pin, change))
            self.apply.setEnabled(change is not None)

    def _apply(self) -> None:
        path = self._bench.session.path
        if path is not None:
            self._state.apply_pin(lambda options: self._bench.open_model(path, options))


def sentence(pin: tuple[str, str | None], change: GraphChange | None) -> str:
    """What would change, with the numbers before and after."""
    name, device = pin
    what = f"With {name} on {device}" if device is not None else f"Without the pin of {name}"
    if change is None:
        return f"{what}: planning…"
    names = ", ".join(change.moved[:SHOWN]) or "nothing"
    if len(change.moved) > SHOWN:
        names += f" and {len(change.moved) - SHOWN} more"
    before, after = change.splits
    copied = f"{kib(change.copied[0])} to {kib(change.copied[1])} KiB"
    return (
        f"{what}: {names} would move; splits {before} to {after},"
        f" copied between devices {copied} for each step."
    )
