"""The graph's view before a scripted engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.views.graph.graph import GraphView
from app.window.main_window import MainWindow
from engine.protocol import DeviceRow, ListDevices
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.graph.driving import GRAPH, tell

CTRL = Qt.KeyboardModifier.ControlModifier
Key = Qt.Key


@pytest.fixture
def client(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


@pytest.fixture
def view(
    window: MainWindow, client: ScriptedEngine, qtbot: QtBot, tiny_path: Path
) -> Iterator[GraphView]:
    """Of a model that is open, on two devices."""
    window.bench.open_model(tiny_path)
    client.load_done()
    QTest.keyClick(window.windowHandle(), Key.Key_4, CTRL)
    view = window.inspector.view(GraphView)
    assert "Reading" in view.caption.text()
    tell(client, GRAPH)
    client.answer(
        ListDevices,
        [DeviceRow(name, "", "", "", 1 << 30, 2, False) for name in ("intel:0", "pocl:0")],
    )
    qtbot.waitUntil(lambda: view.canvas.scene is not None)
    yield view
    view.hide()
