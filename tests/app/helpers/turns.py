"""The processor time of the window's thread, turn by turn of its event loop."""

import time

from PySide6.QtCore import Qt, QTimer

from tests.app.helpers.seeing import until


class Turns:
    """`longest` is the most between two ticks of a timer so far, in seconds."""

    def __init__(self, interval_ms: int = 5) -> None:
        self.longest, self.n, self._last = 0.0, 0, time.thread_time()
        self._probe = QTimer(interval=interval_ms, timerType=Qt.TimerType.PreciseTimer)
        self._probe.timeout.connect(self._turn)
        self._probe.start()

    def _turn(self) -> None:
        now = time.thread_time()
        self.longest, self._last = max(self.longest, now - self._last), now
        self.n += 1

    def restart(self) -> None:
        self.longest, self._last = 0.0, time.thread_time()

    def end_one(self) -> None:
        """What a person does next is of another turn."""
        n = self.n
        until(lambda: self.n > n)

    def stop(self) -> None:
        self._probe.stop()
