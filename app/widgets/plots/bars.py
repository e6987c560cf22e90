"""A list of bars (a name, one or two shares over each other, a number, a note), and a bar of
segments.
"""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL, mix
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import LEFT, RIGHT, Paper, text_height, text_width

WIDEST_NUMBER = "< 0.1 %"
LEAST_BAR, THICK = 24, 8


class Bar(NamedTuple):
    """`shares` are drawn over each other, each from 0 to 1 in its colour. `lit` is the colour below
    the name, with a line in the colour `underline`. Of `notes` the first that fits is written.
    """

    name: str
    shares: Sequence[tuple[float, str]]
    number: str
    notes: Sequence[str] = ()
    tone: str = ""
    strong: bool = False
    struck: bool = False
    lit: str = ""
    underline: str = ""


class Bars(Chart):
    """A line for each bar. Up and Down walk too."""

    upright = hand = True
    names, margin = 96, 0.0  # pixels of a name, beside the bars
    leading = 5  # pixels between lines
    columns_from = 1 << 30  # pixels of a column, from which on there are two
    widest_note = ""  # the room for notes; none without one
    titles: tuple[Sequence[str], Sequence[str]] = ((), ())  # above numbers and notes

    def bars(self) -> Sequence[Bar]:
        raise NotImplementedError

    def stops(self) -> int:
        return len(self.bars())

    def letters(self) -> QFont:
        """The font of names."""
        return fonts.small()

    def top(self) -> float:
        """Pixels above the first bar."""
        return self.line() if any(self.titles) else 0.0

    def line(self) -> float:
        """Pixels of a bar's line."""
        return text_height() + self.leading

    def areas(self) -> list[QRectF]:
        return [self.row_area(at) for at in range(self.stops())]

    def row_area(self, at: int) -> QRectF:
        """The place of a bar's line."""
        columns = self._columns()
        deep = max(-(-self.stops() // columns), 1)
        wide = (self.width() - 2 * self.margin - GRID * (columns - 1)) / columns
        left = self.margin + at // deep * (wide + GRID)
        return QRectF(left, self.top() + at % deep * self.line(), wide, self.line())

    def tall(self) -> float:
        return self.top() + -(-self.stops() // self._columns()) * self.line()

    def draw(self, paper: Paper) -> None:
        bars, now = self.bars(), tokens()
        if any(self.titles):
            _, number, note = self._split(QRectF(0, 0, self.width(), self.line()))
            number.setLeft(fonts.px(self.names))
            for area, texts in zip((number, note), self.titles, strict=True):
                paper.text(area, *texts, tone=now.quiet, align=RIGHT)
        for at, (bar, area) in enumerate(zip(bars, self.areas(), strict=True)):
            if at == self.hovered:
                paper.fill(area, now.selection, radius=RADIUS_CONTROL)
            self._draw_bar(paper, bar, area)
            if self.hasFocus() and at == self.at:
                inside = area.adjusted(0.5, 0.5, -0.5, -0.5)
                paper.frame(inside, now.accent, 1, RADIUS_CONTROL)

    def _draw_bar(self, paper: Paper, bar: Bar, area: QRectF) -> None:
        now, font = tokens(), self.letters()
        ground, number, note = self._split(area)
        font.setBold(bar.strong)
        font.setStrikeOut(bar.struck)
        name = QRectF(area.left() + 4, area.top(), ground.left() - area.left() - 8, area.height())
        if bar.lit:
            wide = min(text_width(bar.name, font), name.width()) + 4
            lit = QRectF(name.left() - 2, name.top() + 1, wide, name.height() - 2)
            paper.fill(lit, bar.lit)
            if bar.underline:
                paper.line([lit.bottomLeft(), lit.bottomRight()], bar.underline)
        paper.elided(name, bar.name, bar.tone, LEFT, font)
        paper.fill(ground, now.raised, radius=2)
        for share, tone in bar.shares:
            if share:
                wide = max(1.0, ground.width() * min(share, 1.0))
                part = QRectF(ground.left(), ground.top(), wide, ground.height())
                paper.fill(part, tone, radius=2)
        paper.text(number, bar.number, tone=now.text, align=RIGHT)
        paper.text(note, *bar.notes, tone=now.quiet, align=RIGHT)

    def _split(self, area: QRectF) -> tuple[QRectF, QRectF, QRectF]:
        """The places of a line's bar, its number and its note."""
        number = text_width(WIDEST_NUMBER) + GRID
        note = text_width(self.widest_note) + GRID if self.widest_note else 0.0
        name = min(fonts.px(self.names), area.width() - number - note - fonts.px(LEAST_BAR))
        if note and area.width() - fonts.px(self.names) - number - note < fonts.px(40):
            name, note = fonts.px(self.names), number
        room = max(area.width() - name - number - note, 4.0)
        bar = QRectF(area.left() + name, area.center().y() - THICK / 2, room, THICK)
        numbers = QRectF(bar.right(), area.top(), number - 2, area.height())
        notes = QRectF(bar.right() + number + GRID, area.top(), note - GRID, area.height())
        return bar, numbers, notes

    def _columns(self) -> int:
        room = 2 * fonts.px(self.columns_from) + GRID
        return 2 if self.width() >= room and self.stops() > 4 else 1


HEIGHT = 10
THIN = 0.5  # pixels; narrower segments are painted with the next one


class Segment(NamedTuple):
    """`tone` is a token of the theme, by `share` over the panel."""

    size: float
    tone: str
    share: float


class SegmentBar(Chart):
    """Segments from the left, together at most the whole. `pointed` carries the one under the
    mouse, None for none.
    """

    pointed = Signal(object)

    def __init__(self, width: int) -> None:
        super().__init__(focus=False)
        self.segments: Sequence[Segment] = ()
        self.whole, self._width = 1.0, width
        self.marked: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_segments(self, segments: Sequence[Segment], whole: float) -> None:
        self.segments = segments
        self.whole = max(whole, sum(segment.size for segment in segments), 1e-9)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return fonts.square(HEIGHT).expandedTo(QSize(fonts.px(self._width), 0))

    def areas(self) -> list[QRectF]:
        places, left = [], 0.0
        for segment in self.segments:
            wide = segment.size / self.whole * self.width()
            places.append(QRectF(left, 0, wide, self.height()))
            left += wide
        return places

    def hovers(self, at: int | None) -> None:
        self.marked = at
        self.pointed.emit(at)

    def draw(self, paper: Paper) -> None:
        now = tokens()
        with paper.rounded(self.rect().toRectF(), 3):
            paper.fill(self.rect().toRectF(), now.divider)
            height, scale = self.height(), self.width() / self.whole
            end = painted = 0.0
            for n, segment in enumerate(self.segments):  # thousands, of which few are wide enough
                end += segment.size * scale
                if end - painted < THIN and n != self.marked:
                    continue
                left, painted = painted, end
                share = 1.0 if n == self.marked else segment.share
                gap = 1 if end - left > 3 and n + 1 < len(self.segments) else 0
                colour = mix(getattr(now, segment.tone), now.panel, share)
                paper.fill(QRectF(left, 0, end - left - gap, height), colour)
