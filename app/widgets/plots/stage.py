"""The base of what is looked at through a camera: zoomed and moved by mouse and keyboard."""

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy

from app.widgets.plots.camera import LARGEST, MARGIN, Camera
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper

STEP, TURN = 1.25, 120.0  # zoomed by a key or a notch of the wheel, of so many eighths of a degree
DRAGGED = 4  # pixels from which on a press is no click
_Key = Qt.Key
_MOVES = {
    _Key.Key_Left: (1, 0),
    _Key.Key_Right: (-1, 0),
    _Key.Key_Up: (0, 1),
    _Key.Key_Down: (0, -1),
}


class Stage(Painted):
    """The wheel, + and - zoom; a drag, the wheel with Shift and arrows with Shift move; 0 and Home
    show all.
    """

    margin, nudge = MARGIN, 60.0  # pixels around what is fitted, and moved by a key

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.camera = Camera()
        self._area: QRectF | None = None  # what is fitted until somebody moves
        self._pressed: QPointF | None = None
        self._at: QPointF | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def whole(self) -> QRectF | None:
        """All of the scene."""
        return None

    def largest(self) -> float:
        """The scale that fitting does not pass."""
        return LARGEST

    def movable(self) -> bool:
        """Whether it can be zoomed and moved now."""
        return True

    def draw_scene(self, paper: Paper) -> None:
        raise NotImplementedError

    def clicked_at(self, place: QPointF) -> None:
        """The person clicked there without a drag."""

    def settle(self) -> None:
        """The camera was moved, zoomed, or has another size of the widget."""

    # The camera

    def fit(self, area: QRectF) -> None:
        """Show all of an area of the scene until somebody moves."""
        self._area = area
        self.camera.fit(area, self.room(), self.largest(), self.margin)
        self.update()

    def fit_all(self) -> None:
        whole = self.whole()
        if whole is not None:
            self.fit(whole)

    def room(self) -> QSizeF:
        return QSizeF(self.size())

    def move_by(self, by: QPointF) -> None:
        """As a hand moves it, in pixels."""
        if self.movable():
            self.camera.move(by)
            self.released()

    def zoom(self, factor: float, at: QPointF) -> None:
        """Larger or smaller, about a place of the widget."""
        if self.movable():
            self.camera.zoom(factor, at)
            self.released()

    def released(self) -> None:
        """The camera is where somebody wants it: nothing is fitted any more."""
        self._area = None
        self.settle()
        self.update()

    def rest_cursor(self) -> None:
        """Show the cursor of a scene that is not being moved."""
        self.unsetCursor()

    def draw(self, paper: Paper) -> None:
        self.draw_scene(paper)
        if self.hasFocus():
            paper.focus(self.rect().toRectF())

    # Events

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        turned = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier or turned.x():
            self.move_by(QPointF(turned.x() or turned.y(), 0) / 2)
        else:
            self.zoom(STEP ** (turned.y() / TURN), event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._pressed = self._at = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._pressed is None or self._at is None:
            return
        far = (event.position() - self._pressed).manhattanLength() > DRAGGED
        if far and self.movable():
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.move_by(event.position() - self._at)
            self._at = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        pressed, self._pressed = self._pressed, None
        self.rest_cursor()
        if pressed and (event.position() - pressed).manhattanLength() <= DRAGGED:
            self.clicked_at(event.position())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, middle = _Key(event.key()), QPointF(self.rect().center())
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and key in _MOVES:
            self.move_by(QPointF(*_MOVES[key]) * self.nudge)
        elif key in (_Key.Key_Plus, _Key.Key_Equal, _Key.Key_Minus):
            self.zoom(1 / STEP if key == _Key.Key_Minus else STEP, middle)
        elif key in (_Key.Key_0, _Key.Key_Home):
            self.fit_all()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if self._area is not None:
            self.fit(self._area)
        else:
            self.settle()
