"""The base of widgets with a camera: a scene that is zoomed and panned by mouse and keyboard."""

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent, QTransform, QWheelEvent
from PySide6.QtWidgets import QSizePolicy

from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper

SMALLEST, LARGEST = 0.01, 4.0
MARGIN = 20.0  # pixels around what is fitted


class Camera:
    """`scale` pixels for each unit of the scene, whose point `left`, `top` is at the corner."""

    def __init__(self) -> None:
        self.scale = 1.0
        self.left = self.top = 0.0

    def transform(self) -> QTransform:
        """From the scene to the widget."""
        moved = QTransform.fromScale(self.scale, self.scale)
        return moved.translate(-self.left, -self.top)

    def visible(self, size: QSizeF) -> QRectF:
        """What is seen of the scene in a widget of that size."""
        return QRectF(self.left, self.top, size.width() / self.scale, size.height() / self.scale)

    def scene_point(self, at: QPointF) -> QPointF:
        return QPointF(self.left + at.x() / self.scale, self.top + at.y() / self.scale)

    def fit(
        self, area: QRectF, size: QSizeF, most: float = LARGEST, margin: float = MARGIN
    ) -> None:
        """Show all of an area in the middle, at most `most` times as large as it is."""
        room_x, room_y = max(size.width() - 2 * margin, 1), max(size.height() - 2 * margin, 1)
        wanted = min(room_x / max(area.width(), 1), room_y / max(area.height(), 1), most)
        self.scale = min(max(wanted, SMALLEST), LARGEST)
        self.look_at(area.center(), size)

    def look_at(self, point: QPointF, size: QSizeF) -> None:
        """Bring a point of the scene to the middle."""
        self.left = point.x() - size.width() / 2 / self.scale
        self.top = point.y() - size.height() / 2 / self.scale

    def show_area(self, area: QRectF, size: QSizeF) -> None:
        """Move as little as it takes to see an area of the scene with a margin."""
        edge = MARGIN / self.scale
        seen = self.visible(size)
        wanted = area.adjusted(-edge, -edge, edge, edge)
        if not seen.contains(wanted):
            self.left += max(wanted.right() - seen.right(), 0) or min(
                wanted.left() - seen.left(), 0
            )
            self.top += max(wanted.bottom() - seen.bottom(), 0) or min(wanted.top() - seen.top(), 0)

    def keep_within(self, area: QRectF, size: QSizeF, margin: float = MARGIN) -> None:
        """Show no more than a margin beyond an area; one that is smaller than the widget is in its
        middle.
        """
        edge, seen = margin / self.scale, self.visible(size)
        room, middle = area.adjusted(-edge, -edge, edge, edge), area.center()
        self.left = min(max(self.left, room.left()), room.right() - seen.width())
        self.top = min(max(self.top, room.top()), room.bottom() - seen.height())
        if room.width() <= seen.width():
            self.left = middle.x() - seen.width() / 2
        if room.height() <= seen.height():
            self.top = middle.y() - seen.height() / 2

    def move(self, by: QPointF) -> None:
        """As a hand moves it, in pixels."""
        self.left -= by.x() / self.scale
        self.top -= by.y() / self.scale

    def zoom(self, factor: float, at: QPointF) -> None:
        """Larger or smaller, while the point under `at` stays where it is."""
        fixed = self.scene_point(at)
        self.scale = min(max(self.scale * factor, SMALLEST), LARGEST)
        self.left = fixed.x() - at.x() / self.scale
        self.top = fixed.y() - at.y() / self.scale


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
