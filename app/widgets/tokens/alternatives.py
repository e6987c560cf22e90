"""A card of what else could have come: a bar and a share for each alternative."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, ROW_COMPACT, mix
from app.widgets.plots.bars import Bar, Bars
from app.widgets.plots.paper import LEFT, Paper

WIDTH = 300
TITLE = 52
FOOT = 28


class OtherToken(NamedTuple):
    """An alternative; `share` from 0 to 1. `taken` marks the one that came."""

    text: str
    share: float
    taken: bool


class AlternativesCard(Bars):
    """Floats over the window beside its token. `picked` carries the index of a choice."""

    picked = Signal(int)
    left = Signal()
    names, margin = 104, 8.0

    def __init__(self, parent: QWidget) -> None:
        super().__init__(tr("Alternatives of the token"), focus=False)
        self.setParent(parent)
        self._over = parent
        self.title = self.subtitle = self.hint = ""
        self.choices: Sequence[OtherToken] = ()
        self.hide()

    def show_choices(
        self, title: str, subtitle: str, choices: Sequence[OtherToken], hint: str, beside: QRect
    ) -> None:
        """Fill it and show it below `beside`, a rectangle of the parent, or above."""
        self.title, self.subtitle, self.choices, self.hint = title, subtitle, choices, hint
        self.hovered = None
        height = fonts.px(TITLE) + round(len(choices) * self.line()) + fonts.px(FOOT)
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
        self.setAccessibleDescription(self.all_words)

    @property
    def all_words(self) -> str:
        """All of it in words."""
        text = ", ".join(f"{choice.text} {_percent(choice.share)}" for choice in self.choices)
        return tr(
            "{title}, {subtitle}. Alternatives: {text}",
            title=self.title,
            subtitle=self.subtitle,
            text=text,
        )

    def mark(self, step: int) -> None:
        """Move the mark by a row."""
        if self.choices:
            at = -1 if self.hovered is None else self.hovered
            self.hovered = (at + step) % len(self.choices)
            self.update()

    @property
    def marked(self) -> int | None:
        """The choice that a click or Enter takes."""
        return self.hovered

    def clicked(self, at: int) -> None:
        self.picked.emit(at)

    def tip(self, place: QPointF) -> str:
        return ""

    def bars(self) -> list[Bar]:
        now = tokens()
        quiet = mix(now.quiet, now.panel, 0.65)
        return [
            Bar(
                choice.text,
                [(choice.share, now.accent if choice.taken else quiet)],
                _percent(choice.share),
                strong=choice.taken,
            )
            for choice in self.choices
        ]

    def letters(self) -> QFont:
        return fonts.mono()

    def top(self) -> float:
        return fonts.px(TITLE)

    def line(self) -> float:
        return fonts.px(ROW_COMPACT + 2)

    def draw(self, paper: Paper) -> None:
        now = tokens()
        paper.card(self.rect().toRectF())
        inside = QRectF(12, 4, self.width() - 24, fonts.px(TITLE) / 2)
        paper.elided(inside, self.title, now.text, LEFT, fonts.mono(14))
        inside.translate(0, inside.height() - 4)
        paper.elided(inside, self.subtitle, now.quiet)
        high = fonts.px(FOOT)
        foot = QRectF(12, self.height() - high, self.width() - 24, high - 2)
        paper.elided(foot, self.hint, now.quiet)
        super().draw(paper)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.left.emit()


def _percent(share: float) -> str:
    if share >= 0.9995:
        return "100 %"
    if share >= 0.0995:
        return f"{share * 100:.0f} %"
    if share >= 0.001:
        return tr("{share:.1f} %", share=share * 100)
    return "< 0.1 %"
