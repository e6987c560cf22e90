"""The log."""

import logging

from app.state.log import LogLine
from app.window.main_window import MainWindow


def line(level: int, source: str, text: str, details: str = "") -> LogLine:
    return LogLine(1.0, level, source, text, details)


def test_the_log_is_filtered(window: MainWindow) -> None:
    view, log = window.drawer.log, window.bench.log
    log.take(
        [
            line(logging.INFO, "engine", "opening a model"),
            line(logging.WARNING, "fetch", "slow"),
            line(logging.ERROR, "engine", "no room", "Traceback\n  of many lines"),
        ]
    )
    texts = [row.text for row in view.table.rows.shown][-3:]
    assert texts == ["opening a model", "slow", "no room"]
    view.level.setCurrentText("Warnings and up")
    assert [row.text for row in view.table.rows.shown] == ["slow", "no room"]
    view.source.setCurrentText("engine")
    assert [row.text for row in view.table.rows.shown] == ["no room"]
    window.drawer.show_line("no room")
    assert view.details.isVisible()
    assert "many lines" in view.details.toPlainText()
    view.source.setCurrentIndex(0)
    view.table.query.setText("SLOW")
    assert [row.text for row in view.table.rows.shown] == ["slow"]
