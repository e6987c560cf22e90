"""The graph as a picture, or two beside each other, as a table, or the source of a kernel."""

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QBoxLayout, QStackedWidget, QWidget

from app.state.graph.blocks import GraphIndex
from app.state.graph.graph import Phase
from app.state.graph.overlay import NodeError, Overlay, coloured
from app.state.graph.scene import GraphScene
from app.theme.tokens import GRID
from app.views.graph.node_table import LAUNCHES, NODES, LaunchRow, NodeRow, launch_rows, node_rows
from app.views.graph.picture.canvas import GraphCanvas
from app.views.graph.source import KernelSource
from app.widgets.lists.rows import TableRows
from app.widgets.lists.table import Table

NAMES: dict[Phase, str] = {"decode": "Graph of one token", "prefill": "Graph of a prompt"}


class GraphPages(QStackedWidget):
    """One page at a time; the source of a kernel lies over the others until it is closed."""

    node_picked = Signal(int)  # in the table
    node_chosen = Signal(int)
    launch_chosen = Signal(int)
    source_closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.canvases = {phase: GraphCanvas(name) for phase, name in NAMES.items()}
        self.source = KernelSource(self.close_source)
        self.nodes = Table(TableRows(NODES, self), "Nodes")
        self.launches = Table(TableRows(LAUNCHES, self), "Launches")
        self._drawn: dict[Phase, object] = {}
        self._pictures = QWidget()
        self._beside = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._pictures)
        self._beside.setContentsMargins(0, 0, 0, 0)
        self._beside.setSpacing(GRID)
        for canvas in self.canvases.values():
            self._beside.addWidget(canvas, 1)
        for page in (self._pictures, self.nodes, self.launches, self.source):
            self.addWidget(page)
        self.nodes.picked.connect(lambda row: self.node_picked.emit(row.number))
        self.nodes.chosen.connect(self._row_chosen)
        self.launches.chosen.connect(self._row_chosen)
        self.launches.activated.connect(self._source_of)

    @property
    def has_source(self) -> bool:
        """Whether a kernel's source is shown."""
        return self.currentWidget() is self.source

    def show_phase(self, phase: Phase, shown: bool) -> None:
        """Whether the picture of a step is shown."""
        self.canvases[phase].setVisible(shown)

    def draw(
        self,
        phase: Phase,
        scene: GraphScene,
        overlay: Overlay,
        ns: Mapping[int, int],
        errors: Mapping[int, NodeError],
    ) -> None:
        """A scene in the colours of an overlay, if it is not drawn so already."""
        measured = {"time": ns, "error": errors}.get(overlay)
        drawn = scene, overlay, measured
        if drawn != self._drawn.get(phase):
            self._drawn[phase] = drawn
            paint = coloured(scene.index, scene.shows, overlay, ns, errors)
            self.canvases[phase].show_scene(scene, paint)

    def fit_all(self) -> None:
        """Show all of each picture."""
        for canvas in self.canvases.values():
            canvas.fit_all()

    def turn(self, direction: QBoxLayout.Direction) -> None:
        """How two pictures stand to each other."""
        self._beside.setDirection(direction)

    def show_as(self, as_table: bool, launched: bool) -> None:
        if not self.has_source:
            table = self.launches if launched else self.nodes
            self.setCurrentWidget(table if as_table else self._pictures)

    def fill(
        self, index: GraphIndex, ns: Mapping[int, int], errors: Mapping[int, NodeError]
    ) -> None:
        """The rows of both tables."""
        self.nodes.rows.show_rows(node_rows(index, ns, errors))
        self.launches.rows.show_rows(launch_rows(index, ns, errors))

    def show_source(self, kernel: str, defines: str) -> None:
        self.setCurrentWidget(self.source)
        self.source.show_kernel(kernel, defines)

    def close_source(self) -> None:
        if self.has_source:
            self.setCurrentWidget(self._pictures)
            self.source_closed.emit()

    def _row_chosen(self, row: NodeRow | LaunchRow | None) -> None:
        if isinstance(row, NodeRow):
            self.node_chosen.emit(row.number)
        elif isinstance(row, LaunchRow):
            self.launch_chosen.emit(row.number)

    def _source_of(self, row: LaunchRow) -> None:
        self.show_source(row.launch.kernels[0], row.launch.defines[0])
