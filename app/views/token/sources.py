"""The sources of a word as a list: bars, words and percentages."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QSize, Signal

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.views.token.words import percent
from app.widgets.plots.bars import Bar, Bars
from app.widgets.tokens.lights import UNDERLINED, light_colour


class SourceLine(NamedTuple):
    """`strength` is how strongly its word is lit, None where nothing is lit for it."""

    text: str
    share: float
    strength: float | None


class SourceList(Bars):
    """Enter or a click picks a line. In two columns where there is room for them."""

    picked = Signal(int)  # the place of a line
    wide = columns_from = 190
    leading = 4

    def __init__(self) -> None:
        super().__init__("Attention sources")
        self.lines: Sequence[SourceLine] = ()

    def show_lines(self, lines: Sequence[SourceLine]) -> None:
        if list(lines) != list(self.lines):
            self.lines = lines
            self.changed()
            said = ", ".join(f"{line.text} {percent(line.share)}" for line in lines)
            self.setAccessibleDescription(said or self.in_words())

    def stops(self) -> int:
        return len(self.lines)

    def chosen(self) -> bool:
        self.picked.emit(self.at)
        return True

    def bars(self) -> list[Bar]:
        return [_bar(line) for line in self.lines]

    def in_words(self) -> str:
        if not self.lines:
            return "None yet"
        return f"{self.words(self.at)}, {self.at + 1} of {len(self.lines)}"

    def words(self, at: int) -> str:
        return f"{self.lines[at].text} {percent(self.lines[at].share)}"

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(self.wide), self.sizeHint().height())


def _bar(line: SourceLine) -> Bar:
    now, strength = tokens(), line.strength
    shares = [(line.share, mix(now.quiet if strength is None else now.attention, now.panel, 0.7))]
    if strength is None:
        return Bar(line.text, shares, percent(line.share), tone=now.quiet)
    line_below = now.attention if strength >= UNDERLINED else ""
    lit = light_colour(strength)
    return Bar(line.text, shares, percent(line.share), lit=lit, underline=line_below)
