"""How long the window is blocked by long texts and many files, in milliseconds.

    python -m tests.blocks [WORDS OF A SCENE]

Between two ticks of a timer of 10 ms the processor time of the window's thread is measured, so that
other programs do not count, and beside it in brackets the clock. Promised are 50 ms at most, and
16 ms for a key, on a machine of today on which nothing else runs: what a plain loop takes
before and after a turn is the unit in which it is measured (`Longest.quiet`). What a person does
begins at a tick, so that one turn has one act and its painting. A text is a question and its
answer, in a window of 1600 x 1000 before a scripted engine. "nothing" is an empty chat: what a
change of the window's size or text takes without a message.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image
from PySide6.QtCore import QEvent, QMimeData, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

from app.state.preferences import WindowPreferences
from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message
from app.state.workbench import Workbench, data_folder
from app.theme.theme import Theme
from app.views.talk.message import MessageView
from app.widgets.controls.growing_edit import GrowingEdit
from app.window.main_window import MainWindow
from app.window.program import GarbageCollector
from tests.app.helpers.scripted import ScriptedEngine
from tests.bounds import slowness
from tests.conftest import move_home

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

WORDS = "The quick brown fox jumps over the lazy dog and back again. "
TEXTS = {
    "nothing": "",
    "200,000 letters": "a" * 200_000,
    "2 MB in a line": WORDS * (2_000_000 // len(WORDS)),
    "<div><b>": "<div><b>" * 30_000,
    "10,000 rows": "| n | name | value |\n|---|---|---|\n"
    + "".join(f"| {n} | name {n} | {n * n} |\n" for n in range(10_000)),
    "60 KB of _": "_" * 60_000,
    "60 KB of LaTeX": r"\frac{a_1}{b^2} + $\sqrt{x}$ and \(y_{ij}\) are numbers. " * 1050,
    "2 MB in lines": "".join(f"{n}: {WORDS}\n" for n in range(30_000)),
    "code": "```python\n" + "def f(x):\n    return x + 1  # one more\n" * 6000 + "```\n",
}
SHEETS = {
    name: f"show_{name}"
    for name in ("chooser", "file", "preferences", "news", "serving", "report", "palette", "prompt")
} | {"steer": "show_steering", "runs": "show_runs", "trial": "show_trial", "pair": "show_pair"}
QUIET = 1.5  # `slowness` of two cores of Zen 5 in a cloud, when nothing else runs
SIZES = ((1200, 800), (900, 700), (1601, 1000), (1400, 900), (1600, 1000))
IDLE = 8  # ticks in which next to nothing happened end a measurement
TICK = 0.010
LOOPS = 4000  # of a plain loop at each tick: others slow this processor down for moments only
PATIENCE = 60.0  # seconds for all acts of a measurement


class Longest(NamedTuple):
    """The longest turn, in seconds of the thread, and the longest of all by the clock; and how slow
    the processor was.
    """

    own: float
    clock: float
    slow: float = QUIET

    @property
    def quiet(self) -> float:
        """The longest turn, in seconds of the thread, on a machine with nothing else to do."""
        return self.own / self.slow * QUIET


class Blocks:
    """A window, and the longest turns of its loop."""

    def __init__(self, window: MainWindow, app: QApplication) -> None:
        self.window, self.app, self.bench = window, app, window.bench
        self.column = window.talk.chat.column
        self.field = window.talk.composer.field

    def longest(self, *acts: Callable[[], object]) -> Longest:
        """The longest turns while these are done one after the other, and after them."""
        return self.each(iter(acts), rest=IDLE)

    def each(self, acts: Iterator[Callable[[], object]], rest: int = 0) -> Longest:
        """Like `longest`, for acts between which there are only so many ticks of rest."""
        turns: list[Longest] = []
        idle, ticks, ended = 0, 0, False
        slow, last, began = slowness(LOOPS, 1), time.thread_time(), time.perf_counter()

        def tick() -> None:
            nonlocal slow, last, began, idle, ticks, ended
            own, clock = time.thread_time() - last, time.perf_counter() - began
            before, slow = slow, slowness(LOOPS, 1)
            turns.append(Longest(own, clock, (before + slow) / 2))
            ticks, idle = ticks + 1, idle + 1 if own < TICK / 2 else 0
            if not ended and (idle >= rest if rest else ticks % 2):
                act = next(acts, None)
                ended, idle = act is None, 0
                if act is not None:
                    QTimer.singleShot(0, act)  # not here: it may process events itself
            last, began = time.thread_time(), time.perf_counter()

        timer = QTimer(interval=round(TICK * 1000), timerType=Qt.TimerType.PreciseTimer)
        timer.timeout.connect(tick)
        timer.start()
        ends = time.monotonic() + PATIENCE
        while not (ended and idle >= IDLE) and time.monotonic() < ends:
            self.app.processEvents()
            time.sleep(0.001)
        timer.stop()
        assert ended, f"not all was done within {PATIENCE:.0f} s"
        longest = max(turns, key=lambda turn: turn.quiet)
        return longest._replace(clock=max(turn.clock for turn in turns))

    # What a person does

    def open(self, chat: int | None) -> Longest:
        return self.longest(lambda: self.bench.chat.open(chat))

    def scroll(self) -> Longest:
        bar = self.column.verticalScrollBar()

        def turns() -> Iterator[Callable[[], object]]:
            for n in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 100):
                yield lambda n=n: bar.setValue(bar.maximum() * n // 100)
            for _ in range(20):
                yield lambda: bar.setValue(bar.value() - 300)

        return self.each(turns())

    def resize(self) -> Longest:
        return self.each((lambda s=s: self.window.resize(*s)) for s in SIZES)

    def scale(self) -> Longest:
        update = self.bench.preferences.update
        return self.longest(*(lambda f=f: update(font_scale=f) for f in (1.5, 1.0)))

    def keys(self, field: GrowingEdit) -> Longest:
        """Keys at the end and at the beginning, with pauses in which drafts are saved."""

        def press(key: object, held: object = Qt.KeyboardModifier.NoModifier) -> None:
            if isValid(field):  # else it took so long that another chat was opened
                QTest.keyClick(field, key, held)  # type: ignore[call-overload]

        def turns() -> Iterator[Callable[[], object]]:
            for _ in range(2):
                for letter in "and more":
                    yield partial(press, letter)
                yield partial(press, Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier)
                for letter in "first":
                    yield partial(press, letter)
                yield partial(press, Qt.Key.Key_Backspace)

        return self.each(turns())

    def paste(self, field: GrowingEdit, text: str) -> Longest:
        data = QMimeData()
        data.setText(text)
        return self.longest(lambda: field.insertFromMimeData(data))

    def edit(self, row: int) -> GrowingEdit:
        view = self.column.require(row)
        assert isinstance(view, MessageView)
        view.begin_edit()
        assert view.edit is not None
        return view.edit.field

    def stream(self, text: str, engine: ScriptedEngine) -> Longest:
        assert self.bench.chat.send("Go on.")
        size = max(1, min(len(text) // 60, 4000))
        parts = [text[n : n + size] for n in range(0, min(len(text), 240_000), size)]
        took = self.each((lambda p=p: engine.write(p)) for p in parts)
        engine.end(n=len(parts))
        return took


def store(texts: dict[str, str], messages: int) -> dict[str, int]:
    """Chats with a question and an answer, one each; and one of so many messages."""
    chats = ChatStore(data_folder() / "chats.sqlite")
    made = {}
    for name, text in texts.items():
        made[name] = chat = chats.create(name)
        if text:
            question = Message(0, chat, None, "user", text, 1.0)
            chats.add(question)
            answer = Message(0, chat, question.id, "assistant", text, 2.0, finish="stop")
            chats.add(answer)
    made["messages"] = chat = chats.create("messages")
    above = None
    for n in range(messages):
        role = "assistant" if n % 2 else "user"
        message = Message(0, chat, above, role, f"{n}: {WORDS}", 1.0 + n, finish="stop")
        chats.add(message)
        above = message.id
    chats.close()
    return made


@contextmanager
def opened(
    texts: dict[str, str], messages: int = 0
) -> Iterator[tuple[Blocks, ScriptedEngine, dict[str, int]]]:
    """A window whose chats are these, in a home of its own, and their numbers."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        move_home(Path(folder) / "home", patch)
        made = store(texts, messages)
        engine = ScriptedEngine()
        bench, theme = Workbench(engine), Theme(app)
        engine.deliver = bench.client.drain
        bench.preferences.update(theme="light", window=WindowPreferences(inspector_shown=True))
        window = MainWindow(bench, theme)
        window.resize(1600, 1000)
        window.show()
        window.start()
        bench.open_model(Path(folder) / "SmolLM2.gguf")
        engine.load_done()
        gc.collect()
        gc.freeze()
        garbage = GarbageCollector()
        try:
            yield Blocks(window, app), engine, made
        finally:
            garbage.stop()
            gc.unfreeze()
            window.close()
            bench.close()
            window.deleteLater()
            app.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # `processEvents` leaves these
            app.processEvents()


Rows = dict[str, Longest]
"""By the names of acts; those that begin with "key" are keys."""


def of_text(blocks: Blocks, engine: ScriptedEngine, chat: int, text: str) -> Rows:
    """Everything that is done with a text."""
    blocks.open(None)
    took = {"open": blocks.open(chat), "scroll": blocks.scroll(), "resize": blocks.resize()}
    took["scale"] = blocks.scale()
    if text:
        took["edit"] = blocks.longest(lambda: blocks.edit(0))
        took["key_edit"] = blocks.keys(blocks.edit(0))
        took["paste_edit"] = blocks.paste(blocks.edit(0), text)
        blocks.open(None)
        took["stream"] = blocks.stream(text, engine)
        blocks.open(None)
        took["paste"] = blocks.paste(blocks.field, text)
        for _ in blocks.bench.chat.documents.documents:
            blocks.bench.chat.documents.remove(0)
        blocks.bench.chat.details.set_draft(text)
        draft = blocks.bench.chat.details.draft_changed
        took["draft"] = blocks.longest(lambda: draft.emit(text))
        took["key_draft"] = blocks.keys(blocks.field)
        took["draft_resize"] = blocks.resize()
        blocks.bench.chat.details.set_draft("")
        draft.emit("")
    return took


def of_pictures(blocks: Blocks, count: int = 500) -> Rows:
    """Pictures given as a list of files."""
    blocks.open(None)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.png" for n in range(count)]
        for n, path in enumerate(paths):
            Image.new("RGB", (640, 480), (n % 256, 0, 0)).save(path)
        attached = blocks.bench.chat.attached
        return {"given": blocks.longest(lambda: attached.add_files(paths))}


def of_messages(blocks: Blocks, chat: int) -> Rows:
    """A chat of thousands of messages, opened and deleted."""
    blocks.open(None)
    took = {"open": blocks.open(chat), "scroll": blocks.scroll(), "resize": blocks.resize()}
    took["delete"] = blocks.longest(lambda: blocks.bench.chat.delete_message(2))
    took["undo"] = blocks.longest(blocks.bench.chat.undo_delete_message)
    return took


def of_sheets(blocks: Blocks) -> Rows:
    """Each sheet, opened for the first time."""
    sheets, took = blocks.window.sheets, {}
    for name, show in SHEETS.items():
        took[name] = blocks.longest(getattr(sheets, show))
        front = sheets.front
        assert front is not None
        blocks.longest(front.dismiss)
    return took


def rows_of(name: str, blocks: Blocks, engine: ScriptedEngine, chats: dict[str, int]) -> Rows:
    """The longest turns of a scene."""
    match name:
        case "500 pictures":
            return of_pictures(blocks)
        case "5,000 messages":
            return of_messages(blocks, chats["messages"])
        case "sheets":
            return of_sheets(blocks)
    return of_text(blocks, engine, chats[name], TEXTS[name])


SCENES = (*TEXTS, "500 pictures", "5,000 messages", "sheets")


def main(words: list[str]) -> None:
    wanted = " ".join(words)
    print("milliseconds of a quiet machine (the clock)")
    for name in SCENES:
        if wanted not in name:
            continue
        texts = {name: TEXTS[name]} if name in TEXTS else {}
        with opened(texts, 5000 if name == "5,000 messages" else 0) as (blocks, engine, chats):
            rows = rows_of(name, blocks, engine, chats)
        cells = [f"{a} {it.quiet * 1000:.0f} ({it.clock * 1000:.0f})" for a, it in rows.items()]
        print(f"{name:18} {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
