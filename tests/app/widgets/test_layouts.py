"""Boxes: what is in them, their gaps, and who gets the room."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.theme.tokens import GRID
from app.widgets.layouts import SPARE, STRETCH, Gap, hbox, vbox


def height_of_the_part(qtbot: QtBot, gap: Gap, factor: int) -> int:
    whole, part = QWidget(), QWidget()
    qtbot.addWidget(whole)
    part.setMinimumHeight(10)
    vbox((part, factor), gap, on=whole, spacing=0)
    whole.resize(50, 100)
    whole.show()
    QApplication.processEvents()
    return part.height()


def test_a_gap_shares_the_room_or_takes_what_is_left(qtbot: QtBot) -> None:
    assert height_of_the_part(qtbot, STRETCH, 1) == 50
    assert height_of_the_part(qtbot, SPARE, 1) == 100


def test_margins_and_spacing(qapp: QApplication) -> None:
    whole = QWidget()
    inner = hbox(QWidget(), QWidget())
    outer = vbox(inner, 5, QWidget(), on=whole, margins=(1, 2, 3, 4))
    margins = outer.contentsMargins()
    assert (margins.left(), margins.top(), margins.right(), margins.bottom()) == (1, 2, 3, 4)
    assert (outer.spacing(), inner.spacing()) == (GRID, GRID)
    assert outer.itemAt(1).minimumSize().height() == 5
    assert vbox(on=QWidget(), margins=7, spacing=0).contentsMargins().top() == 7


def test_parts_have_a_factor_or_an_alignment(qapp: QApplication) -> None:
    left, right = QWidget(), QWidget()
    box = hbox((left, 3), (right, Qt.AlignmentFlag.AlignTop))
    assert (box.stretch(0), box.stretch(1)) == (3, 0)
    assert box.itemAt(1).alignment() == Qt.AlignmentFlag.AlignTop
