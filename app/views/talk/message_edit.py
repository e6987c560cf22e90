"""A message being written anew, in its place."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.state.talk.message import Message
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, surface
from app.widgets.controls.growing_edit import GrowingEdit


class MessageEdit(QFrame):
    """`done` carries the new text. Esc leaves all as it was."""

    done = Signal(str)
    cancelled = Signal()

    def __init__(self, message: Message, send_key: str) -> None:
        super().__init__()
        surface(self, "card")
        question = message.role == "user"
        self.field = GrowingEdit("Edit the message", takes_escape=True)
        self.field.submits_on_enter = send_key == "enter" and question
        self.field.set_text(message.text)
        self.field.submitted.connect(self._submit)
        self.field.cancelled.connect(self.cancelled)
        self.field.textChanged.connect(self._refresh)
        hint = "The chat goes on from here as a branch." if question else "Kept as a branch."
        self._send = Button("Send" if question else "Keep", self._submit, "primary")
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(label(hint, "quiet", "small"))
        row.addStretch(1)
        row.addWidget(Button("Cancel", self.cancelled.emit, "flat"))
        row.addWidget(self._send)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.field)
        column.addLayout(row)
        QWidget.setTabOrder(self.field, self._send)

    def _submit(self) -> None:
        if self.field.text.strip():
            self.done.emit(self.field.text)

    def _refresh(self) -> None:
        self._send.setEnabled(bool(self.field.text.strip()))
