"""A card of what else could have come: a bar and a share for each alternative."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CARD, ROW_COMPACT, mix

WIDTH = 300
TITLE = 52
FOOT = 28


class OtherToken(NamedTuple):
    """An alternative; `share` from 0 to 1. `taken` marks the one that came."""

    text: str
    share: float
    taken: bool


class AlternativesCard(QWidget):
    """Floats over the window beside what it tells of. `chosen` carries the index of a choice."""

    chosen = Signal(int)
    left = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self.title = self.subtitle = self.hint = ""
        self.choices: Sequence[OtherToken] = ()
        self.marked: int | None = None
        self.setMouseTracking(True)
        self.setAccessibleName("Alternatives of the token")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()

    def show_choices(
        self, title: str, subtitle: str, choices: Sequence[OtherToken], hint: str, beside: QRect
    ) -> None:
        """Fill it and show it below `beside`, a rectangle of the parent, or above."""
        self.title, self.subtitle, self.choices, self.hint = title, subtitle, choices, hint
        self.marked = None
        height = fonts.px(TITLE) + len(choices) * self._row + fonts.px(FOOT)
        room = self._over.rect()
        width = min(fonts.px(WIDTH), room.width() - 2 * GRID)
        left = min(max(GRID, beside.left() - GRID), room.width() - width - GRID)
        top = beside.bottom() + 4
        if top + height > room.height() - GRID and beside.top() - 4 - height > GRID:
            top = beside.top() - 4 - height
        self.setGeometry(left, top, width, height)
        self.raise_()
        self.show()
        self.update()
        self.setAccessibleDescription(self.words)

    @property
    def words(self) -> str:
        """All of it in words."""
        said = ", ".join(f"{choice.text} {_percent(choice.share)}" for choice in self.choices)
        return f"{self.title}, {self.subtitle}. Alternatives: {said}"

    def mark(self, step: int) -> None:
        """Move the mark by a row."""
        if self.choices:
            at = -1 if self.marked is None else self.marked
            self.marked = (at + step) % len(self.choices)
            self.update()

    @property
    def _row(self) -> int:
        return fonts.px(ROW_COMPACT + 2)

    def _choice_at(self, point: QPoint) -> int | None:
        at = (point.y() - fonts.px(TITLE)) // self._row
        return at if 0 <= at < len(self.choices) else None

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(mix(now.faint, now.panel, 0.6)))
        painter.setBrush(QColor(now.panel))
        frame = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(frame, RADIUS_CARD, RADIUS_CARD)
        left, inner = 12, self.width() - 24
        painter.setFont(fonts.mono(14))
        painter.setPen(QColor(now.text))
        metrics = painter.fontMetrics()
        title = metrics.elidedText(self.title, Qt.TextElideMode.ElideRight, inner)
        painter.drawText(left, 8 + metrics.ascent(), title)
        painter.setFont(fonts.small())
        painter.setPen(QColor(now.quiet))
        painter.drawText(left, fonts.px(TITLE) - 10, self.subtitle)
        top = fonts.px(TITLE)
        for n, choice in enumerate(self.choices):
            self._paint_choice(painter, n, choice, QRectF(0, top + n * self._row, 0, self._row))
        painter.setFont(fonts.small())
        painter.setPen(QColor(now.quiet))
        painter.drawText(
            QRectF(left, self.height() - fonts.px(FOOT), inner, fonts.px(FOOT) - 2),
            int(Qt.AlignmentFlag.AlignVCenter),
            self.hint,
        )
        painter.end()

    def _paint_choice(self, painter: QPainter, n: int, choice: OtherToken, place: QRectF) -> None:
        now = tokens()
        row = QRectF(6, place.top(), self.width() - 12, place.height())
        if n == self.marked:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(now.selection))
            painter.drawRoundedRect(row, 4, 4)
        names, numbers = fonts.px(104), fonts.px(52)
        painter.setFont(fonts.mono())
        painter.setPen(QColor(now.text))
        metrics = painter.fontMetrics()
        name = metrics.elidedText(choice.text, Qt.TextElideMode.ElideRight, names - 4)
        middle = int(Qt.AlignmentFlag.AlignVCenter)
        painter.drawText(QRectF(12, row.top(), names, row.height()), middle, name)
        room = self.width() - 24 - names - numbers
        bar = QRectF(12 + names, row.center().y() - 4, room, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(now.raised))
        painter.drawRoundedRect(bar, 2, 2)
        bar.setWidth(max(2.0, room * choice.share))
        painter.setBrush(QColor(now.accent if choice.taken else mix(now.quiet, now.panel, 0.65)))
        painter.drawRoundedRect(bar, 2, 2)
        font = fonts.small()
        font.setBold(choice.taken)
        painter.setFont(font)
        painter.setPen(QColor(now.text))
        painter.drawText(
            QRectF(self.width() - 12 - numbers, row.top(), numbers, row.height()),
            int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight),
            _percent(choice.share),
        )

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.marked = self._choice_at(event.position().toPoint())
        hand = Qt.CursorShape.PointingHandCursor
        self.setCursor(Qt.CursorShape.ArrowCursor if self.marked is None else hand)
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = self._choice_at(event.position().toPoint())
        if at is not None and event.button() == Qt.MouseButton.LeftButton:
            self.chosen.emit(at)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.left.emit()


def _percent(share: float) -> str:
    if share >= 0.9995:
        return "100 %"
    if share >= 0.0995:
        return f"{share * 100:.0f} %"
    if share >= 0.001:
        return f"{share * 100:.1f} %"
    return "< 0.1 %"
