"""Queue from other threads to the window's thread, delivered once per frame."""

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

FRAME_MS = 16


class Inbox(QObject):
    """A queue from any thread into the one that made it.

    Its one connection is made before any thread knows it: connecting while another thread emits
    crashes Qt. `deliver` gets lists of what has come, in order, at most once a frame.
    """

    _woken = Signal()

    def __init__(self, deliver: Callable[[list[Any]], None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._deliver = deliver
        self._items: deque[Any] = deque()
        self._lock = threading.Lock()
        self._awake = self._closed = False
        self._last = 0.0
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.drain)
        self._woken.connect(self._wake, Qt.ConnectionType.QueuedConnection)

    def put(self, item: Any) -> None:
        """From any thread. Nothing is delivered any more after `close`."""
        with self._lock:
            if self._closed:
                return
            self._items.append(item)
            if self._awake:
                return
            self._awake = True
            self._woken.emit()

    @Slot()
    def drain(self) -> None:
        """Deliver what is there now."""
        self._timer.stop()
        with self._lock:
            items, self._awake = list(self._items), False
            self._items.clear()
        self._last = monotonic()
        if items:
            self._deliver(items)

    def close(self) -> None:
        """Take nothing more; to be called before the object goes, in its own thread."""
        with self._lock:
            self._closed = True
            self._items.clear()
        self._timer.stop()

    @Slot()
    def _wake(self) -> None:
        if not self._closed and not self._timer.isActive():
            waited = (monotonic() - self._last) * 1000
            self._timer.start(max(0, round(FRAME_MS - waited)))
