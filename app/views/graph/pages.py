"""The graph as a picture, or two beside each other, as a table, or the source of a kernel."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QBoxLayout, QPlainTextEdit, QStackedWidget, QWidget

from app.language import tr
from app.state.graph.blocks import GraphIndex
from app.state.graph.graph import Phase
from app.state.graph.overlay import NodeError, Overlay, coloured
from app.state.graph.scene import GraphScene
from app.theme import fonts
from app.theme.tokens import GRID
from app.views.graph.node_table import LAUNCHES, NODES, LaunchRow, NodeRow, launch_rows, node_rows
from app.views.graph.picture.canvas import GraphCanvas
from app.widgets.basics import TEXT_SIZE, IconButton, label
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import hbox, vbox
from app.widgets.lists.rows import TableRows
from app.widgets.lists.table import Table


def kernel_source(kernel: str) -> str | None:
    """The text of `family.kernel`'s family; None where there is none: the host's are NumPy."""
    family, dot, _ = kernel.partition(".")
    if not dot or not re.fullmatch(r"\w+", family):
        return None
    path = files("kernels_cl") / f"{family}.cl"
    return path.read_text("utf-8") if path.is_file() else None


class KernelSource(QWidget):
    """Scrolled to the kernel; what its program is built with stands above."""

    def __init__(self, close: Callable[[], object]) -> None:
        super().__init__()
        self._close = close
        self.title = ElidedLabel(size="strong")
        self.defines = label(tone="quiet", size="small", wrap=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName(tr("Kernel source"))
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(fonts.mono())
        head = hbox(
            IconButton("chevron-left", tr("Back to the graph (Backspace)"), close),
            (self.title, 1),
            spacing=GRID,
        )
        vbox(head, self.defines, (self.text, 1), on=self)
        self.text.installEventFilter(self)

    def show_kernel(self, kernel: str, defines: str) -> None:
        source = kernel_source(kernel) or ""
        family, _, name = kernel.partition(".")
        self.title.setText(f"{family}.cl: {name}")
        self.defines.setText(tr("built with {defines}", defines=defines) if defines else "")
        self.defines.setVisible(bool(defines))
        self.text.setPlainText(source)
        found = re.search(rf"__kernel[^;{{]*?\b{re.escape(name)}\s*\(", source)
        cursor = QTextCursor(self.text.document())
        cursor.setPosition(found.start() if found is not None else 0)
        self.text.setTextCursor(cursor)
        self.text.centerCursor()
        self.text.setFocus()

    def eventFilter(self, watched: object, event: QEvent) -> bool:  # noqa: N802
        keys = (Qt.Key.Key_Backspace, Qt.Key.Key_Escape)
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            wanted = event.key() in keys
            if wanted:
                self._close()
            return wanted
        return False

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.text.setFont(fonts.mono())


NAMES: dict[Phase, str] = {"decode": tr("Graph of one token"), "prefill": tr("Graph of a prompt")}


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
        self.nodes = Table(TableRows(NODES, self), tr("Nodes"))
        self.launches = Table(TableRows(LAUNCHES, self), tr("Launches"))
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
