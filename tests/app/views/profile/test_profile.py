"""The Profile view: recording on demand, each page, selection from it and to it, saved files."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.state.selection import Selected
from app.views.profile.profile import ProfileView
from app.widgets.basics import IconButton
from app.window.main_window import MainWindow
from engine.protocol import DeviceRoof, Finished, Generate, Load, Look, MeasureRoofs, Stats
from tests.app.helpers.painted import faults, overlapping
from tests.app.helpers.recorded import recorded
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest

CTRL = Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def view(window: MainWindow, client: ScriptedEngine) -> ProfileView:
    """Shown, with an answer recorded."""
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_6, CTRL)
    view = window.inspector.view(ProfileView)
    assert view.isVisible()
    return view


def answered(window: MainWindow, client: ScriptedEngine, us: int = 10) -> None:
    """Another answer, recorded."""
    assert window.bench.chat.send("Again")
    number = client.last_of(Generate).id  # type: ignore[attr-defined]
    client.say(recorded(number, us=us))
    client.say(Finished(number, "stop", Stats(9, 0, 4, 0.1, 0.1, 0.1, 0.1, 7, 13)))
    QTest.qWait(10)


@pytest.fixture
def shown(window: MainWindow, view: ProfileView, client: ScriptedEngine) -> ProfileView:
    answered(window, client)
    return view


def test_the_next_answer_is_recorded_and_no_other(
    window: MainWindow, view: ProfileView, client: ScriptedEngine
) -> None:
    assert view.record_empty.isVisible()
    QTest.mouseClick(view.record_empty, LEFT)
    assert view.record_empty.text() == "Stop recording"
    assert window.bench.chat.send("Again")
    asked = client.last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.live.record
    client.write("An answer")
    client.say(recorded(asked.id))
    client.end()
    assert view.time_line.lanes.isVisible()
    assert "4 tokens in 4 steps" in view.status.text()
    assert "recording cost +10 %" in view.status.text()
    assert window.bench.chat.send("And again")
    asked = client.last_of(Generate)
    assert isinstance(asked, Generate)
    assert not asked.live.record
    client.write("Another")
    view.record.click()
    look = client.last_of(Look)
    assert isinstance(look, Look)
    assert look.live.record, "also the one under way"
    client.end()


def test_a_launch_selects_and_what_is_selected_is_shown(
    window: MainWindow, shown: ProfileView
) -> None:
    selection, lanes = window.bench.selection, shown.time_line.lanes
    assert [lane.name for lane in lanes.lanes][0] == "H steps"
    assert lanes.at is not None
    lanes.setFocus()
    QTest.keyClick(lanes, Qt.Key.Key_Down)
    now = selection.now
    assert now.operation is not None
    assert now.device in ("intel:0", "nvidia:0")
    assert now.layer is not None
    assert now.operation.endswith(f"-{now.layer}")
    selection.select_layer(3)
    launch = shown.time_line.launch_at()
    answer = window.bench.profile.latest
    assert launch is not None
    assert answer is not None
    assert answer.kind(launch).name == "Qcur-3"
    assert selection.now == Selected((selection.now.token), layer=3), "showing selects nothing"
    selection.select_operation("l_out-2", 2, "intel:0")
    launch = shown.time_line.launch_at()
    assert launch is not None
    assert answer.kind(launch).name == "l_out-2"


def test_sums_by_each_measure_select(window: MainWindow, shown: ProfileView) -> None:
    selection = window.bench.selection
    shown.tabs.setCurrentIndex(1)
    assert shown.totals.isVisible()
    assert [row[0].name for row in shown.totals.rows.shown] == ["MUL_MAT", "ADD", "ROPE"]
    text = shown.totals.text().splitlines()
    assert text[1].split("\t")[:4] == ["MUL_MAT", "16", "0.0400", "76.9"]

    def pick(row: int) -> None:
        shown.totals.view.setFocus()
        index = shown.totals.rows.index(row, 0)
        QTest.mouseClick(
            shown.totals.view.viewport(), LEFT, pos=shown.totals.view.visualRect(index).center()
        )

    pick(0)
    assert selection.now.operation is not None
    assert selection.now.operation.startswith("Qcur-")
    shown.by.setCurrentIndex(shown.by.findData("layer"))
    pick(2)
    name = shown.totals.rows.shown[2][0].name
    assert f"layer {selection.now.layer}" == name
    shown.by.setCurrentIndex(shown.by.findData("device"))
    pick(0)
    assert selection.now.device == shown.totals.rows.shown[0][0].name
    shown.phase.setCurrentIndex(shown.phase.findData("prefill"))
    assert shown.totals.rows.shown[0][0].count == 6


def test_the_roofline(
    window: MainWindow,
    shown: ProfileView,
    client: ScriptedEngine,
    tiny_path: Path,
    tmp_path: Path,
    qtbot: QtBot,
) -> None:
    shown.tabs.setCurrentIndex(2)
    roof = shown.roofline
    assert not roof.dots.lines
    roof.measure.click()
    assert not roof.measure.isEnabled()
    client.answer(MeasureRoofs, [DeviceRoof("intel:0", 20e9, 100e9), DeviceRoof("x", 0, 0)])
    assert not roof.measure.isVisible()
    assert [line.name for line in roof.dots.lines] == ["roof of intel:0"]
    (dot,) = [d for d in roof.dots.dots if d.description.startswith("gemv Q4_1 on intel:0")]
    assert (dot.x, dot.y) == (pytest.approx(2), pytest.approx(8))
    assert "20 % of the device's limit" in dot.description
    roof.dots.setFocus()
    QTest.keyClick(roof.dots, Qt.Key.Key_Right)
    assert window.bench.selection.now.operation is not None
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_path.read_bytes())
    window.bench.open_model(other)
    qtbot.waitUntil(lambda: sum(isinstance(one, Load) for one in client.asked) == 2)
    client.load_done()
    assert not roof.dots.lines, "another model has other devices"


def test_two_answers_are_compared(
    window: MainWindow, shown: ProfileView, client: ScriptedEngine
) -> None:
    shown.tabs.setCurrentIndex(3)
    assert shown.alone.isVisible()
    answered(window, client, us=15)
    assert not shown.alone.isVisible()
    row = shown.differences.text().splitlines()[1].split("\t")
    assert row == ["MUL_MAT", "0.0400", "0.0600", "+0.0200"]


def test_a_recording_is_saved(
    shown: ProfileView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    path = tmp_path / "a.json"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    (save,) = [b for b in shown.findChildren(IconButton) if "trace" in b.accessibleName()]
    save.click()
    qtbot.waitUntil(lambda: shown.status.text().startswith("Saved a."))
    assert json.loads(path.read_text())["traceEvents"]
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "no" / "a.json"), "")
    )
    save.click()
    qtbot.waitUntil(lambda: "cannot be written" in shown.status.text())


@pytest.mark.full_cases(r"\[(0\.75|1\.0)")  # at all sizes in window/test_legible.py
@pytest.mark.parametrize("scale", [0.75, 1.0, 2.0])
@pytest.mark.styled
def test_legible(window: MainWindow, shown: ProfileView, scale: float) -> None:
    window.bench.preferences.update(font_scale=scale)
    for width in (640, 1100, 1600):
        window.resize(width, 700)
        window.panes.show_tab("profile")
        for page in range(4):
            shown.tabs.setCurrentIndex(page)
            come_to_rest(window, window.bench)
            assert [*faults(window), *overlapping(window)] == [], (width, page)
