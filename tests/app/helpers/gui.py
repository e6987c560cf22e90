"""The talk before a scripted engine, and nothing said on the side."""

import gc
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.state.preferences import WindowPreferences
from app.state.workbench import Workbench
from app.theme.style import style_sheet
from app.theme.theme import Theme, tokens
from app.views.talk.chat import ChatView
from app.views.talk.composer import Composer
from app.widgets.pictures.loader import PictureLoader
from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.left import forget_widgets

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
HARMLESS = ("This plugin does not support", "OpenType support missing")  # of fonts here


def shown(record: logging.LogRecord) -> bool:
    """Whether it is a problem that the window shows as well, which a test may cause."""
    return record.name == "engine" and record.exc_info is None


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Warnings of Qt and of the log fail the test, whenever they came."""
    said: list[str] = []

    def hear(kind: QtMsgType, context: object, text: str) -> None:
        if kind != QtMsgType.QtDebugMsg and not text.startswith(HARMLESS):
            said.append(text)

    before = qInstallMessageHandler(hear)
    yield
    qInstallMessageHandler(before)
    records = [r for phase in ("setup", "call", "teardown") for r in caplog.get_records(phase)]
    logged = [r.getMessage() for r in records if r.levelno >= logging.WARNING and not shown(r)]
    assert not said, said
    assert not logged, logged


@pytest.fixture
def small_heap() -> None:
    """As in a program of its own: collecting does not walk what other tests have left, which stays
    frozen, as each search through it takes as long as a test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def one_theme(qapp: QApplication) -> Theme:
    """Made once: it stays with the application."""
    return Theme(qapp)


@pytest.fixture
def theme(one_theme: Theme) -> Iterator[Theme]:
    """The light theme, whatever the machine has."""
    one_theme.choose("light")
    one_theme.finish()  # a test before may have left a change of the size under way
    yield one_theme
    one_theme.choose("light")
    one_theme.finish()


@pytest.fixture
def bench(theme: Theme, tmp_path: Path) -> Iterator[Workbench]:
    """All state, with a model open that says what the test lets it say."""
    engine = ScriptedEngine()
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    engine.deliver = bench.client.drain
    bench.open_model(tmp_path / "SmolLM2.gguf")
    engine.load_done()
    yield bench
    bench.close()


@pytest.fixture
def engine(bench: Workbench) -> ScriptedEngine:
    """Who answers."""
    assert isinstance(bench.engine, ScriptedEngine)
    return bench.engine


class Talk(QWidget):
    """The talk as it stands in the window, without the rest of it."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.bench = bench
        loader = PictureLoader(self)
        self.chat, self.composer = ChatView(bench, loader), Composer(bench, loader)
        self.composer.edit_last_wanted.connect(self.chat.edit_last)
        column = QVBoxLayout(self)
        column.addWidget(self.chat, 1)
        column.addWidget(self.composer)
        self.resize(700, 800)


@pytest.fixture
def talk(bench: Workbench, qtbot: QtBot) -> Iterator[Talk]:
    """Shown, with the keyboard in the composer."""
    talk = Talk(bench)
    with qtbot.waitActive(talk):
        talk.show()
        talk.activateWindow()
    talk.composer.field.setFocus()
    yield talk
    talk.close()
    talk.deleteLater()
    forget_widgets()


@pytest.fixture
def ask(
    bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, request: pytest.FixtureRequest
) -> Callable[..., None]:
    """Sends a question, has it answered, waits until the window shows it."""
    with_talk = "talk" in request.fixturenames

    def ask(question: str, *answer: str, end: bool = True) -> None:
        assert bench.chat.send(question)
        if answer:
            engine.write(*answer)
        if end:
            engine.end(n=len(answer))
        QApplication.processEvents()
        if with_talk:
            column = request.getfixturevalue("talk").chat.column
            # Where a turn has no time left, the row is made in a later one.
            qtbot.waitUntil(lambda: not column.following or bool(column.widget(column.count - 1)))

    return ask


@pytest.fixture
def plain(
    theme: Theme,
    qapp: QApplication,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A whole window goes without the style sheet, which is half of what it costs, but for tests
    marked `styled` or `alone`.
    """
    if any(request.node.get_closest_marker(name) for name in ("styled", "alone")):
        yield
        return
    with monkeypatch.context() as patch:
        patch.setattr("app.theme.theme.style_sheet", lambda tokens: "")
        qapp.setStyleSheet("")
        yield
    theme.finish()
    qapp.setStyleSheet(style_sheet(tokens()))  # there again for others


@pytest.fixture
def window(theme: Theme, plain: None, own_home: Path, qtbot: QtBot) -> Iterator[MainWindow]:
    """The whole window before a scripted engine, with no model and an empty home, with the
    inspector open.
    """
    yield from _window(theme, qtbot, WindowPreferences(inspector_shown=True))


@pytest.fixture
def new_window(theme: Theme, plain: None, own_home: Path, qtbot: QtBot) -> Iterator[MainWindow]:
    """The same as it is at the first start."""
    yield from _window(theme, qtbot, WindowPreferences())


def _window(theme: Theme, qtbot: QtBot, layout: WindowPreferences) -> Iterator[MainWindow]:
    engine = ScriptedEngine()
    bench = Workbench(engine)
    engine.deliver = bench.client.drain
    bench.preferences.update(theme="light", window=layout)
    window = MainWindow(bench, theme)
    window.resize(1600, 1000)
    window.show()
    window.start()
    qtbot.waitExposed(window)
    window.activateWindow()
    qtbot.waitUntil(lambda: bench.library.known and not bench.library.looking)
    yield window
    window.close()
    bench.close()
    window.deleteLater()
    forget_widgets()
