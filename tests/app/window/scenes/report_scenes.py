"""The sheet of a report: before, while it is gathered, and when it is there."""

from pathlib import Path

from app.window.main_window import MainWindow
from engine.protocol import DeviceRow, Devices, ListDevices
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.report.test_document import report

ROWS = [
    DeviceRow("intel:0", "AMD EPYC", "Intel", "Intel OpenCL 2026", 24 << 30, 2, True),
    DeviceRow("pocl:0", "pthread-AMD EPYC", "PoCL", "PoCL 3.0", 22 << 30, 2, False, "the same"),
]


def report_form(window: MainWindow) -> None:
    window.sheets.show_report()
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    engine.say(Devices(engine.last_of(ListDevices).id, ROWS))  # type: ignore[attr-defined]


def report_gathered(window: MainWindow) -> None:
    report_form(window)
    state = window.bench.report
    state.report, state.saved = report("passed", "failed"), Path("/reports/cutaway-report.md")
    state.changed.emit()


SCENES = (report_form, report_gathered)
