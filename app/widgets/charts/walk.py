"""A painted row of things that arrows walk over."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QWidget


class Walk(QWidget):
    """Left and Right go round, Home and End to the ends, Enter chooses. `at` is the present one."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def stops(self) -> int:
        """How many things there are."""
        raise NotImplementedError

    def walked(self) -> None:
        """Called when another one is the present one."""

    def chosen(self) -> bool:
        """Called by Enter; whether it means anything."""
        return False

    @property
    def at(self) -> int:
        """Always one of those there are; 0 where there is none."""
        return self._at % max(self.stops(), 1)

    def go(self, at: int) -> None:
        """Make one the present one."""
        self._at = at % max(self.stops(), 1)
        self.update()
        self.walked()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        places = {
            Qt.Key.Key_Left: self.at - 1,
            Qt.Key.Key_Right: self.at + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: -1,
        }
        key = Qt.Key(event.key())
        if self.stops() and key in places:
            self.go(places[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.stops() and self.chosen():
            return
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.update()
