"""Rows near the viewport become widgets, a few at a time."""

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import turn
from app.widgets.lists.scrolled import AT_ONCE, Row, ScrolledRows


class Plain(Row):
    def heightForWidth(self, width: int) -> int:  # noqa: N802
        return 50


def test_a_jump_makes_few_widgets_before_the_window_has_its_turn(qtbot: QtBot) -> None:
    made: list[int] = []

    def make(row: int) -> Row:
        made.append(row)
        return Plain()

    rows = ScrolledRows(make, lambda rows, width: [40] * len(rows), 600)
    qtbot.addWidget(rows)
    rows.resize(600, 800)
    rows.show()
    rows.set_rows(0, 1000)
    assert made == []  # all are other ones: they are made in a turn of their own
    QApplication.processEvents()
    assert 0 < len(made) <= AT_ONCE  # fewer where the machine is busy
    while len(rows.live) < 16:
        made.clear()
        QApplication.processEvents()
        assert 0 < len(made) <= AT_ONCE
    made.clear()
    rows.require(3)  # this one at once, whatever else is missing
    assert made[0] == 3
    assert len(made) <= AT_ONCE
    bar = rows.verticalScrollBar()
    qtbot.waitUntil(lambda: len([n for n in rows.live if n < 30]) >= 16)
    shown = [row for row in rows.live.values() if 0 <= row.y() < 800 - 50]
    assert len(shown) >= 14
    assert bar.value() < 50 * 4


def test_a_row_appended_where_the_turn_has_no_time_left_is_made_in_the_next(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "BUDGET", 0.0)
    rows = ScrolledRows(lambda _: Plain(), lambda rows, width: [50] * len(rows), 600)
    qtbot.addWidget(rows)
    rows.resize(600, 800)
    rows.show()
    rows.set_rows(0, 1)
    qtbot.waitUntil(lambda: set(rows.live) == {0})
    QApplication.processEvents()
    rows.set_rows(1, 2)
    rows.set_rows(2, 3)
    assert set(rows.live) == {0, 1}
    qtbot.waitUntil(lambda: set(rows.live) == {0, 1, 2})


def test_rows_out_of_sight_are_laid_out_when_they_come_near(qtbot: QtBot) -> None:
    laid: set[int] = set()

    class Counted(Row):
        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

        def heightForWidth(self, width: int) -> int:  # noqa: N802
            laid.add(self.row)
            return 50 if width > 500 else 70

    rows = ScrolledRows(Counted, lambda rows, width: [50] * len(rows), 600)
    qtbot.addWidget(rows)
    rows.resize(640, 400)
    rows.show()
    rows.set_rows(0, 60)
    qtbot.waitUntil(lambda: {59, 58} <= set(rows.live))
    bar = rows.verticalScrollBar()
    bar.setValue(0)
    qtbot.waitUntil(lambda: set(range(15)) <= set(rows.live))
    assert 59 in rows.live  # kept, far below
    laid.clear()
    rows.resize(300, 400)
    QApplication.processEvents()
    assert laid
    assert max(laid) < 20
    assert rows.live[3].height() == 70
    bar.setValue(bar.maximum())
    assert rows.live[59].height() == 70
    assert rows.live[59].width() == rows.live[3].width() < 300
    assert rows.live[59].y() + 70 <= 400
