"""What a pin would change, and whether to have it."""

from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QWidget

from app.language import tr
from app.state.graph.difference import GraphChange
from app.state.graph.graph import GraphState
from app.state.graph.scene import can_pin, pinned
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_tone, surface
from app.widgets.layouts import hbox
from app.widgets.numbers import kib
from engine.protocol import GraphNode


def pin_menu(state: GraphState, node: GraphNode, parent: QWidget) -> QMenu:
    """A choice is only tried: the state shows what it would change."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if not can_pin(node):
        why = tr("it is a view") if node.role == "view" else tr("it has no name of its own")
        menu.addAction(tr("Cannot be pinned: {why}", why=why)).setEnabled(False)
        return menu
    own = pinned(state.rule, node.name)
    if not state.devices:
        menu.addAction(tr("The devices are not known yet")).setEnabled(False)
    for device in state.devices:
        action = menu.addAction(tr("Pin {name} to {device}…", name=node.name, device=device))
        action.setCheckable(True)
        action.setChecked(device == own)
        action.setEnabled(device != own)
        action.triggered.connect(partial(state.try_pin, node.name, device))
    if own is not None:
        away = menu.addAction(tr("Remove the pin…"))
        away.triggered.connect(partial(state.try_pin, node.name, None))
    return menu


SHOWN = 3  # names of nodes that move


MOVING = tr("Uploading moved tensors …")


class PinOffer(QWidget):
    """Shown while a pin is tried, as yet without effect, and while it is put into effect."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self._state = bench, bench.graph
        self._applying, self._started = bench.layers.applying, False
        surface(self, "canvas")
        self.caption = label(wrap=True)
        self.apply = Button(tr("Apply"), self._apply, "primary")
        self.drop = Button(tr("Cancel"), self._drop)
        hbox(
            (self.caption, 1),
            self.apply,
            self.drop,
            on=self,
            margins=(GRID, GRID // 2, GRID, GRID // 2),
        )
        self.hide()
        self._state.changed.connect(self._refresh)
        self._applying.changed.connect(self._refresh)

    def choose(self, number: int, place: QPoint) -> None:
        """Offer the devices that a node of the graph can be pinned to, at a place of the screen."""
        index = self._state.indices.get(self._state.phases[0])
        if index is not None:
            pin_menu(self._state, index.graph.nodes[number], self).popup(place)

    def choose_in_picture(self, number: int, place: QPoint) -> None:
        """The same where it was chosen in the picture; of a launch for what comes of it."""
        index = self._state.indices.get(self._state.phases[0])
        if index is not None and self._state.shows == "launches":
            nodes = index.graph.launches[number].nodes
            if nodes:
                self.choose(nodes[-1], place)
        else:
            self.choose(number, place)

    def _refresh(self) -> None:
        pin, change, applying = self._state.pin, self._state.change(), self._applying
        self._started = self._started and (applying.is_busy or applying.failed)
        self.setVisible(pin is not None or self._started)
        self.apply.setVisible(pin is not None)
        self.apply.setEnabled(change is not None)
        if pin is not None:
            self.caption.setText(sentence(pin, change))
        elif self._started:
            self.caption.setText(MOVING if applying.is_busy else applying.result)
        set_tone(self.caption, "bad" if pin is None and applying.failed else "")

    def _apply(self) -> None:
        """Only what moved is uploaded where the model is open."""
        path, is_open = self._bench.session.path, self._bench.session.model is not None
        if path is not None:
            self._state.apply_pin(lambda options: self._applying.start(path, options, is_open))
            self._started = is_open
            self._refresh()

    def _drop(self) -> None:
        """Leave the placement as it is; stop what is being moved."""
        if self._applying.is_busy:
            self._applying.cancel()
        self._started = self._applying.is_busy
        self._state.drop_pin()


def sentence(pin: tuple[str, str | None], change: GraphChange | None) -> str:
    """What would change, with the numbers before and after."""
    name, device = pin
    what = (
        tr("With {name} on {device}", name=name, device=device)
        if device is not None
        else tr("Without the pin of {name}", name=name)
    )
    if change is None:
        return tr("{what}: planning…", what=what)
    names = ", ".join(change.moved[:SHOWN]) or "nothing"
    if len(change.moved) > SHOWN:
        names += tr(" and {moved} more", moved=len(change.moved) - SHOWN)
    before, after = change.splits
    copied = tr(
        "{copied} to {copied2} KiB", copied=kib(change.copied[0]), copied2=kib(change.copied[1])
    )
    return tr(
        "{what}: {names} would move; splits {before} to {after}, copied between"
        " devices {copied} for each step.",
        what=what,
        names=names,
        before=before,
        after=after,
        copied=copied,
    )
