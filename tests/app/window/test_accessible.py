"""Every widget that does something has a name, and the keyboard comes to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

from app.window.main_window import MainWindow
from engine.protocol import Generate, Memory
from tests.app.helpers import numbers
from tests.app.helpers.recorded import recorded
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.window import test_screenshots as scenes
from tests.app.window.scenes import compare_scenes, graph_scenes, layer_scenes

DOES_SOMETHING = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QTabBar,
)
LONGEST_WALK = 200


def empty(window: MainWindow) -> None:
    """No model."""


def ready(window: MainWindow) -> None:
    """A model is open, a chat has an answer, memory is shown."""
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    window.bench.open_model(Path("/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    client.say(memory("planned"), memory("allocated"))
    client.load_done()
    assert window.bench.chat.send("What is the capital of France?")
    client.write("The capital", " is Paris.")
    client.end()


def table(window: MainWindow) -> None:
    ready(window)
    window.inspector.memory.toggle_table()


def file(window: MainWindow) -> None:
    """The Model tab with a file."""
    window.sheets.show_file()
    tiny = window.property("tiny")
    window.bench.file.open(Path(tiny))


def log(window: MainWindow) -> None:
    window.drawer.set_open(True)


def failed(window: MainWindow) -> None:
    window.talk.notices.news("here", "Something has happened.")


def preferences(window: MainWindow) -> None:
    window.sheets.show_preferences()


def chooser(window: MainWindow) -> None:
    window.sheets.show_chooser()


def palette(window: MainWindow) -> None:
    window.sheets.show_palette()


def profile(window: MainWindow) -> None:
    """The Profile tab with a recorded answer."""
    ready(window)
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    assert window.bench.chat.send("Again")
    client.say(recorded(client.last_of(Generate).id))  # type: ignore[attr-defined]
    client.end()
    window.panes.show_tab("profile")


STATES = (
    profile,
    *(empty, ready, table, file, log, failed, preferences, chooser, palette),
    *(
        scenes.word,
        scenes.words_as_tables,
        layer_scenes.placed,
        layer_scenes.placed_table,
        graph_scenes.graph,
        graph_scenes.graph_table,
        graph_scenes.graph_source,
        compare_scenes.texts,
        compare_scenes.axes,
        numbers.numbers,
        numbers.numbers_stored,
        scenes.attached,
        scenes.pictured,
        scenes.edited,
        scenes.viewer,
        scenes.seen,
    ),
)
State = Callable[[MainWindow], None]


@pytest.fixture(params=STATES, ids=lambda state: state.__name__)
def shown(
    request: pytest.FixtureRequest, window: MainWindow, tiny_path: Path, tmp_path: Path
) -> MainWindow:
    window.setProperty("tiny", str(tiny_path))
    window.setProperty("folder", str(tmp_path))
    request.param(window)
    QTest.qWait(300)
    return window


def own(widget: QWidget) -> bool:
    """Not a part that Qt makes inside another widget, which is reached through that."""
    parent = widget.parentWidget()
    if isinstance(widget, QScrollBar | QHeaderView):
        return False
    inside = QLineEdit | QComboBox | QAbstractSpinBox | QTabBar
    return not (isinstance(parent, inside) or isinstance(widget.window(), QComboBox))


def acting(window: MainWindow) -> Iterator[QWidget]:
    """What can be seen and does something, or takes the keyboard."""
    for widget in window.findChildren(QWidget):
        does = isinstance(widget, DOES_SOMETHING)
        takes = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
        if (does or takes) and widget.isVisible() and own(widget):
            yield widget


def test_everything_has_a_name_and_the_keyboard_comes_there(shown: MainWindow) -> None:
    bars = [w for w in shown.findChildren(QProgressBar) if w.isVisible()]
    nameless = [w for w in (*acting(shown), *bars) if not w.accessibleName().strip()]
    assert nameless == []
    front: QWidget = shown.sheets.front or shown
    wanted = [
        w for w in acting(shown) if w.isEnabled() and (front is shown or front.isAncestorOf(w))
    ]
    first = QApplication.focusWidget()
    reached = {first}
    for _ in range(LONGEST_WALK):
        QTest.keyClick(shown.windowHandle(), Qt.Key.Key_Tab)
        if QApplication.focusWidget() is first:
            break
        reached.add(QApplication.focusWidget())
    still = filter(isValid, wanted)  # a panel is made anew for what is selected on the way
    missed = [w for w in still if w not in reached and w.focusProxy() not in reached]
    assert [f"{type(w).__name__} {w.accessibleName()!r}" for w in missed] == []


def test_bars_say_their_numbers(window: MainWindow) -> None:
    ready(window)
    said = [bar.accessibleDescription() for bar in window.inspector.memory.bars.bars]
    assert len(said) == 2
    assert "intel:0 weights 16.0 MiB" in said[0]
    assert "nvidia:0 weights 36.0 MiB" in said[1]


def test_records_are_not_lost_in_the_chart(window: MainWindow) -> None:
    ready(window)
    held: Memory | None = window.bench.memory.held
    assert held is not None
    assert list(window.inspector.memory.records.rows.all_rows) == held.rows
