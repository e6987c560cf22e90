"""The pages of the inspector, in the order of their tabs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.workbench import Workbench
from app.views.graph.graph import GraphView, graph_report
from app.views.layers.layers import LayersView, layers_report
from app.views.memory.memory import MemoryView, memory_report
from app.views.profile.profile import ProfileView, profile_report
from app.views.tensors.tensors import TensorsView
from app.views.tensors.tensors_report import tensors_report
from app.views.token.token import TokenView, token_report
from app.widgets.lists.rows import ViewReport


@dataclass(frozen=True)
class InspectorPage:
    """A tab and the view behind it, which `make` gives when it is first shown; `report` shows what
    the view shows.
    """

    id: str
    title: str
    key: str
    make: Callable[[Workbench], QWidget]
    report: Callable[[Workbench, Any], ViewReport]


# Token Ctrl+1, Memory Ctrl+2, Layers Ctrl+3, Graph Ctrl+4, Tensors Ctrl+5, Profile Ctrl+6.
PAGES: tuple[InspectorPage, ...] = (
    InspectorPage("token", tr("Token"), "Ctrl+1", TokenView, token_report),
    InspectorPage("memory", tr("Memory"), "Ctrl+2", MemoryView, memory_report),
    InspectorPage("layers", tr("Layers"), "Ctrl+3", LayersView, layers_report),
    InspectorPage("graph", tr("Graph"), "Ctrl+4", GraphView, graph_report),
    InspectorPage("tensors", tr("Tensors"), "Ctrl+5", TensorsView, tensors_report),
    InspectorPage("profile", tr("Profile"), "Ctrl+6", ProfileView, profile_report),
)
