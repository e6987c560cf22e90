"""Selecting and copying in the talk."""

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.app.helpers.gui import Talk
from tests.app.views.talk.driving import view
from tests.app.views.talk.test_chat import MANY, Ask


def test_a_selection_runs_across_blocks(talk: Talk, ask: Ask) -> None:
    ask("Q", MANY)
    body = view(talk, 1).body
    assert body is not None
    first, last = body.laid[0], body.laid[4]
    start = QPoint(first.left, first.top + first.height // 2)
    end = QPointF(last.left + last.width, last.top + 5).toPoint()
    QTest.mousePress(body, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(body, end)
    QTest.mouseRelease(body, Qt.MouseButton.LeftButton, pos=end)
    # Offscreen, a moved mouse has no button down, so the drag's end is set as Shift+click.
    QTest.mouseClick(body, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, end)
    QTest.keyClick(body, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().text()
    assert copied == "First.\n\n• one\n• two\n\nx = 1\n\nThe last paragraph."


def test_select_all_and_leaving_lets_go(talk: Talk, ask: Ask) -> None:
    ask("Q", "| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd **here**.")
    body = view(talk, 1).body
    assert body is not None
    body.setFocus()
    QTest.keyClick(body, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert body.selected_text == "a\tb\n1\t2\n\nEnd here."
    talk.composer.field.setFocus()
    assert body.selected_text == ""


def test_drawing_a_selection_beyond_the_edge_scrolls(talk: Talk, ask: Ask) -> None:
    ask("Q", *["A line.\n\n"] * 100)
    shown, bar = view(talk, 1), talk.chat.column.verticalScrollBar()
    assert shown.body is not None
    shown.body.finish()
    QApplication.processEvents()
    talk.chat.column.follow()
    end = bar.value()
    top = -shown.body.mapTo(talk.chat.column.viewport(), QPoint(0, 0)).y()
    shown.body.dragged.emit(top - 50)
    assert bar.value() == end - 50
    shown.body.dragged.emit(top + 100)
    assert bar.value() == end - 50
