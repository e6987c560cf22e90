"""The graph as a file."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QWidget

from app.state.graph.blocks import GraphIndex
from app.state.graph.export import as_dot, as_json
from app.views.graph.picture.canvas import GraphCanvas

EDGE = 20


def ask_and_write(parent: QWidget, name: str, write: Callable[[Path], object]) -> str:
    """Ask where to, offering a name, and write there. What went wrong, in a sentence, or empty."""
    chosen, _ = QFileDialog.getSaveFileName(parent, "Save the graph", name)
    if chosen:
        try:
            write(Path(chosen))
        except OSError as error:
            return f"{chosen} cannot be written: {error.strerror}"
    return ""


def write(kind: str, path: Path, index: GraphIndex, canvas: GraphCanvas, title: str) -> None:
    """As svg what the canvas has, as dot or json all of the graph. Raises OSError."""
    if kind == "dot":
        path.write_text(as_dot(index), "utf-8")
    elif kind == "json":
        path.write_text(as_json(index.graph), "utf-8")
    elif canvas.scene is not None:
        path.write_bytes(b"")  # the generator tells of no error
        size = QSize(round(canvas.scene.width), round(canvas.scene.height))
        size += QSize(2 * EDGE, 2 * EDGE)
        generator = QSvgGenerator()
        generator.setFileName(str(path))
        generator.setSize(size)
        generator.setViewBox(QRectF(-EDGE, -EDGE, size.width(), size.height()))
        generator.setTitle(title)
        painter = QPainter(generator)
        canvas.paint_onto(painter)
        painter.end()
