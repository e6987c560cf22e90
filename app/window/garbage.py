"""Python's search for garbage, in the window's thread alone.

Python searches in whatever thread has just made many objects, and deletes there what it finds;
widgets, timers and items of plots among it crash Qt.
"""

import gc
from time import perf_counter

from PySide6.QtCore import QObject, QTimer

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
