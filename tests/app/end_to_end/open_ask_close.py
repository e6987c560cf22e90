"""The program from its start to its end: opens the window, asks, closes it at MOMENT.

    python -m tests.app.end_to_end.open_ask_close MODEL MOMENT

MOMENT is loading, answering or answered. The exit status is the program's, 3 when a thread is left.
"""

import sys
import threading
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.workbench import Workbench
from app.window.main_window import MainWindow
from app.window.program import open_window
from engine.protocol import Sampling

TICK_MS = 20
SAMPLING = {
    "answering": Sampling(temperature=0, frequency_penalty=-100),  # without an end
    "answered": Sampling(temperature=0),
}


class Hand(QObject):
    """Looks at the window now and then, and does what comes next."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self._moment, self._asked = moment, False
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._look)
        self._timer.start()

    def _look(self) -> None:
        window = next((w for w in QApplication.topLevelWidgets() if _is_window(w)), None)
        if isinstance(window, MainWindow) and self._is_time(window.bench):
            self._timer.stop()
            window.close()
        elif isinstance(window, MainWindow) and not self._asked:
            self._ask(window)

    def _is_time(self, bench: Workbench) -> bool:
        chat, session = bench.chat, bench.session
        if self._moment == "loading":
            return session.stage is not None and session.stage.done > 0
        if not self._asked:
            return False
        if self._moment == "answering":
            return chat.busy and chat.path[-1].n_tokens > 5
        return not chat.busy

    def _ask(self, window: MainWindow) -> None:
        if window.bench.session.status == "ready":
            self._asked = True
            window.bench.chat.details.set_sampling(SAMPLING[self._moment])
            QTest.keyClicks(window.talk.composer.field, "What is the capital of France? zzzzzzzz")
            QTest.keyClick(window.talk.composer.field, Qt.Key.Key_Return)


def _is_window(widget: object) -> bool:
    return isinstance(widget, MainWindow) and widget.isVisible()


def main(model: str, moment: str) -> int:
    """The program's exit status."""
    app = QApplication(sys.argv[:1])
    hand = Hand(moment)
    status = open_window(Path(model))
    hand.deleteLater()
    app.processEvents()
    left = [thread.name for thread in threading.enumerate()]
    if left != ["MainThread"]:
        print(f"threads are left: {left}", file=sys.stderr)
        return 3
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
