"""One picture: as large as there is room, or pixel by pixel."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.plots.paper import CENTER, Paper
from app.widgets.plots.stage import Stage

STEP = 64  # pixels that an arrow key moves the picture
_MOVES = {
    Qt.Key.Key_Left: (1, 0),
    Qt.Key.Key_Right: (-1, 0),
    Qt.Key.Key_Up: (0, 1),
    Qt.Key.Key_Down: (0, -1),
}


class PictureCanvas(Stage):
    """Shows an image that stands for a picture of `size`. At 100 % it can be dragged, zoomed, and
    moved with the arrow keys. A double click, or Enter, goes from one to the other.
    """

    zoom_wanted = Signal()
    margin = 0.0

    def __init__(self) -> None:
        super().__init__(tr("Picture"))
        self._image = QImage()
        self._size = QSize()
        self._description = ""
        self.pixel_by_pixel = False
        self.setMinimumSize(fonts.px(160), fonts.px(120))

    def show_image(self, image: QImage, size: QSize) -> None:
        """This picture; the image may have fewer pixels than it."""
        another = size != self._size
        self._image, self._size, self._description = image, size, ""
        if another:
            self.set_pixel_by_pixel(self.pixel_by_pixel)
        self.update()

    def say(self, text: str) -> None:
        """Words in place of a picture."""
        self._image, self._description = QImage(), text
        self.setAccessibleDescription(text)
        self.update()

    def set_pixel_by_pixel(self, on: bool) -> None:
        self.pixel_by_pixel = on
        self.fit_all()
        if on:
            self.camera.scale = 1 / self.devicePixelRatioF()
            self.camera.look_at(self.whole().center(), self.room())
            self.released()
        self.rest_cursor()

    @property
    def pixels(self) -> QSize:
        """How many of the picture's pixels are here to be shown."""
        return self._image.size()

    @property
    def area(self) -> QRectF:
        """Where the whole picture lies, in this widget."""
        return self.camera.transform().mapRect(self.whole())

    def whole(self) -> QRectF:
        return QRectF(QPointF(), self._size.toSizeF())

    def largest(self) -> float:
        return 1.0

    def movable(self) -> bool:
        return self.pixel_by_pixel

    def settle(self) -> None:
        if self.pixel_by_pixel:
            self.camera.keep_within(self.whole(), self.room(), 0.0)

    def rest_cursor(self) -> None:
        shape = Qt.CursorShape.OpenHandCursor if self.movable() else Qt.CursorShape.ArrowCursor
        self.setCursor(shape)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = Qt.Key(event.key())
        back = key in (Qt.Key.Key_0, Qt.Key.Key_Home) and self.pixel_by_pixel
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) or back:
            self.zoom_wanted.emit()
        elif key in _MOVES and self.movable():
            self.move_by(QPointF(*_MOVES[key]) * STEP)
        else:
            super().keyPressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.zoom_wanted.emit()

    def draw_scene(self, paper: Paper) -> None:
        if self._image.isNull():
            room = self.rect().toRectF()
            paper.wrapped(room, self._description, tokens().quiet, CENTER, fonts.body())
            return
        whole = self._image.width() >= self._size.width()
        smooth = not (self.pixel_by_pixel and whole)
        area = self.area
        seen = QRectF(self.rect()) & area
        scale = self._image.width() / max(1.0, area.width())
        source = QRectF((seen.topLeft() - area.topLeft()) * scale, seen.size() * scale)
        paper.image(seen, self._image, smooth, source)
