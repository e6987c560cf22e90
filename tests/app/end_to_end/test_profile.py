"""An answer recorded by a real engine, from the button to the time line and the saved trace."""

import json
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.state.profile.recorded import chrome_trace
from app.views.profile.profile import ProfileView
from app.window.main_window import MainWindow
from engine.settings import EngineOptions

CTRL = Qt.KeyboardModifier.ControlModifier


def test_an_answer_is_recorded(first_window: MainWindow, tiny_path: Path, qtbot: QtBot) -> None:
    window, bench = first_window, first_window.bench
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=256))
    qtbot.waitUntil(lambda: bench.session.status == "ready")
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_6, CTRL)
    view = window.inspector.view(ProfileView)
    view.record_empty.click()
    assert bench.chat.send("Hello")
    qtbot.waitUntil(lambda: bench.session.vitals.n_generated > 12 or not bench.chat.busy)
    if bench.chat.busy:
        bench.chat.stop()
    qtbot.waitUntil(lambda: bench.profile.latest is not None)
    qtbot.waitUntil(lambda: not bench.chat.busy)
    answer = bench.profile.latest
    assert answer is not None
    assert answer.devices == ["host"]
    assert answer.n_steps("prefill") >= 1
    assert answer.n_steps("decode") >= 5
    assert not bench.profile.recording
    names = {kind.name for kind in answer.record.kinds}
    assert {"Qcur-0", "l_out-1", "result_output"} <= names
    for step, by in ((s, "operation") for s in ("prefill", "decode")):
        busy = sum(total.ns for total in answer.totals(by, step))  # type: ignore[arg-type]
        assert 0 < busy <= answer.step_ns(step), "launches lie within their steps"  # type: ignore[arg-type]
    lanes = view.time_line.lanes
    assert [lane.name for lane in lanes.lanes] == ["H steps", "H host"]
    assert len(lanes.lanes[1].starts) == len(answer.kinds)
    bench.selection.select_layer(1)
    launch = view.time_line.launch_at()
    assert launch is not None
    assert answer.kind(launch).name.endswith("-1")
    assert json.dumps(chrome_trace(answer))
