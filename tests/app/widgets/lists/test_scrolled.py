"""Rows near the viewport become widgets, a few at a time."""

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

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
    assert len(made) == AT_ONCE
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
