"""The sheet of a report: started, followed, stopped and saved, by the keyboard too."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.report.contents import Report, ReportWanted
from app.state import report as state_of_report
from app.window.main_window import MainWindow
from engine.errors import BadSetting
from tests.app.report.test_document import report
from tests.app.report.test_gather import DEVICES, known, small
from tests.app.window.scenes.report_scenes import report_form

__all__ = ["known", "small"]


def test_from_the_keyboard_to_a_file(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ReportWanted] = []
    go_on = Event()

    def gather(wanted: ReportWanted, tell: Callable[..., None], stop: Callable[[], bool]) -> Report:
        asked.append(wanted)
        tell("pocl:0: self test, case 3 of 9", 0.25, 1.0)
        go_on.wait()
        return report("passed")

    monkeypatch.setattr(state_of_report, "gather", gather)
    report_form(window)
    view, state = window.sheets.report, window.bench.report
    view.device.setCurrentIndex(2)
    view.tune.setChecked(True)
    assert QApplication.focusWidget() is view.start
    QTest.keyClick(view.start, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.bar.value() == 250)
    assert asked == [ReportWanted(("pocl:0",), False, True)]
    assert view.doing.text() == "pocl:0: self test, case 3 of 9"
    assert QApplication.focusWidget() is view.cancel
    assert not view.save.isVisible()
    go_on.set()
    qtbot.waitUntil(view.save.isVisible)
    assert "computes correctly: 1 checks passed" in view.found.text()
    chosen = str(tmp_path / "mine")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (chosen, ""))
    view.save.click()
    qtbot.waitUntil(view.open.isVisible)
    assert state.saved == tmp_path / "mine.md"
    assert (tmp_path / "mine.md").read_text("utf-8").startswith("# Cutaway on ")


def test_cancelled_while_a_device_says_nothing(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Event()

    def gather(wanted: ReportWanted, tell: object, stop: Callable[[], bool]) -> Report:
        while not stop():
            heard.wait(0.01)
        heard.set()
        return report("passed")

    monkeypatch.setattr(state_of_report, "gather", gather)
    report_form(window)
    view, state = window.sheets.report, window.bench.report
    view.start.click()
    assert state.is_busy
    QTest.keyClick(view.cancel, Qt.Key.Key_Space)
    assert not state.is_busy
    assert view.start.isVisible()
    qtbot.waitUntil(heard.is_set)
    QTest.qWait(50)
    assert state.report is None


def test_what_goes_wrong_is_told(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gather(*_: object) -> Report:
        raise BadSetting("--device", "gone:0", "an OpenCL device")

    monkeypatch.setattr(state_of_report, "gather", gather)
    report_form(window)
    view, state = window.sheets.report, window.bench.report
    view.start.click()
    qtbot.waitUntil(lambda: "gone:0" in view.caption.text())
    state.report = report("passed")
    state.save(tmp_path / "gone" / "a.md")
    qtbot.waitUntil(lambda: "no such folder" in view.caption.text())
    assert not view.open.isVisible()


def test_the_chooser_leads_there(window: MainWindow) -> None:
    window.sheets.show_chooser()
    window.sheets.chooser.options.report.click()
    assert window.sheets.report.isVisible()


@pytest.mark.full
@pytest.mark.device
@pytest.mark.usefixtures("known", "nothing_left")
def test_a_real_device(window: MainWindow, qtbot: QtBot) -> None:
    report_form(window)
    view, state = window.sheets.report, window.bench.report
    state.start(ReportWanted((DEVICES[0],)))
    qtbot.waitUntil(lambda: not state.is_busy)
    assert state.report is not None, state.problem
    assert "computes correctly" in view.found.text()
