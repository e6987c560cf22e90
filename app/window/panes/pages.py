"""The pages of the inspector, in the order of their tabs."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtWidgets import QWidget

from app.state.workbench import Workbench
from app.views.graph.graph import GraphView
from app.views.layers.layers import LayersView
from app.views.memory.memory import MemoryView
from app.views.profile.profile import ProfileView
from app.views.tensors.tensors import TensorsView
from app.views.token.token import TokenView


@dataclass(frozen=True)
class InspectorPage:
    """A tab and the view behind it, which `make` gives when it is first shown."""

    id: str
    title: str
    key: str
    make: Callable[[Workbench], QWidget]


# Token Ctrl+1, Memory Ctrl+2, Layers Ctrl+3, Graph Ctrl+4, Tensors Ctrl+5, Profile Ctrl+6.
PAGES: tuple[InspectorPage, ...] = (
    InspectorPage("token", "Token", "Ctrl+1", TokenView),
    InspectorPage("memory", "Memory", "Ctrl+2", MemoryView),
    InspectorPage("layers", "Layers", "Ctrl+3", LayersView),
    InspectorPage("graph", "Graph", "Ctrl+4", GraphView),
    InspectorPage("tensors", "Tensors", "Ctrl+5", TensorsView),
    InspectorPage("profile", "Profile", "Ctrl+6", ProfileView),
)
