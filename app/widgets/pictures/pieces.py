"""A picture's tokens in the order of the prompt: words as chips, embeddings as small squares."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import CENTER, Paper, text_height, text_width

SQUARE, GAP = 10, 2  # pixels at normal text


@dataclass(frozen=True)
class Token:
    """`text` of words; where that is empty it is an embedding, which may stand for a cell."""

    text: str = ""
    cell: tuple[int, int] | None = None
    learned: bool = False


class PieceStrip(Painted):
    """Left and Right go from token to token; a cell's mark shows which."""

    marked = Signal(int)  # a token's place, by the mouse or the keyboard
    moved_to = Signal(QPoint)  # bring this into view

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.tokens: list[Token] = []
        self.place: int | None = None
        self._areas: list[QRectF] = []

    def show_tokens(self, tokens: Sequence[Token]) -> None:
        """These, with none marked."""
        self.tokens, self.place = list(tokens), None
        self._arrange()

    def mark(self, place: int | None) -> None:
        """Mark a token and bring it into view; emits nothing."""
        self.place = place
        if place is not None:
            self.moved_to.emit(self._areas[place].center().toPoint())
        self.update()

    def area_of(self, place: int) -> QRectF:
        """Where a token is, in this widget."""
        return self._areas[place]

    def sizeHint(self) -> QSize:  # noqa: N802
        bottom = max((area.bottom() for area in self._areas), default=0.0)
        return QSize(200, round(bottom) + GAP)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._arrange()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = event.position()
        place = next((n for n, area in enumerate(self._areas) if area.contains(at)), None)
        if place is not None and place != self.place:
            self.place = place
            self.update()
            self.marked.emit(place)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        last = len(self.tokens) - 1
        at = self.place
        goes = {
            Qt.Key.Key_Left: 0 if at is None else at - 1,
            Qt.Key.Key_Right: 0 if at is None else at + 1,
            Qt.Key.Key_Up: self._across(-1),
            Qt.Key.Key_Down: self._across(1),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        to = goes.get(Qt.Key(event.key()))
        if to is None or last < 0:
            super().keyPressEvent(event)
            return
        self.mark(min(max(to, 0), last))
        self.marked.emit(self.place)

    def draw(self, paper: Paper) -> None:
        now = tokens()
        for place, (token, area) in enumerate(zip(self.tokens, self._areas, strict=True)):
            if not paper.seen.intersects(area):
                continue
            marked, chip = place == self.place, bool(token.text)
            tone = now.raised if chip else now.on("warn" if token.learned else "accent", 0.55)
            paper.fill(area, now.accent if marked else tone, radius=3 if chip else 2)
            if chip:
                ink, font = now.accent_text if marked else now.text, fonts.mono()
                paper.text(area, token.text, tone=ink, align=CENTER, font=font, margin=-GAP)
            elif marked:
                paper.frame(area.adjusted(-1, -1, 1, 1), now.text, 1, 2)
        if self.hasFocus():
            paper.focus(self.rect().toRectF())

    def _across(self, step: int) -> int | None:
        """The token above or below the marked one."""
        if self.place is None:
            return 0
        here = self._areas[self.place]
        lines = sorted({round(area.center().y()) for area in self._areas})
        line = lines.index(round(here.center().y())) + step
        if not 0 <= line < len(lines):
            return self.place
        near = [n for n, a in enumerate(self._areas) if round(a.center().y()) == lines[line]]
        return min(near, key=lambda n: abs(self._areas[n].center().x() - here.center().x()))

    def _arrange(self) -> None:
        font = fonts.mono()
        side, gap = float(fonts.px(SQUARE)), float(GAP)
        line = text_height(font) + 4
        room = max(1.0, self.width() - 2 * gap)
        self._areas, at = [], QPointF(gap, gap)
        for token in self.tokens:
            wide = min(room, text_width(token.text, font) + 8) if token.text else side
            if at.x() > gap and at.x() + wide > room + gap:
                at = QPointF(gap, at.y() + line + gap)
            high = line if token.text else side
            self._areas.append(QRectF(at.x(), at.y() + (line - high) / 2, wide, high))
            at.setX(at.x() + wide + gap)
        self.setMinimumHeight(self.sizeHint().height())
        self.update()
