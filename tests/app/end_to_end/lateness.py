"""How late a 10 ms timer of the window is while a model loads, answers, and a chat grows long.

    python -m tests.app.end_to_end.lateness MODEL [SECONDS] [--stacks]

For a quiet machine: figures, no assertions. --stacks tells what the window did when it was late.
"""

import os
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from math import log
from pathlib import Path
from time import monotonic, sleep

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from app.window.main_window import MainWindow
from app.window.program import shown_window
from engine.protocol import Alternative, Piece, Sampling, TokenInfo

EVERY = 0.010
LATE = 0.050
ENDLESS = Sampling(temperature=0, frequency_penalty=-100)
LONG = 20_000  # tokens
WORDS = ["the", "**cache**", "of", "a", "model\nholds", "`keys`", "and", "values,", ""]


class Watch(QObject):
    """A timer that notes how late it is; from another thread, what the window does meanwhile."""

    def __init__(self, stacks: bool) -> None:
        super().__init__()
        self.late: list[float] = []
        self.stacks: Counter[str] = Counter()
        self._due = monotonic() + EVERY
        self._main = threading.get_ident()
        self._timer = QTimer(self, interval=round(EVERY * 1000))
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._timer.start()
        if stacks:
            threading.Thread(target=self._sample, daemon=True).start()

    def tell(self, phase: str) -> None:
        """Print the figures since the last time."""
        late, self.late = sorted(self.late), []
        middle, p99 = (late[int(len(late) * share)] for share in (0.5, 0.99))
        figures = "  ".join(f"{1000 * value:7.1f}" for value in (middle, p99, late[-1]))
        print(f"{phase:<34}{len(late):6} ticks  median, p99, worst ms: {figures}", flush=True)

    def _tick(self) -> None:
        now = monotonic()
        self.late.append(max(0.0, now - self._due))
        self._due = now + EVERY

    def _sample(self) -> None:
        while True:
            sleep(0.02)
            if monotonic() - self._due > LATE:
                stack = traceback.extract_stack(sys._current_frames()[self._main])
                ours = [f for f in stack if "/app/" in f.filename]
                self.stacks[" > ".join(f"{Path(f.filename).stem}.{f.name}" for f in ours[-4:])] += 1


def spin(seconds: float, until: Callable[[], object] = lambda: False) -> None:
    """Let the window run."""
    end = monotonic() + seconds
    while monotonic() < end and not until():
        QTest.qWait(50)


def load_and_answer(window: MainWindow, watch: Watch, model: Path, seconds: float) -> None:
    bench = window.bench
    bench.open_model(model)
    spin(120, lambda: bench.session.status == "ready")
    watch.tell("loading")
    bench.chat.details.set_sampling(ENDLESS)
    assert bench.chat.send("Tell me a story. zzzzzzzz")
    spin(seconds / 2)
    watch.tell("answering")
    window.talk.chat.toggle_probabilities()
    spin(seconds / 2)
    watch.tell("answering, painted by token")
    window.talk.chat.toggle_probabilities()
    bench.chat.stop()
    spin(10, lambda: not bench.chat.busy)


def token(n: int) -> TokenInfo:
    text = WORDS[n % len(WORDS)] + (" " if n % 80 else ".\n\n")
    chance = 0.2 + n % 7 / 10
    top = [Alternative(n + i, text, log(chance / (i + 1))) for i in range(10)]
    return TokenInfo(n, log(chance), text, top)


def long_chat(window: MainWindow, watch: Watch, messages: int) -> None:
    """A chat of LONG tokens in so many answers: opened, scrolled, painted by token."""
    bench, store = window.bench, window.bench.chat.store
    chat, parent = store.create(f"Long, {messages}"), None
    for n in range(2 * messages):
        role = "user" if n % 2 == 0 else "assistant"
        message = Message(0, chat, parent, role, "And then?", model="m", finish="stop")
        if role == "assistant":
            infos = [token(i) for i in range(LONG // messages)]
            message.text, message.n_tokens = "".join(i.text for i in infos), len(infos)
            tokens = Tokens()
            for info in infos:
                tokens.append([info], tokens.end(len(tokens) - 1) + len(info.text) if tokens else 0)
        store.add(message)
        if role == "assistant":
            store.save_tokens(message, tokens)
        parent = message.id
    bench.chats.refresh()
    spin(0.5)
    watch.late.clear()
    bench.chat.open(chat)
    spin(2)
    watch.tell(f"{LONG} tokens in {messages}: opening")
    bar = window.talk.chat.column.verticalScrollBar()
    for step in range(100):
        bar.setValue(bar.maximum() * (99 - step) // 99)
        QTest.qWait(20)
    watch.tell("  scrolling through")
    window.talk.chat.toggle_probabilities()
    spin(2)
    watch.tell("  painting by token")
    window.talk.chat.toggle_probabilities()
    spin(1)
    watch.late.clear()


def long_answer(window: MainWindow, watch: Watch, seconds: float) -> None:
    """One answer of LONG tokens, ten times as fast as a person is used to."""
    bench = window.bench
    bench.chat.open(None)
    assert bench.chat.send("Write a book. zzzzzzzz")
    spin(30, lambda: bench.chat.path[-1].n_tokens > 2)
    asked = bench.chat.answer.sent  # type: ignore[union-attr]
    watch.late.clear()
    began, sent = monotonic(), 0
    while sent < LONG:
        wanted = min(LONG, round(LONG * (monotonic() - began) / seconds))
        pieces = [Piece(asked.id, token(n).text, [token(n)]) for n in range(sent, wanted)]
        if pieces:
            asked.pieces.emit(pieces)
        sent = wanted
        QTest.qWait(16)
    watch.tell(f"one answer of {LONG} in {seconds:.0f} s")
    bench.chat.stop()
    spin(10, lambda: not bench.chat.busy)


def main(model: str, seconds: str = "60", *flags: str) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as home:
        for name in ("DATA", "CONFIG", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = f"{home}/{name}"
        app = QApplication(sys.argv[:1])
        with shown_window(app) as window:
            window.resize(1600, 1000)
            watch = Watch("--stacks" in flags)
            load_and_answer(window, watch, Path(model).absolute(), float(seconds))
            long_chat(window, watch, 40)
            long_chat(window, watch, 1)
            long_answer(window, watch, float(seconds) / 2)
            for stack, times in watch.stacks.most_common(12):
                print(f"{times:5}  {stack}")


if __name__ == "__main__":
    main(*sys.argv[1:])
