"""pyqtgraph, imported by the first plot or beforehand in a thread: it takes 0.2 s."""

from functools import cache
from typing import Any

from PySide6.QtCore import QObject

from app.work import Work


@cache
def toolkit() -> Any:
    """The package, with options that hold for all plots."""
    import pyqtgraph

    pyqtgraph.setConfigOptions(imageAxisOrder="row-major", useOpenGL=False, antialias=False)
    return pyqtgraph


def warm(parent: QObject) -> None:
    """Import it in a thread, so that the first plot does not wait."""
    Work(toolkit).start(parent)
