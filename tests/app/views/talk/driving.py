"""How tests reach a message and press its buttons."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

from app.state.talk.message import Message
from app.views.talk.message import MessageView
from tests.app.helpers.gui import Talk


def open_stored(talk: Talk, *turns: tuple[str, str]) -> int:
    """Open a chat that an earlier program has stored, of questions and answers: nothing is asked
    of the engine.
    """
    store, last = talk.bench.store, None
    with store.together():
        chat = store.create(turns[0][0])
        for question, answer in turns:
            asked = Message(0, chat, last, "user", question, 1.0)
            store.add(asked)
            answered = Message(0, chat, asked.id, "assistant", answer, 1.0, finish="stop")
            store.add(answered)
            last = answered.id
    talk.bench.chats.refresh()
    talk.bench.chat.open(chat)
    QApplication.processEvents()
    return chat


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
