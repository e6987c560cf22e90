"""A change is tried: what counts how much, and the answer with it beside the one without."""

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.language import tr, tr_n
from app.state.trial import Floats, TriedAnswer
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.talk.statistics import said_of_all
from app.widgets.basics import Button, IconButton, divider, label
from app.widgets.controls.number_slider import NumberSlider
from app.widgets.tips import set_tip
from app.widgets.tokens.bands import band_of_probability
from app.widgets.tokens.text import TokenText
from engine.protocol import Change, ChangedPart

HEAD = "head"
PARTS: dict[str, str] = {
    "layer": tr("A whole layer"),
    "attention": tr("A layer's attention"),
    "feed_forward": tr("A layer's feed-forward"),
    HEAD: tr("One head of attention"),
}
HELP = tr("Factor on its output: 0 removes it, 1 changes nothing, 2 doubles it")
NOTE = tr(
    "Answers the last message again with this change and compares both answers. The"
    " model's file is not changed; the new answer is a marked branch of the chat."
)
AS_IT_IS = tr("A factor of 1 changes nothing: choose a smaller or a larger one.")
MILD = 0.5  # the factor to begin with: most models still answer in sentences
UNKNOWN_LAYERS = 1 << 10  # of a model that nothing is known of; the engine refuses those not there


class TrialView(QWidget):
    """A form, and below it both answers: each word as likely as the other model finds it."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Try a change"))
        self._bench, self._trial = bench, bench.trial
        self.part, self.layer, self.head = QComboBox(), QSpinBox(), QSpinBox()
        for kind, title in PARTS.items():
            self.part.addItem(title, kind)
        self._head_name = label(tr("Head"))
        named = ((self.part, tr("Part")), (self.layer, tr("Layer")), (self.head, tr("Head")))
        for widget, name in named:
            widget.setAccessibleName(name)
        self.factor = NumberSlider(tr("Factor"), HELP, 0.0, 2.0, 2.0, 2)
        self.try_it = Button(tr("Answer with the change"), self._start, kind="primary")
        self.stop = Button(tr("Stop"), bench.chat.stop)
        self.copy = IconButton("copy", tr("Copy both answers as a table"), self.copy_table)
        self.back = Button(tr("Show the original answer in the chat"), self._show_plain, "link")
        self.says = label("", tone="quiet", wrap=True)
        self.plain, self.changed = _Side(tr("Original")), _Side(tr("Changed"))
        for one in (self.plain, self.changed):
            one.text.pointed.connect(lambda at, one=one: self._point(one, at))
            one.text.placed.connect(lambda at, one=one: self._point(one, at))
        self.under = label("", wrap=True)
        self.factor.set_value(MILD)
        self.factor.changed.connect(self.show_both)
        self._chosen = False
        self._lay_out()
        self.setFocusProxy(self.part)
        self.part.currentIndexChanged.connect(self._part_chosen)
        self._trial.updated.connect(self.show_both)
        bench.chat.busy_changed.connect(self.show_both)
        bench.chat.message_changed.connect(self._grown)
        self._part_chosen()

    def refresh(self) -> None:
        """Take what is selected; compare the last answer where it was tried with a change."""
        selected, parts = self._bench.selection.now, self._bench.token.parts
        self.layer.setRange(0, (parts.n_layer if parts else UNKNOWN_LAYERS) - 1)
        if not self._chosen and parts is not None:
            self._chosen = True
            self.layer.setValue(parts.n_layer // 2)  # the first ones hold an answer together
        self.head.setRange(0, (parts.n_head if parts else UNKNOWN_LAYERS) - 1)
        if selected.layer is not None:
            self.layer.setValue(selected.layer)
        if selected.head is not None:
            self.head.setValue(selected.head)
            self.part.setCurrentIndex(list(PARTS).index(HEAD))
        row = self._trial.row_to_try()
        if row is not None and not self._trial.changes:
            self._trial.show(self._bench.chat.path[row])
        self.show_both()

    @property
    def change(self) -> Change:
        """Return the change that the form describes."""
        kind = str(self.part.currentData())
        factor = round(self.factor.value, 2)
        if kind == HEAD:
            return Change(self.layer.value(), "attention", self.head.value(), factor)
        part: ChangedPart = kind  # type: ignore[assignment]
        return Change(self.layer.value(), part, None, factor)

    def show_both(self, _: object = None) -> None:
        """Show the answers that exist so far."""
        chat, both = self._bench.chat, self._trial.answers()
        possible = self._trial.row_to_try() is not None and self.change.factor != 1
        self.try_it.setEnabled(not chat.busy and possible)
        self.stop.setEnabled(chat.busy)
        self.copy.setEnabled(both is not None)
        self.back.setVisible(both is not None and not chat.busy)
        self.says.setText(self._status(both is not None))
        for side in (self.plain, self.changed):
            side.setVisible(both is not None)
        if both is not None:
            plain, changed = both
            self.plain.show_answer(tr("Original"), plain, plain.changed)
            self.changed.show_answer(said_of_all(self._trial.changes), changed, changed.plain)

    def copy_table(self) -> None:
        """Both answers, a line for each word: as it is, changed."""
        both = self._trial.answers()
        if both is None:
            return
        lines = ["answer\tword\toriginal\tchanged"]
        for name, one in zip(("original", "changed"), both, strict=True):
            for at in range(len(one.tokens)):
                found = (_percent(_at(scores, at)) for scores in (one.plain, one.changed))
                lines.append("\t".join([name, _word(one, at), *found]))
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
                " changed answer."
            )
        if self._trial.row_to_try() is None:
            return tr("Send a message first. The change is tried on the last one.")
        return AS_IT_IS if self.change.factor == 1 else NOTE

    def _start(self) -> None:
        self._trial.start([self.change])
        self.show_both()

    def _show_plain(self) -> None:
        """Leave the changed answer where it is, as a branch."""
        both = self._trial.answers()
        if both is not None:
            self._trial.show_plain(both[1].message)
            self.done.emit()

    def _part_chosen(self) -> None:
        of_head = self.part.currentData() == HEAD
        self._head_name.setVisible(of_head)
        self.head.setVisible(of_head)

    def _grown(self, _: int) -> None:
        if self._trial.changes:
            self.show_both()

    def _point(self, side: "_Side", at: int | None) -> None:
        if at is None or side.answer is None or at >= len(side.answer.tokens):
            self.under.setText("")
            return
        one = side.answer
        plain, changed = (_percent(_at(scores, at)) for scores in (one.plain, one.changed))
        self.under.setText(
            tr(
                "“{word}”: original {plain}, changed {changed}",
                word=_word(one, at),
                plain=plain,
                changed=changed,
            )
        )

    def _lay_out(self) -> None:
        form = QHBoxLayout()
        form.setSpacing(GRID)
        form.addWidget(self.part, 1)
        for name, widget in ((label(tr("Layer")), self.layer), (self._head_name, self.head)):
            name.setBuddy(widget)
            form.addWidget(name)
            form.addWidget(widget)
        sides = QHBoxLayout()
        sides.setSpacing(PADDING)
        sides.addWidget(self.plain, 1)
        sides.addWidget(self.changed, 1)
        row = QHBoxLayout()
        row.addWidget(self.copy)
        row.addWidget(self.back)
        row.addStretch(1)
        row.addWidget(self.stop)
        row.addWidget(self.try_it)
        row.addWidget(Button(tr("Close"), self.done.emit))
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        column.setSpacing(GRID)
        column.addWidget(label(tr("Try a change"), size="strong"))
        column.addLayout(form)
        column.addWidget(self.factor)
        column.addWidget(self.says)
        column.addWidget(divider())
        column.addLayout(sides, 1)
        column.addWidget(self.under)
        column.addLayout(row)


class _Side(QWidget):
    """One answer under what made it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.answer: TriedAnswer | None = None
        self.title: QLabel = label(name, size="strong", wrap=True)
        self.facts = label("", tone="quiet", wrap=True)
        set_tip(self.facts, tr("Average surprise of the other model"))
        self.text = TokenText(tr("Answer, {name}", name=name.lower()))
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setAccessibleName(
            tr("Text of the answer, {name}", name=name.lower())
        )  # its keys scroll
        scroll.setWidget(self.text)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(self.title)
        column.addWidget(self.facts)
        column.addWidget(scroll, 1)

    def show_answer(self, title: str, answer: TriedAnswer, by: Floats | None) -> None:
        """Painted by what another model makes of it, once that is known."""
        self.answer = answer
        tokens, text = answer.tokens, answer.message.text
        ends = [tokens.end(i) for i in range(len(tokens))]
        bands = [None if by is None else _band(by[i]) for i in range(len(ends))]
        self.title.setText(title)
        self.facts.setText(_facts(answer, by))
        self.text.set_tokens(text, tokens.begin, ends, bands)


def _facts(answer: TriedAnswer, by: Floats | None) -> str:
    n = len(answer.tokens)
    words = tr_n("{n} token", "{n} tokens", n)
    if by is None or not n:
        return words
    bits = -float(np.mean(by)) / float(np.log(2))
    return tr("{words}, surprise {bits:.2f} bits each", words=words, bits=bits)


def _band(logprob: float) -> int | None:
    return None if np.isnan(logprob) else band_of_probability(float(np.exp(logprob)))


def _at(scores: Floats | None, at: int) -> float | None:
    return None if scores is None or np.isnan(scores[at]) else float(np.exp(scores[at]))


def _percent(probability: float | None) -> str:
    if probability is None:
        return "–"
    return (
        "< 0.1 %"
        if probability < 0.001
        else tr("{probability:.1f} %", probability=100 * probability)
    )


def _word(one: TriedAnswer, at: int) -> str:
    text = one.message.text[one.tokens.start(at) : one.tokens.end(at)]
    return text.replace("\n", "↵").replace("\t", " ").strip() or "␣"
