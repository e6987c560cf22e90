"""The window's program, made, run and taken down in one place; garbage collection runs in the
window's thread alone.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QObject, QTimer, QTranslator
from PySide6.QtWidgets import QApplication

from app.language import used
from app.local_engine import LocalEngine
from app.remote.engine import RemoteEngine
from app.remote.engines import Engines
from app.remote.keys import Keys
from app.shared.attached import SharedEngine
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.widgets.guard import install_hooks
from app.window.main_window import MainWindow

EVERY_MS = 100
OLDEST = 2  # the generation that has all objects
REST = 100  # times as long as a search through all took, until the next


class GarbageCollector(QObject):
    """From when it is made until `stop` it searches in place of Python, by Python's thresholds."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rests_until = 0.0
        self._timer = QTimer(self, interval=EVERY_MS)
        self._timer.timeout.connect(self.look)
        self._timer.start()
        gc.disable()

    def look(self) -> None:
        """Collect the oldest generation that is due."""
        begun = perf_counter()
        pairs = zip(gc.get_count(), gc.get_threshold(), strict=True)
        due = [n for n, (count, limit) in enumerate(pairs) if count > limit > 0]
        if begun < self._rests_until:
            due = [n for n in due if n < OLDEST]
        if due:
            gc.collect(due[-1])
        if OLDEST in due:
            now = perf_counter()
            self._rests_until = now + REST * (now - begun)

    def stop(self) -> None:
        """Python searches by itself again."""
        self._timer.stop()
        gc.enable()


@contextmanager
def shown_window(app: QApplication, model: Path | None = None) -> Iterator[MainWindow]:
    """A window with a model, or the one that was open last.

    All of it is taken down at the end: objects that Python's end takes down in its own order
    crash Qt. What is there once the window stands is left out of the search for garbage, which
    else stops the window for a tenth of a second, now and then.
    """
    keys = Keys()
    engine = Engines(LocalEngine(), RemoteEngine(keys), SharedEngine())
    bench, theme = Workbench(engine, keys=keys, start=LocalEngine), Theme(app)
    window = MainWindow(bench, theme)
    window.show()
    window.start(model)
    gc.collect()
    gc.freeze()
    garbage = GarbageCollector()
    try:
        yield window
    finally:
        window.close()
        bench.close()
        engine.close()
        window.deleteLater()
        theme.deleteLater()
        app.processEvents()
        garbage.stop()
        gc.unfreeze()


def _translate_qt(app: QApplication) -> None:
    """Use the window's language in Qt's dialogs and menus, names of keys and numbers."""
    QLocale.setDefault(QLocale(used()))
    translator = QTranslator(app)
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    if translator.load(f"qtbase_{used()}", folder):
        app.installTranslator(translator)


def open_window(model: Path | None = None, argv: Sequence[str] = ()) -> int:
    """Show the window until it is closed. The exit status is Qt's."""
    QCoreApplication.setApplicationName("cutaway")
    app = QApplication.instance() or QApplication([sys.argv[0], *argv])
    assert isinstance(app, QApplication)
    app.setDesktopFileName("cutaway")
    _translate_qt(app)
    install_hooks()
    with shown_window(app, model):
        return app.exec()
