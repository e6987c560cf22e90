"""A device's memory while a step runs, as a small map: time to the right, addresses upwards."""

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.devices import device_look
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.numbers import grouped, kib
from engine.protocol import ArenaLife, ArenaMap

HEIGHT = 96


class ArenaView(QWidget):
    """All that lives in one chunk of an arena, one of which is marked; a click picks another."""

    picked = Signal(int)  # a node

    def __init__(self) -> None:
        super().__init__()
        self._arena: ArenaMap | None = None
        self._life, self._steps = -1, 1
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Place in the arena")
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_life(self, arena: ArenaMap | None, life: int, steps: int) -> None:
        """`life` is one of the arena's; nothing is shown for -1."""
        self._arena, self._life, self._steps = arena, life, max(steps, 1)
        self.setAccessibleDescription(describe_life(arena, life))
        self.setVisible(arena is not None and life >= 0)
        self.update()

    def area_of(self, life: ArenaLife) -> QRectF:
        """Where a life of the chunk is painted."""
        assert self._arena is not None
        return self._place(life.chunk, life.offset, life.size, life.first, life.last)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._arena is None or self._life < 0:
            return
        chunk, at = self._arena.lives[self._life].chunk, event.position()
        lives = [life for life in self._arena.lives if life.chunk == chunk and life.node >= 0]
        there = [life for life in lives if self.area_of(life).contains(at)]
        if there:
            self.picked.emit(min(there, key=lambda life: life.last - life.first).node)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(160), fonts.px(HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        arena, now = self._arena, tokens()
        if arena is None or self._life < 0:
            return
        painter = QPainter(self)
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        marked = arena.lives[self._life]
        colour = mix(device_look(arena.device).colour, now.canvas, 0.4)
        painter.fillRect(area, QColor(now.canvas))
        painter.setPen(Qt.PenStyle.NoPen)
        if marked.chunk == 0 and arena.inputs:
            inputs = self._place(0, 0, arena.inputs, 0, self._steps - 1)
            painter.fillRect(inputs, QColor(now.divider))
        painter.setBrush(QColor(colour))
        painter.drawRects(
            [self.area_of(life) for life in arena.lives if life.chunk == marked.chunk]
        )
        own = self.area_of(marked)
        painter.fillRect(own, QColor(now.accent))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(now.accent), 2))
        painter.drawRect(own.adjusted(-2, -2, 2, 2) & area)
        painter.setPen(QPen(QColor(now.divider), 1))
        painter.drawRect(area)
        painter.end()

    def _place(self, chunk: int, offset: int, size: int, first: int, last: int) -> QRectF:
        """Bytes of a chunk from step `first` to `last`."""
        assert self._arena is not None
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        whole = max(self._arena.chunks[chunk], 1)
        left = area.left() + area.width() * first / self._steps
        right = area.left() + area.width() * (last + 1) / self._steps
        bottom = area.bottom() - area.height() * offset / whole
        high = area.height() * size / whole
        return QRectF(left, bottom - high, max(right - left, 1.0), max(high, 1.0))


def describe_life(arena: ArenaMap | None, life: int) -> str:
    """Address and time of a life in words."""
    if arena is None or life < 0:
        return ""
    one = arena.lives[life]
    chunk = f"chunk {one.chunk} of " if len(arena.chunks) > 1 else ""
    return (
        f"{kib(one.size)} KiB at byte {grouped(one.offset)} of {chunk}the arena of {arena.device}"
        f" ({kib(arena.chunks[one.chunk])} KiB), from moment {one.first} to {one.last}"
    )
