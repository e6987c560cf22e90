"""Which part of a scene a widget shows, and how large."""

from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QTransform

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

    def bring_in(self, area: QRectF, size: QSizeF) -> None:
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
