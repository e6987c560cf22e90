"""A card above a widget, such as the settings above the message field."""

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import TEXT_SIZE, surface
from app.widgets.layouts import vbox

WIDTH = 448  # pixels
NARROWEST = 280
ENOUGH = 0.6  # of the window's height, for a card that scrolls


class Popover(QFrame):
    """Its `inside` scrolls where there is no room; Esc hides it."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAccessibleName(name)
        self._place: QWidget | None = None
        self._wanted = WIDTH
        surface(self, "card")
        self.inside = QWidget()
        self.area = QScrollArea()
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidgetResizable(True)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        vbox(self.area, on=self, margins=1)

    def show_above(self, place: QWidget, wanted: int = WIDTH) -> None:
        """Open it above a widget, inside its screen, at most so many pixels wide at normal text. It
        covers the widget only where little of the window is above it.
        """
        self._place, self._wanted = place, wanted
        screen = place.screen().availableGeometry()
        room = min(place.window().height(), screen.height()) - 2 * GRID
        top = max(screen.top(), place.window().mapToGlobal(QPoint()).y())
        above = place.mapToGlobal(QPoint()).y() - top - GRID
        room = above if above > ENOUGH * room else room
        width = min(fonts.px(wanted), max(NARROWEST, place.window().width() - 2 * GRID))
        layout = self.inside.layout()
        tall = layout is not None and layout.hasHeightForWidth()
        height = self.inside.sizeHint().height()
        if tall and layout is not None:
            height = max(height, layout.totalHeightForWidth(width - 2))
        height += 4
        scrolls = self.area.verticalScrollBar().sizeHint().width() if height > room else 0
        self.setFixedSize(width + scrolls, min(height, room))
        corner = place.mapToGlobal(QPoint(0, -self.height() - GRID // 2))
        corner.setX(max(screen.left(), min(corner.x(), screen.right() - self.width())))
        corner.setY(max(screen.top(), corner.y()))
        self.move(corner)
        self.show()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE and self.isVisible():
            QTimer.singleShot(0, self, self._fit)  # once all in it is of the new size

    def _fit(self) -> None:
        if self._place is not None and self.isVisible():
            self.show_above(self._place, self._wanted)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape:
            self.hide()
        else:
            super().keyPressEvent(event)
