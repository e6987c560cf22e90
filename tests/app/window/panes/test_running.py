"""What runs beside the talk is said at the bottom, and leads to its view."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.views.tensors.tensors import TensorsView
from app.window.main_window import MainWindow
from engine.protocol import Generate
from tests.app.helpers.recorded import recorded
from tests.app.helpers.scripted import ScriptedEngine


def test_a_recording_is_said_until_it_is_there(window: MainWindow, client: ScriptedEngine) -> None:
    line = window.drawer.running
    assert not line.recording.isVisible()
    window.bench.profile.record(True)
    assert line.recording.isVisible()
    QTest.mouseClick(line.recording, Qt.MouseButton.LeftButton)
    assert window.inspector.tab == "profile"
    assert window.bench.chat.send("Again")
    assert line.recording.isVisible()
    client.say(recorded(client.last_of(Generate).id))  # type: ignore[attr-defined]
    client.end()
    assert not line.recording.isVisible()


def test_a_pinned_probe_is_said_until_it_is_let_go(
    window: MainWindow, client: ScriptedEngine
) -> None:
    line = window.drawer.running
    assert not line.probing.isVisible()
    window.bench.probes.pin(r"a&b|l_out-\d+|<b>" + "x" * 40)
    assert line.probing.isVisible()
    assert line.probing.text().startswith(r"probe a&&b|l_out-\d+|<b>")
    assert line.probing.text().endswith("…")
    line.probing.setFocus()
    QTest.keyClick(line.probing, Qt.Key.Key_Space)
    assert window.inspector.tab == "tensors"
    assert window.inspector.view(TensorsView).probes.isVisible()
    window.bench.probes.unpin()
    assert not line.probing.isVisible()


def test_a_click_anywhere_on_the_line_opens_the_log(window: MainWindow) -> None:
    drawer = window.drawer
    for widget in (drawer.errors, drawer.latest):
        at = widget.mapTo(window, widget.rect().center())
        QTest.mouseClick(window.windowHandle(), Qt.MouseButton.LeftButton, pos=at)
        assert drawer.is_open
        at = widget.mapTo(window, widget.rect().center())
        QTest.mouseClick(window.windowHandle(), Qt.MouseButton.LeftButton, pos=at)
        assert not drawer.is_open
