"""Running text as chips, a word above a number, wrapped like a paragraph."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QResizeEvent

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import DEVICES, RADIUS_CONTROL, mix
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import CENTER, Paper, text_width

GAP, HEIGHT = 3, 42
MOST = 5000  # chips painted; more say how many are left out


@dataclass(frozen=True)
class Chip:
    """`breaks` begins a new line after it; `strong` stands out."""

    text: str
    number: str
    strong: bool = False
    breaks: bool = False


class Chips(Chart):
    """Arrows walk over the chips."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._chips: Sequence[Chip] = ()
        self._areas: list[QRectF] = []

    def show_chips(self, chips: Sequence[Chip]) -> None:
        self._chips, self._at = chips[:MOST], 0
        self._place()
        said = " ".join(f"{chip.text} {chip.number}," for chip in self._chips[:200])
        self.setAccessibleDescription(said)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(200, self.minimumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._place()

    def areas(self) -> list[QRectF]:
        return self._areas

    def words(self, at: int) -> str:
        return f"{self._chips[at].text} {self._chips[at].number}"

    def draw(self, paper: Paper) -> None:
        now, text_font, small = tokens(), fonts.mono(13), fonts.mono(10)
        for at, (chip, area) in enumerate(zip(self._chips, self._areas, strict=True)):
            if not area.intersects(paper.seen):
                continue
            under = now.raised if chip.strong else DEVICES[at % len(DEVICES)]
            share = 1.0 if chip.strong else 0.24 if now.dark else 0.16
            paper.fill(area, mix(under, now.panel, share), radius=RADIUS_CONTROL)
            if self.hasFocus() and at == self.at:
                paper.frame(area, now.accent, 2, RADIUS_CONTROL)
            half = area.height() * 0.58
            upper = QRectF(area.left(), area.top() + 1, area.width(), half)
            tone = now.link if chip.strong else now.text
            paper.text(upper, chip.text, tone=tone, align=CENTER, font=text_font, margin=-GAP)
            lower = QRectF(area.left(), area.top() + half, area.width(), area.height() - half - 2)
            paper.text(lower, chip.number, tone=now.quiet, align=CENTER, font=small, margin=-GAP)

    def _place(self) -> None:
        text, small = fonts.mono(13), fonts.mono(10)
        height, width = fonts.px(HEIGHT), max(self.width(), 80)
        left = top = 0.0
        self._areas = []
        for chip in self._chips:
            wide = max(text_width(chip.text, text), text_width(chip.number, small))
            wide = min(wide + 10, width)
            if left and left + wide > width:
                left, top = 0.0, top + height + GAP
            self._areas.append(QRectF(left, top, wide, height))
            left += wide + GAP
            if chip.breaks:
                left, top = 0.0, top + height + GAP
        self.setMinimumHeight(round(top + height) if self._chips else 0)
        self.update()
