"""The window opens whatever its preferences and its file of chats are like."""

import base64
import json
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.window.main_window import MainWindow
from tests.app.helpers.gui import forget_widgets
from tests.app.helpers.scripted import ScriptedEngine

PREFERENCES: dict[str, Any] = {
    "deep": "[" * 100_000,
    "garbage for geometry": {"window": {"geometry": base64.b64encode(bytes(500)).decode()}},
    "no base64": {"window": {"geometry": "A"}},
    "sizes": {"window": {"splitters": {"main": [1 << 62, -1], "talk": [], "x": [0] * 1000}}},
    "names": {"window": {"tab": "nowhere\0"}, "last_model": "x" * 4000, "open_last_model": True},
    "a draft": {"draft": "\0\x1b[2J<img src='file:///dev/zero'>" + "x" * 100_000},
    "numbers": {"font_scale": 1e308, "default_ctx": 1 << 60, "models_folder": "/dev/null"},
}


@pytest.fixture
def config(own_home: Path) -> Path:
    folder = own_home / "config" / "cutaway"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def opened(
    theme: Theme, config: Path, qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> Iterator[list[MainWindow]]:
    """Windows that are closed after the test."""
    windows: list[MainWindow] = []
    with caplog.at_level(logging.ERROR):
        yield windows
        for window in windows:  # each sets the root's level back to what it found
            window.close()
            window.deleteLater()
        forget_widgets()


def bench_of_a_script() -> Workbench:
    engine = ScriptedEngine()
    bench = Workbench(engine)
    engine.deliver = bench.client.drain
    return bench


def show(opened: list[MainWindow], theme: Theme, qtbot: QtBot) -> MainWindow:
    window = MainWindow(bench_of_a_script(), theme)
    opened.append(window)
    window.show()
    window.start()
    qtbot.waitExposed(window)
    assert not window.grab().isNull()
    return window


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", PREFERENCES)
def test_preferences(
    what: str, config: Path, opened: list[MainWindow], theme: Theme, qtbot: QtBot
) -> None:
    content = PREFERENCES[what]
    text = content if isinstance(content, str) else json.dumps(content)
    (config / "preferences.json").write_text(text)
    show(opened, theme, qtbot)


def test_a_file_of_chats_that_another_program_writes_to(
    own_home: Path,
    opened: list[MainWindow],
    theme: Theme,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is something to delete for good, which has to wait."""
    monkeypatch.setattr("app.state.talk.disk.database.BUSY_S", 0.1)
    bench = bench_of_a_script()
    bench.store.create("kept")
    bench.store.create("old")
    bench.close()
    other = sqlite3.connect(own_home / "data" / "cutaway" / "chats.sqlite", isolation_level=None)
    other.execute("UPDATE chats SET deleted = 1.0 WHERE title = 'old'")
    other.execute("BEGIN IMMEDIATE")
    window = show(opened, theme, qtbot)
    assert [row.title for row in window.bench.chats.rows] == ["kept"]
    assert window.bench.notices == []
    other.execute("ROLLBACK")
    other.close()
