"""Answers painted by how sure the model was, with what else could have come."""

from collections.abc import Sequence
from math import exp, log2

from PySide6.QtCore import QRect, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.theme.tokens import GRID
from app.views.talk.message_row import MessageRow
from app.widgets.layouts import vbox
from app.widgets.tokens.alternatives import AlternativesCard, OtherToken
from app.widgets.tokens.bands import Measure, band_of_draft, band_of_entropy, band_of_probability
from app.widgets.tokens.text import TokenText
from engine.protocol import Alternative, TokenInfo

LINGER_MS = 250  # the card stays so long when the mouse leaves, so that it can be reached


def entropy(top: Sequence[Alternative]) -> float:
    """Bits of the distribution: the alternatives that are known, the rest as one more."""
    shares = [exp(alternative.logprob) for alternative in top]
    shares.append(max(0.0, 1.0 - sum(shares)))
    return -sum(share * log2(share) for share in shares if share > 0)


def visible(text: str) -> str:
    """A token's text with its white space to be seen."""
    shown = text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return shown or "∅"


def band(info: TokenInfo, measure: Measure) -> int | None:
    """The band of the legend that a token is in; None where nothing was recorded."""
    if measure == "speculation":
        return band_of_draft(info.source, info.drafted)
    if info.logprob is None:
        return None
    if measure == "entropy":
        return band_of_entropy(entropy(info.top)) if info.top else None
    return band_of_probability(exp(info.logprob))


class TokenAnswer(QWidget):
    """The tokens of an answer; a click or Enter on an alternative branches from there."""

    height_changed = Signal()

    def __init__(self, row: MessageRow) -> None:
        super().__init__()
        self._row = row
        self._bands: list[int | None] = []
        self._ends: list[int] = []
        self._measure: Measure = "probability"
        self.card: AlternativesCard | None = None
        self._shown: int | None = None
        self.painter = TokenText(tr("Tokens of the message from {speaker}", speaker=row.speaker))
        self.painter.pointed.connect(self._point)
        self.painter.placed.connect(row.select_token)
        self.painter.stepped.connect(self._step)
        self.painter.taken.connect(self._take)
        self.painter.height_changed.connect(self.height_changed)
        self.setFocusProxy(self.painter)
        self._linger = QTimer(self, singleShot=True, interval=LINGER_MS)
        self._linger.timeout.connect(self._hide_if_left)
        vbox(self.painter, on=self, margins=(0, 0, 0, GRID // 2))

    def refresh(self) -> None:
        """Show the answer as it is now."""
        known, measure = self._row.tokens, self._row.measure
        if measure != self._measure or len(known) < len(self._bands):
            self._bands, self._ends, self._measure = [], [], measure
        fresh = range(len(self._bands), len(known))
        self._bands += [band(known[n], measure) for n in fresh]
        self._ends += [known.end(n) for n in fresh]
        self.painter.set_tokens(self._row.message.text, known.begin, self._ends, self._bands)
        self.show_selected()

    def show_selected(self) -> QRect | None:
        """Mark the selected token; where it is, if it is one of these."""
        index = self._row.selected_token
        self.painter.show_selected(index)
        if index is None or index >= len(self._ends):
            return None
        return self.painter.token_rect(index).toAlignedRect().translated(self.painter.pos())

    @property
    def bands(self) -> list[int | None]:
        """The legend's band of each token."""
        return self._bands

    def append(self, first: int) -> None:
        """Tokens from `first` on are new; `refresh` shows them."""
        del self._bands[first:], self._ends[first:]

    def _point(self, index: int | None) -> None:
        if index is None:
            self._linger.start()
        else:
            self._linger.stop()
            self._show_card(index)

    def _show_card(self, index: int) -> None:
        known = self._row.tokens
        if index >= len(known):
            return
        info = known[index]
        chance = tr("no probability recorded")
        if info.logprob is not None:
            chance = tr(
                "{percent}  ·  logprob {logprob:.2f}",
                percent=_percent(exp(info.logprob)),
                logprob=info.logprob,
            )
            if info.top:
                chance += tr("  ·  {entropy:.1f} bits", entropy=entropy(info.top))
        if self._measure == "speculation":
            chance = _draft_words(info)
        top = sorted(info.top, key=lambda alternative: -alternative.logprob)
        choices = [OtherToken(visible(a.text), exp(a.logprob), a.token == info.token) for a in top]
        hint = tr("↑↓ and Enter, or a click, branch from here") if top else ""
        card = self._make_card()
        painter = self.painter
        place = painter.token_rect(index).toAlignedRect().adjusted(0, -4, 0, 4)
        corner = painter.mapTo(self.window(), place.topLeft())
        card.show_choices(visible(info.text), chance, choices, hint, QRect(corner, place.size()))
        self._shown = index
        painter.announce(
            tr(
                "Token {index} of {known}: {all_words}",
                index=index + 1,
                known=len(known),
                all_words=card.all_words,
            )
        )

    def _make_card(self) -> AlternativesCard:
        if self.card is None:
            self.card = AlternativesCard(self.window())
            self.card.picked.connect(self._choose)
            self.card.left.connect(self._linger.start)
            self.destroyed.connect(self.card.deleteLater)
        return self.card

    def _step(self, step: int) -> None:
        if self.card is not None and self.card.isVisible():
            self.card.mark(step)
            if self.card.marked is not None:
                choice = self.card.choices[self.card.marked]
                self.painter.announce(f"{choice.text}, {_percent(choice.share)}")

    def _take(self, index: int) -> None:
        if self.card is None or not self.card.isVisible() or self._shown != index:
            self._show_card(index)
        elif self.card.marked is not None:
            self._choose(self.card.marked)

    def _choose(self, choice: int) -> None:
        index = self._shown
        if index is None:
            return
        top = self._row.tokens[index].top
        order = sorted(range(len(top)), key=lambda n: -top[n].logprob)
        self.hide_card()
        self._row.branch_wanted.emit(index, order[choice])

    def _hide_if_left(self) -> None:
        under = self.card is not None and self.card.underMouse()
        if not under and self.painter.current is None:
            self.hide_card()

    def hide_card(self) -> None:
        """Take the card away."""
        self._shown = None
        if self.card is not None:
            self.card.hide()

    def hideEvent(self, event: object) -> None:  # noqa: N802
        self.hide_card()


DRAFTERS = {"form": tr("form"), "ngram": "n-gram", "draft": tr("draft model"), "mtp": "MTP"}
"""Names of what drafts tokens, by `TokenInfo.source`."""


def _draft_words(info: TokenInfo) -> str:
    """Describe what was drafted in the token's place."""
    if not info.source:
        return tr("nothing was drafted here")
    by = DRAFTERS.get(info.source, info.source)
    if not info.drafted:
        return tr("drafted by {by}, accepted", by=by)
    ranks = [other.text for other in sorted(info.top, key=lambda other: -other.logprob)]
    rank = (
        tr(", rank {index}", index=ranks.index(info.drafted) + 1) if info.drafted in ranks else ""
    )
    return tr("{by} drafted “{drafted}”{rank}", by=by, drafted=visible(info.drafted), rank=rank)


def _percent(share: float) -> str:
    return (
        tr("{share:.1f} %", share=share * 100)
        if share < 0.995
        else tr("{share:.0f} %", share=share * 100)
    )
