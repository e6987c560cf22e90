"""The menu of devices that a node can be pinned to."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu, QWidget

from app.state.graph.graph import GraphState
from app.state.graph.pins import can_pin, pinned
from engine.protocol import GraphNode


def pin_menu(state: GraphState, node: GraphNode, parent: QWidget) -> QMenu:
    """What is chosen is tried only: the state tells what it would change."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if not can_pin(node):
        why = "it is a view" if node.role == "view" else "it has no name of its own"
        menu.addAction(f"Cannot be pinned: {why}").setEnabled(False)
        return menu
    own = pinned(state.rule, node.name)
    if not state.devices:
        menu.addAction("The devices are not known yet").setEnabled(False)
    for device in state.devices:
        action = menu.addAction(f"Pin {node.name} to {device}…")
        action.setCheckable(True)
        action.setChecked(device == own)
        action.setEnabled(device != own)
        action.triggered.connect(partial(state.try_pin, node.name, device))
    if own is not None:
        away = menu.addAction("Remove the pin…")
        away.triggered.connect(partial(state.try_pin, node.name, None))
    return menu
