"""The choice: how likely each word was, and what each step of sampling left of them."""

from collections.abc import Sequence
from math import exp, log

from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix
from app.views.token.section import percent, shown
from app.widgets.basics import label
from app.widgets.layouts import STRETCH, vbox
from app.widgets.numbers import grouped
from app.widgets.plots.bars import Bar, Bars
from engine.protocol import Alternative, TokenChoice, TokenInfo

MOST = 8  # words listed
NAME = 96  # pixels of a word
HINT = tr(
    "Click or press Enter to continue the answer with another token, as a new branch. Alt+Left goes"
    " back."
)
STEPS = {
    tr("model"): tr("model"),
    tr("penalties"): tr("penalties"),
    "top_k": "top-k",
    "top_p": "top-p",
    "min_p": "min-p",
    tr("temperature"): tr("temperature"),
}


class Candidate:
    """A word that could have come: its probability by the model alone and when it was drawn.

    `drawn` None is not known; `removed_by` is the step that took it away.
    """

    def __init__(
        self, token: Alternative, drawn: float | None, removed_by: str, taken: bool
    ) -> None:
        self.token, self.text, self.model = token, token.text, exp(token.logprob)
        self.drawn, self.removed_by, self.taken = drawn, removed_by, taken

    @property
    def description(self) -> str:
        text = f"{shown(self.text)} {percent(self.model)}"
        if self.removed_by:
            return tr(
                "{text}, removed by {get}",
                text=text,
                get=STEPS.get(self.removed_by, self.removed_by),
            )
        return (
            text
            if self.drawn is None
            else tr("{text}, drawn with {drawn}", text=text, drawn=percent(self.drawn))
        )


def candidates(choice: TokenChoice | None, recorded: TokenInfo | None) -> list[Candidate]:
    """From what the engine computed again, else from what was recorded with the word."""
    if choice is None:
        if recorded is None:
            return []
        top = sorted(recorded.top, key=lambda other: -other.logprob)
        return [Candidate(other, None, "", other.token == recorded.token) for other in top]
    taken = recorded.token if recorded is not None else None
    found = []
    for at, other in enumerate(choice.top):
        gone = (step.name for step in choice.steps if step.probabilities[at] <= 0)
        drawn = choice.steps[-1].probabilities[at] if choice.steps else None
        found.append(Candidate(other, drawn, next(gone, ""), other.token == taken))
    return found


class ChoiceBars(Bars):
    """A line a word: what the model gives it as a light bar, what it was drawn with as a solid one.

    Arrows and the mouse point at a word; a click or Enter takes it.
    """

    pointed = Signal(int)  # the word under the mouse or the keyboard
    taken = Signal(int)
    wide, names, widest_note = 240, NAME, tr("by temperature")

    def __init__(self) -> None:
        super().__init__(tr("Candidate tokens: Enter continues with one, as a new branch"))
        self.candidates: Sequence[Candidate] = ()

    def show_candidates(self, found: Sequence[Candidate]) -> None:
        kept = [one for n, one in enumerate(found) if n < MOST or one.taken]
        drawn = any(one.drawn is not None for one in kept)
        self.titles = (tr("by the model"), "model"), (tr("when drawn"), "drawn") if drawn else ()
        self.candidates = kept
        self.changed()
        self.setAccessibleDescription(
            "; ".join(one.description for one in kept) or tr("Nothing yet")
        )

    def stops(self) -> int:
        return len(self.candidates)

    def words(self, at: int) -> str:
        return self.candidates[at].description

    def tip(self, place: QPointF) -> str:
        return ""  # the line below has the words

    def walked(self) -> None:
        self.pointed.emit(self.at)

    def hovers(self, at: int | None) -> None:
        if at is not None:
            self.pointed.emit(at)

    def chosen(self) -> bool:
        self.taken.emit(self.at)
        return True

    def bars(self) -> list[Bar]:
        return [_bar(one) for one in self.candidates]


def _bar(one: Candidate) -> Bar:
    now, step = tokens(), STEPS.get(one.removed_by, one.removed_by)
    notes: tuple[str, ...] = () if one.drawn is None else (percent(one.drawn),)
    if one.removed_by:
        notes = tr("by {step}", step=step), step, "–"
    return Bar(
        shown(one.text),
        [
            (one.drawn or 0.0, mix(now.accent, now.panel, 0.9)),
            (one.model, mix(now.accent, now.panel, 0.45)),
        ],
        percent(one.model),
        notes,
        now.quiet if one.removed_by else now.text,
        one.taken,
        bool(one.removed_by),
    )


class ChoicePanel(QWidget):
    """The words that could have come, and a line for each step of sampling."""

    taken = Signal(object)  # Alternative that the answer is to go on with

    def __init__(self) -> None:
        super().__init__()
        self.bars = ChoiceBars()
        self.word = label("", "", "small", wrap=True)
        self.word.hide()
        self.hint = label(HINT, "quiet", "small", wrap=True)
        self.caption = label("", "quiet", "small", wrap=True)
        vbox(self.bars, self.word, self.caption, self.hint, STRETCH, on=self, spacing=GRID // 2)
        self._choice: TokenChoice | None = None
        self._of_answer = False
        self.bars.pointed.connect(self._show_word)
        self.bars.taken.connect(self._take)

    def show_choice(
        self, choice: TokenChoice | None, recorded: TokenInfo | None, empty: str
    ) -> None:
        """What was computed again, or only what was recorded; `empty` says why there is none."""
        self._choice, self._of_answer = choice, recorded is not None
        found = candidates(choice, recorded)
        self.bars.show_candidates(found)
        self.bars.setVisible(bool(found))
        self.hint.setVisible(bool(found) and self._of_answer)
        self.word.hide()
        self.caption.setText(_sentence(choice) if choice is not None else "" if found else empty)
        self.caption.setVisible(bool(self.caption.text()))

    def _show_word(self, at: int) -> None:
        """All that is known of a word."""
        self.word.setText(self.bars.candidates[at].description)
        self.word.show()

    def _take(self, at: int) -> None:
        """Go on with a word that did not come; say why not where that cannot be."""
        one = self.bars.candidates[at]
        if self._of_answer and not one.taken:
            self.taken.emit(one.token)
            return
        why = (
            tr("This token was sampled.")
            if one.taken
            else tr("Only tokens of an answer can be replaced.")
        )
        self.word.setText(f"{one.description}. {why}")
        self.word.show()

    def rows(self) -> list[list[str]]:
        """Words and, behind them, the steps, titles on top."""
        rows = [[tr("Word"), tr("Model"), tr("Drawn"), tr("Removed")]]
        for one in self.bars.candidates:
            drawn = "" if one.drawn is None or one.removed_by else percent(one.drawn)
            step = STEPS.get(one.removed_by, one.removed_by)
            rows.append([shown(one.text), percent(one.model), drawn, step])
        for step_of in self._choice.steps if self._choice is not None else ():
            name = STEPS.get(step_of.name, step_of.name)
            left = tr("{n_left} left", n_left=grouped(step_of.n_left))
            rows.append([name, left, _bits(step_of.entropy), percent(step_of.removed)])
        return rows


def _sentence(choice: TokenChoice) -> str:
    """What each step did, as far as it did something."""
    if not choice.steps:
        return ""
    first, *rest = choice.steps
    parts = [tr("{n_left} words, {bits}", n_left=grouped(first.n_left), bits=_bits(first.entropy))]
    left = first.n_left
    for step in rest:
        name = STEPS.get(step.name, step.name)
        if step.n_left != left:
            parts.append(
                tr(
                    "{name} leaves {n_left}, removes {removed}",
                    name=name,
                    n_left=grouped(step.n_left),
                    removed=percent(step.removed),
                )
            )
            left = step.n_left
    parts.append(tr("drawn from {bits}", bits=_bits(choice.steps[-1].entropy)))
    return " → ".join(parts)


def _bits(nats: float) -> str:
    return tr("{abs:.1f} bits", abs=abs(nats / log(2)))
