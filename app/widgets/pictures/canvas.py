"""One picture: as large as there is room, or pixel by pixel."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.theme import fonts
from app.theme.theme import tokens

STEP = 64  # pixels that an arrow key moves the picture


class PictureCanvas(QWidget):
    """Shows an image that stands for a picture of `size`; at 100 % it can be dragged and moved
    with the arrow keys. A double click, or Enter, goes from one to the other.
    """

    zoom_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._image = QImage()
        self._size = QSize()
        self._says = ""
        self._middle = QPointF(0.5, 0.5)  # of what is seen, as a part of the picture
        self._held: QPointF | None = None
        self.pixel_by_pixel = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Picture")
        self.setMinimumSize(fonts.px(160), fonts.px(120))

    def show_image(self, image: QImage, size: QSize) -> None:
        """This picture; the image may have fewer pixels than it."""
        self._image, self._size, self._says = image, size, ""
        self.update()

    def say(self, text: str) -> None:
        """Words in place of a picture."""
        self._image, self._says = QImage(), text
        self.setAccessibleDescription(text)
        self.update()

    def set_pixel_by_pixel(self, on: bool) -> None:
        self.pixel_by_pixel, self._middle = on, QPointF(0.5, 0.5)
        shape = Qt.CursorShape.OpenHandCursor if on else Qt.CursorShape.ArrowCursor
        self.setCursor(shape)
        self.update()

    @property
    def pixels(self) -> QSize:
        """How many of the picture's pixels are here to be shown."""
        return self._image.size()

    @property
    def area(self) -> QRectF:
        """Where the whole picture lies, in this widget."""
        wide, high = float(self._size.width()), float(self._size.height())
        if not self.pixel_by_pixel:
            scale = min(1.0, self.width() / max(1, wide), self.height() / max(1, high))
            wide, high = wide * scale, high * scale
            return QRectF((self.width() - wide) / 2, (self.height() - high) / 2, wide, high)
        ratio = self.devicePixelRatioF()
        wide, high = wide / ratio, high / ratio
        return QRectF(
            _edge(self.width(), wide, self._middle.x()),
            _edge(self.height(), high, self._middle.y()),
            wide,
            high,
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        keys = Qt.Key
        steps = {
            keys.Key_Left: (1, 0),
            keys.Key_Right: (-1, 0),
            keys.Key_Up: (0, 1),
            keys.Key_Down: (0, -1),
        }
        step = steps.get(keys(event.key()))
        if event.key() in (keys.Key_Return, keys.Key_Enter):
            self.zoom_wanted.emit()
        elif step is not None and self.pixel_by_pixel:
            self._move(QPointF(*step) * STEP)
        else:
            super().keyPressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.zoom_wanted.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self.pixel_by_pixel:
            self._held = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._held is not None:
            self._move(event.position() - self._held)
            self._held = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._held = None

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        if self._image.isNull():
            painter.setPen(QColor(now.quiet))
            words = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.rect(), int(words), self._says)
        else:
            whole = self._image.width() >= self._size.width()
            smooth = not (self.pixel_by_pixel and whole)
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
            seen, area = QRectF(self.rect()) & self.area, self.area
            scale = self._image.width() / max(1.0, area.width())
            source = QRectF((seen.topLeft() - area.topLeft()) * scale, seen.size() * scale)
            painter.drawImage(seen, self._image, source)
        if self.hasFocus():
            painter.setPen(QColor(now.accent))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _move(self, by: QPointF) -> None:
        area = self.area
        x = self._middle.x() - by.x() / max(1.0, area.width())
        y = self._middle.y() - by.y() / max(1.0, area.height())
        self._middle = QPointF(min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0))
        self.update()


def _edge(room: float, length: float, middle: float) -> float:
    """Where a side begins: in the middle where there is room, else never away from the edges."""
    if length <= room:
        return (room - length) / 2
    return min(0.0, max(room - length, room / 2 - middle * length))
