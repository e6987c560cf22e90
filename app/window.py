"""The window's program: made, run and taken down in one place."""

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QApplication

from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.main_window import MainWindow


def open_window(model: Path | None = None, argv: Sequence[str] = ()) -> int:
    """Show the window until it is closed; with a model, or the one that was open last.

    The exit status is Qt's. Everything is closed before it returns: objects that Python's end
    takes down in its own order crash Qt.
    """
    QCoreApplication.setApplicationName("cutaway")
    app = QApplication.instance() or QApplication([sys.argv[0], *argv])
    assert isinstance(app, QApplication)
    app.setDesktopFileName("cutaway")
    bench = Workbench()
    window = MainWindow(bench, Theme(app))
    window.show()
    window.start(model)
    try:
        return app.exec()
    finally:
        window.close()
        bench.close()
        window.deleteLater()
        app.processEvents()
