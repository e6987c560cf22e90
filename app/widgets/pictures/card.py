"""A picture in a strip: its thumbnail, its name, and lines about it."""

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from app.language import tr
from app.theme import fonts
from app.theme.icons import pixmap
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CARD, RADIUS_CONTROL
from app.widgets.basics import IconButton
from app.widgets.pictures.loader import PictureLoader
from app.widgets.tips import set_tip

THUMB = 56  # pixels at normal text
TILE = 112  # likewise, of one that stands without words
INSET = 6
LONGEST_NAME = 132  # pixels of a name before it is shortened
KEYS = tr("Enter shows it, Delete removes it, Ctrl+Left and Ctrl+Right move it")


@dataclass(frozen=True)
class Offered:
    """A line of a card's menu: what it is, what it costs, whether it is so now."""

    name: str
    price: str
    chosen: bool


@dataclass(frozen=True)
class PictureItem:
    """The contents of a card; `path` is None while the file is on its way. `bad` is what is wrong,
    and `offered` what the last line may be instead.
    """

    path: Path | None
    name: str
    lines: tuple[str, ...] = ()
    bad: str = ""
    offered: tuple[Offered, ...] = ()


class Card(QWidget):
    """Enter, Space or a click opens it; with `editable` it can be removed and dragged. Without it
    is the picture alone, and the rest is in its tool tip.
    """

    opened = Signal()
    removed = Signal()
    chosen = Signal(int)  # one of what is offered
    step_wanted = Signal(int)  # move it so many places
    next_wanted = Signal(int)  # move the keyboard so many places
    dragged = Signal(QPoint)  # the pointer, in the parent
    dropped = Signal()

    def __init__(self, loader: PictureLoader, editable: bool) -> None:
        super().__init__()
        self._loader, self._editable = loader, editable
        self.item = PictureItem(None, "")
        self.shown: tuple[PictureItem, int, int] | None = None
        self._hint: tuple[QFont, QSize] | None = None
        self._pressed: QPointF | None = None
        self.lifted = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.close_button = IconButton("close", tr("Remove"), self.removed.emit, 14)
        self.close_button.setParent(self)
        self.close_button.setVisible(editable)
        self.more_button = IconButton(
            "chevron-down", tr("Choose its number of tokens"), self._choose, 14
        )
        self.more_button.setParent(self)
        self.more_button.hide()
        loader.ready.connect(self._ready)

    def show_item(self, item: PictureItem, place: int, count: int) -> None:
        """Another picture, or more that is known of it."""
        self.item, self.shown, self._hint = item, (item, place, count), None
        parts = [
            item.name,
            tr("picture {place} of {count}", place=place + 1, count=count),
            *item.lines,
            item.bad,
        ]
        self.setAccessibleName(", ".join(filter(None, parts)))
        self.setAccessibleDescription(KEYS if self._editable else tr("Enter shows it"))
        self.close_button.setAccessibleName(tr("Remove {name}", name=item.name))
        set_tip(self.close_button, tr("Remove {name}", name=item.name))
        set_tip(self, "\n".join(filter(None, (item.name, *item.lines, item.bad))))
        self.more_button.setVisible(self._has_more)
        price = item.lines[-1] if item.lines else ""
        self.more_button.setAccessibleName(
            tr("Tokens of {name}: {price}. Choose", name=item.name, price=price)
        )
        set_tip(self.more_button, tr("Choose the tokens of {name}", name=item.name))
        self._place_buttons()
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        if not self._editable:
            return fonts.square(TILE)
        if self._hint is None or self._hint[0] != fonts.body():
            self._hint = fonts.body(), self._size()
        return self._hint[1]

    def _size(self) -> QSize:
        words = QFontMetrics(fonts.small())
        name = QFontMetrics(fonts.body()).horizontalAdvance(self.item.name)
        about = max((words.horizontalAdvance(line) for line in self._about), default=0)
        if self._has_more:
            last = words.horizontalAdvance(self._about[-1])
            about = max(about, last + self.more_button.sizeHint().width())
        wide = max(min(name, fonts.px(LONGEST_NAME)), about) + 2
        close = self.close_button.sizeHint().width()
        side = fonts.px(THUMB) + 2 * INSET
        return QSize(side + GRID + wide + close + INSET, max(side, self._text_height + 2 * INSET))

    def resizeEvent(self, event: object) -> None:  # noqa: N802
        self._place_buttons()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, held = event.key(), event.modifiers()
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.opened.emit()
        elif self._editable and key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.removed.emit()
        elif self._editable and key in steps and held == Qt.KeyboardModifier.ControlModifier:
            self.step_wanted.emit(steps[Qt.Key(key)])
        elif key in steps:
            self.next_wanted.emit(steps[Qt.Key(key)])
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position()
            event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._pressed is None or not self._editable:
            return
        moved = (event.position() - self._pressed).manhattanLength()
        if self.lifted or moved >= QApplication.startDragDistance():
            self.lifted = True
            self.update()
            self.dragged.emit(self.mapToParent(event.position().toPoint()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._pressed is None:
            return
        self._pressed, lifted = None, self.lifted
        self.lifted = False
        self.update()
        if lifted:
            self.dropped.emit()
        elif self.rect().contains(event.position().toPoint()):
            self.opened.emit()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        if not self._editable:
            self._paint_alone(painter)
            painter.end()
            return
        marked = self.hasFocus() or self.lifted
        edge = now.bad if self.item.bad else now.accent if marked else now.divider
        painter.setPen(QColor(edge))
        over = self.underMouse() or self.lifted
        painter.setBrush(QColor(now.raised if over else now.panel))
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(frame, RADIUS_CARD, RADIUS_CARD)
        side = fonts.px(THUMB)
        self._paint_picture(painter, QRectF(INSET, INSET, side, side))
        self._paint_words(painter, side + INSET + GRID)
        painter.end()

    def _paint_alone(self, painter: QPainter) -> None:
        self._paint_picture(painter, QRectF(self.rect()))
        if self.hasFocus() or self.underMouse():
            painter.setPen(QPen(QColor(tokens().accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            inside = QRectF(self.rect()).adjusted(1, 1, -1, -1)
            painter.drawRoundedRect(inside, RADIUS_CONTROL, RADIUS_CONTROL)

    @property
    def _about(self) -> tuple[str, ...]:
        return (BROKEN,) if self.item.bad else self.item.lines

    @property
    def _text_height(self) -> int:
        small = QFontMetrics(fonts.small()).height()
        return QFontMetrics(fonts.body()).height() + small * max(1, len(self._about))

    @property
    def _has_more(self) -> bool:
        return self._editable and len(self.item.offered) > 1 and not self.item.bad

    def _place_buttons(self) -> None:
        """One in the corner, one behind the last line."""
        size = self.close_button.sizeHint()
        self.close_button.setGeometry(self.width() - size.width() - 2, 2, *size.toTuple())
        if self._has_more:
            words, size = QFontMetrics(fonts.small()), self.more_button.sizeHint()
            left = fonts.px(THUMB) + INSET + GRID
            room = self.width() - left - INSET - size.width()
            line = fitting(self._about[-1], words, room)
            middle = (self.height() + self._text_height - words.height()) / 2
            left += min(words.horizontalAdvance(line), room) - 2
            self.more_button.setGeometry(left, round(middle - size.height() / 2), *size.toTuple())

    def _choose(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setAccessibleName(self.more_button.accessibleName())
        for place, offered in enumerate(self.item.offered):
            line = menu.addAction(f"{offered.name}\t{offered.price}")
            line.setCheckable(True)
            line.setChecked(offered.chosen)
            line.triggered.connect(lambda _, place=place: self.chosen.emit(place))
            if offered.chosen:
                menu.setActiveAction(line)
        menu.popup(self.more_button.mapToGlobal(self.more_button.rect().bottomLeft()))

    def _paint_words(self, painter: QPainter, left: int) -> None:
        now = tokens()
        room = self.width() - left - INSET
        close = self.close_button.width()
        top = (self.height() - self._text_height) / 2
        painter.setFont(fonts.body())
        painter.setPen(QColor(now.text))
        metrics = painter.fontMetrics()
        name = metrics.elidedText(self.item.name, Qt.TextElideMode.ElideMiddle, room - close)
        painter.drawText(QRectF(left, top, room, metrics.height()), 0, name)
        top += metrics.height()
        painter.setFont(fonts.small())
        painter.setPen(QColor(now.bad if self.item.bad else now.quiet))
        height = painter.fontMetrics().height()
        for n, line in enumerate(self._about, 1):
            beside = self.more_button.width() if self._has_more and n == len(self._about) else 0
            shown = fitting(line, painter.fontMetrics(), room - beside)
            painter.drawText(QRectF(left, top, room, height), 0, shown)
            top += height

    def _paint_picture(self, painter: QPainter, area: QRectF) -> None:
        path = self.item.path
        loaded = self._loader.thumbnail(path) if path is not None else None
        paint_thumbnail(painter, area, loaded.image if loaded is not None else None)

    def _ready(self, path: Path) -> None:
        if path == self.item.path:
            self.update()


BROKEN = tr("can't be opened")
DOT = "  ·  "


def fitting(line: str, metrics: QFontMetrics, room: float) -> str:
    """Shorten a line by whole parts, between dots, until it fits: no number is cut off."""
    while metrics.horizontalAdvance(line) > room and DOT in line:
        line = line.rpartition(DOT)[0]
    return line


def paint_thumbnail(painter: QPainter, area: QRectF, image: QImage | None) -> None:
    """The middle of a picture that fills the area; a mark while it is not there, or broken."""
    now = tokens()
    shape = QPainterPath()
    shape.addRoundedRect(area, RADIUS_CONTROL, RADIUS_CONTROL)
    painter.save()
    painter.setClipPath(shape)
    painter.fillRect(area, QColor(now.raised))
    if image is None or image.isNull():
        side = fonts.px(20)
        ratio = painter.device().devicePixelRatioF()
        name = "picture" if image is None else "warning"
        mark = pixmap(name, now.quiet if image is None else now.bad, side, ratio)
        painter.drawPixmap(area.center() - QPointF(side / 2, side / 2), mark)
    else:
        scale = max(area.width() / image.width(), area.height() / image.height())
        w, h = area.width() / scale, area.height() / scale
        middle = QRectF((image.width() - w) / 2, (image.height() - h) / 2, w, h)
        painter.drawImage(area, image, middle)
    painter.restore()
