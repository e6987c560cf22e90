"""A device's memory while a step runs, as a small map: time to the right, addresses upwards."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.devices import device_look
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.numbers import grouped, kib
from engine.protocol import ArenaMap

HEIGHT = 96


class ArenaView(QWidget):
    """All that lives in one chunk of an arena, one of which is marked."""

    def __init__(self) -> None:
        super().__init__()
        self._arena: ArenaMap | None = None
        self._life, self._steps = -1, 1
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Place in the arena")

    def show_life(self, arena: ArenaMap | None, life: int, steps: int) -> None:
        """`life` is one of the arena's; nothing is shown for -1."""
        self._arena, self._life, self._steps = arena, life, max(steps, 1)
        self.setAccessibleDescription(describe_life(arena, life))
        self.setVisible(arena is not None and life >= 0)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(160), fonts.px(HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        arena, now = self._arena, tokens()
        if arena is None or self._life < 0:
            return
        painter = QPainter(self)
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        marked = arena.lives[self._life]
        whole = max(arena.chunks[marked.chunk], 1)
        colour = mix(device_look(arena.device).colour, now.canvas, 0.4)
        painter.fillRect(area, QColor(now.canvas))
        painter.setPen(Qt.PenStyle.NoPen)

        def place(offset: int, size: int, first: int, last: int) -> QRectF:
            left = area.left() + area.width() * first / self._steps
            right = area.left() + area.width() * (last + 1) / self._steps
            bottom = area.bottom() - area.height() * offset / whole
            high = area.height() * size / whole
            return QRectF(left, bottom - high, max(right - left, 1.0), max(high, 1.0))

        if marked.chunk == 0 and arena.inputs:
            painter.fillRect(place(0, arena.inputs, 0, self._steps - 1), QColor(now.divider))
        painter.setBrush(QColor(colour))
        painter.drawRects(
            [
                place(life.offset, life.size, life.first, life.last)
                for life in arena.lives
                if life.chunk == marked.chunk
            ]
        )
        own = place(marked.offset, marked.size, marked.first, marked.last)
        painter.fillRect(own, QColor(now.accent))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(now.accent), 2))
        painter.drawRect(own.adjusted(-2, -2, 2, 2) & area)
        painter.setPen(QPen(QColor(now.divider), 1))
        painter.drawRect(area)
        painter.end()


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
