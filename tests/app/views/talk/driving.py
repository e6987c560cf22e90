"""How tests reach a message and press its buttons."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

from app.views.talk.message import MessageView
from tests.app.helpers.gui import Talk


def view(talk: Talk, row: int) -> MessageView:
    made = talk.chat.column.require(row)
    assert isinstance(made, MessageView)
    QApplication.processEvents()
    return made


def button(root: QWidget, name: str) -> QAbstractButton:
    seen = [b for b in root.findChildren(QAbstractButton) if b.isVisibleTo(root)]
    named = [b for b in seen if b.accessibleName().startswith(name)]
    assert len(named) == 1, [b.accessibleName() for b in seen]
    return named[0]


def click(root: QWidget, name: str) -> None:
    QTest.mouseClick(button(root, name), Qt.MouseButton.LeftButton)
    QApplication.processEvents()
