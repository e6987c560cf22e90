"""Steps through numbers: one less, one more, or all of them on average."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.theme import fonts
from app.widgets.basics import TEXT_SIZE, Button, IconButton, label

NUMBER = 40  # pixels


class NumberStepper(QWidget):
    """`stepped` carries -1, +1, or 0 for all; arrow keys step wherever the keyboard is in it."""

    stepped = Signal(int)

    def __init__(self, name: str, all_of_them: str, tip: str) -> None:
        super().__init__()
        self._name, self._all_says = name, all_of_them
        self.before = IconButton(
            "chevron-left", f"{name} before", lambda: self.stepped.emit(-1), 16
        )
        self.after = IconButton("chevron-right", f"Next {name.lower()}", self._up, 16)
        self.all = Button("All", lambda: self.stepped.emit(0), "link", name=tip)
        self._value = label("", "", "strong")
        self._value.setAlignment(Qt.AlignmentFlag.AlignCenter)
        policy = self.all.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # else what stands beside it would jump
        self.all.setSizePolicy(policy)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        row.addWidget(label(name, "quiet"))
        row.addWidget(self.before)
        row.addWidget(self._value)
        row.addWidget(self.after)
        row.addWidget(self.all)
        self._scale()
        self.show_value(None)

    def show_value(self, value: str | None) -> None:
        """A number, or None for all."""
        self._value.setText(self._all_says if value is None else value)
        self._value.setAccessibleName(f"{self._name} {self._value.text()}")
        self.all.setVisible(value is not None)

    @property
    def text(self) -> str:
        return self._value.text()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._scale()

    def _scale(self) -> None:
        self._value.setMinimumWidth(fonts.px(NUMBER))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Down: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: 1,
            Qt.Key.Key_Home: 0,
        }
        key = Qt.Key(event.key())
        if key in steps:
            self.stepped.emit(steps[key])
        else:
            super().keyPressEvent(event)

    def _up(self) -> None:
        self.stepped.emit(1)
