"""Answers with and without edits, side by side: each word as likely as the other model finds it."""

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea, QWidget

from app.language import decimal, tr, tr_n
from app.state.talk.edits import all_words
from app.state.trial import Floats, TriedAnswer, control_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.talk.edits import CONTROL, CONTROL_HELP
from app.widgets.basics import Button, IconButton, divider, label, scrolled
from app.widgets.controls.flow import Flow
from app.widgets.layouts import hbox, vbox
from app.widgets.tips import set_tip
from app.widgets.tokens.bands import band_of_probability
from app.widgets.tokens.text import TokenText

NO_EDITS = tr(
    "There is no edit. Select a layer, a head or a result, and choose what to change in the menu"
    " Edits."
)
NOTE = tr(
    "Answers the last message again with the edits and compares the answers. The model's file is"
    " not changed; each answer is a marked branch of the chat."
)

NAMES = ("original", "edited", "control")  # of the sides in the copied table


class TrialView(QWidget):
    """The answer without edits, the one with them, and a random control where there is one."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Compare with and without edits"))
        self._bench, self._trial = bench, bench.trial
        self.edits = label("", wrap=True)
        self.try_it = Button(tr("Answer with the edits"), self._start, kind="primary")
        self.try_plain = Button(tr("Answer without"), self._start_plain)
        self.control = Button(CONTROL, self._start_control)
        set_tip(self.control, CONTROL_HELP)
        self.stop = Button(tr("Stop"), bench.chat.stop)
        self.copy = IconButton("copy", tr("Copy all answers as a table"), self.copy_table)
        self.back = Button(tr("Show the original answer in the chat"), self._show_plain, "link")
        self.caption = label("", tone="quiet", wrap=True)
        self.plain, self.edited = _Side(tr("Original")), _Side(tr("Edited"))
        self.other = _Side(tr("Random control"))
        self.sides = (self.plain, self.edited, self.other)
        for one in self.sides:
            one.text.pointed.connect(lambda at, one=one: self._point(one, at))
            one.text.placed.connect(lambda at, one=one: self._point(one, at))
        self.under = label("", wrap=True)
        self._lay_out()
        self.setFocusProxy(self.try_it)
        self._trial.updated.connect(self.show_answers)
        bench.chat.busy_changed.connect(self.show_answers)
        bench.chat.edits.changed.connect(self.show_answers)
        bench.chat.message_changed.connect(self._grown)
        self.show_answers()

    def refresh(self) -> None:
        """Compare the last answer where it was written with edits."""
        row = self._trial.row_to_try()
        if row is not None and not self._trial.edits:
            self._trial.show(self._bench.chat.path[row])
        self.show_answers()

    def show_answers(self, _: object = None) -> None:
        """Show the answers that exist so far."""
        chat, found = self._bench.chat, self._trial.answers()
        active, free = chat.edits.value.active, not chat.busy
        possible = self._trial.row_to_try() is not None and free
        self.edits.setText(all_words(active) if active else "")
        self.edits.setVisible(bool(active))
        self.try_it.setEnabled(possible and bool(active))
        self.try_plain.setEnabled(possible)
        self.try_plain.setVisible(bool(self._trial.edits) and not found)
        self.control.setEnabled(possible and control_of(active, 1, self._n_head) is not None)
        self.stop.setVisible(chat.busy)
        self.copy.setEnabled(bool(found))
        self.back.setVisible(bool(found) and free)
        self.caption.setText(self._status(bool(found)))
        for at, side in enumerate(self.sides):
            side.setVisible(at < len(found))
            if at < len(found):
                self._show_side(at, found[at])

    def _show_side(self, at: int, answer: TriedAnswer) -> None:
        """Paint an answer by what a model that did not write it makes of it."""
        edits = answer.message.edits
        title = tr("Edited") if edits else tr("Original")
        if edits.seed is not None:
            title = tr("Random control, seed {seed}", seed=edits.seed)
        side = self.sides[at]
        side.show_answer(title, answer, answer.plain if at else answer.edited)
        set_tip(side.title, all_words(edits) if edits else "")

    def copy_table(self) -> None:
        """All answers, a line for each word: as it is, with the edits."""
        lines = ["answer\tword\toriginal\tedited"]
        for name, one in zip(NAMES, self._trial.answers(), strict=False):
            for at in range(len(one.tokens)):
                found = (percent(_at(scores, at)) for scores in (one.plain, one.edited))
                lines.append("\t".join([name, _word(one, at), *found]))
        if len(lines) > 1:
            QApplication.clipboard().setText("\n".join(lines))

    def _status(self, has_both: bool) -> str:
        if self._trial.problem:
            return self._trial.problem
        if self._bench.chat.busy:
            return tr("The answer is being generated.")
        if self._trial.busy:
            return tr("Scoring each answer with the other model…")
        if has_both:
            return tr(
                "Colours show how likely the other model finds each token. The chat shows the"
                " edited answer."
            )
        if not self._bench.chat.edits.value.active:
            return NO_EDITS
        if self._trial.row_to_try() is None:
            return tr("Send a message first. The edits are tried on the last one.")
        return NOTE

    @property
    def _n_head(self) -> int | None:
        parts = self._bench.token.parts
        return parts.n_head if parts is not None else None

    def _start(self) -> None:
        self._trial.start()
        self.show_answers()

    def _start_plain(self) -> None:
        self._trial.start_plain()
        self.show_answers()

    def _start_control(self) -> None:
        self._trial.start_control(self._n_head)
        self.show_answers()

    def _show_plain(self) -> None:
        """Leave the edited answer where it is, as a branch."""
        self._trial.show_original()
        self.done.emit()

    def _grown(self, _: int) -> None:
        if self._trial.edits:
            self.show_answers()

    def _point(self, side: "_Side", at: int | None) -> None:
        if at is None or side.answer is None or at >= len(side.answer.tokens):
            self.under.setText("")
            return
        one = side.answer
        plain, edited = (percent(_at(scores, at)) for scores in (one.plain, one.edited))
        self.under.setText(
            tr(
                "“{word}”: original {plain}, edited {edited}",
                word=_word(one, at),
                plain=plain,
                edited=edited,
            )
        )

    def _lay_out(self) -> None:
        sides = hbox(spacing=PADDING)
        for side in self.sides:
            sides.addWidget(side, 1)
        close = Button(tr("Close"), self.done.emit)
        row = Flow(tr("Compare"))
        row.show_items(
            [self.copy, self.back, self.stop, self.control, self.try_plain, self.try_it, close]
        )
        inside = QWidget()
        vbox(
            self.edits,
            self.caption,
            divider(),
            (sides, 1),
            self.under,
            on=inside,
            margins=(0, 0, GRID, 0),
        )
        vbox(
            label(tr("Compare with and without edits"), size="strong"),
            (scrolled(inside, self), 1),
            row,
            on=self,
            margins=PADDING,
        )


class _Side(QWidget):
    """One answer under what made it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.answer: TriedAnswer | None = None
        self.title: QLabel = label(name, size="strong", wrap=True)
        self.facts = label("", tone="quiet", wrap=True)
        set_tip(self.facts, tr("Average surprise of the other model"))
        self.text = TokenText(tr("Answer: {title}", title=name))
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setAccessibleName(tr("Text of the answer: {title}", title=name))  # its keys scroll
        scroll.setWidget(self.text)
        scroll.setMinimumHeight(3 * self.text.fontMetrics().lineSpacing())
        vbox(self.title, self.facts, (scroll, 1), on=self, spacing=GRID // 2)

    def show_answer(self, title: str, answer: TriedAnswer, by: Floats | None) -> None:
        """Painted by what another model makes of it, once that is known."""
        self.answer = answer
        tokens, text = answer.tokens, answer.message.text
        ends = [tokens.end(i) for i in range(len(tokens))]
        bands = [None if by is None else word_band(by[i]) for i in range(len(ends))]
        self.title.setText(title)
        self.facts.setText(_facts(answer, by))
        self.text.set_tokens(text, tokens.begin, ends, bands)


def _facts(answer: TriedAnswer, by: Floats | None) -> str:
    n = len(answer.tokens)
    words = tr_n("{n} token", "{n} tokens", n)
    if by is None or not n:
        return words
    bits = -float(np.mean(by)) / float(np.log(2))
    return words + tr(", surprise {bits:.2f} bits each", bits=bits)


def word_band(logprob: float) -> int | None:
    """The band of a natural log-probability; None where it is NaN."""
    return None if np.isnan(logprob) else band_of_probability(float(np.exp(logprob)))


def _at(scores: Floats | None, at: int) -> float | None:
    return None if scores is None or np.isnan(scores[at]) else float(np.exp(scores[at]))


def percent(probability: float | None) -> str:
    """A probability for reading."""
    if probability is None:
        return "–"
    return decimal("< 0.1 %" if probability < 0.001 else f"{100 * probability:.1f} %")


def _word(one: TriedAnswer, at: int) -> str:
    text = one.message.text[one.tokens.start(at) : one.tokens.end(at)]
    return text.replace("\n", "↵").replace("\t", " ").strip() or "␣"
