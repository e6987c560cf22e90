"""Two models, or two settings of one, side by side: the question, both answers, where they part."""

from collections.abc import Sequence
from functools import partial
from math import exp, isnan
from pathlib import Path

import numpy as np
from PySide6.QtCore import QEvent, QPoint, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QComboBox,
    QFrame,
    QGridLayout,
    QLabel,
    QMenu,
    QSizePolicy,
    QWidget,
)

from app.language import decimal, mark, tr, tr_n
from app.state.pair.pair import SIDES, PairChoice, PairSide
from app.state.pair.words import ComparedWord
from app.state.presets import OwnSampling
from app.state.wanted import title_of
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.talk.probabilities import visible
from app.views.talk.sampling import preset_title
from app.views.talk.statistics import summary
from app.views.trial import percent, word_band
from app.widgets.basics import (
    TEXT_SIZE,
    Button,
    IconButton,
    divider,
    label,
    scrolled,
    set_beside,
    set_tone,
    surface,
)
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.tips import set_tip
from app.widgets.tokens.text import TokenText

NAMES = mark("Left"), mark("Right")
BESIDE = 700  # pixels at normal text; in less, one side stands below the other
LEAST_TEXT = 120  # pixels at normal text of an answer that is scrolled
AS_CHAT = mark("This chat's settings")
TEMPERATURES = (0.0, 0.2, 0.5, 0.8, 1.0, 1.3)
AS_SET = mark("From the settings")
NOTE = mark(
    "Both answer the same question, below the messages of this chat. Each answer becomes a branch"
    " of the chat. Tools are not used."
)


class PairView(QWidget):
    """A form for both sides and their question, and both answers as the other side finds them."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Two models side by side"))
        self._bench, self._pair = bench, bench.pair
        self.sides = tuple(_Half(bench, number) for number in SIDES)
        self.question = GrowingEdit(tr("Question for both"))
        self.question.set_placeholder(tr("The question; leave it empty to send the last one again"))
        self.question.submitted.connect(self._send)
        self.send = Button(tr("Send to both"), self._send, kind="primary")
        self.stop = Button(tr("Stop"), lambda: self._pair.stop())
        self.caption = label(tr(NOTE), tone="quiet", wrap=True)
        self.under = label("", wrap=True)
        self.copy = IconButton("copy", tr("Copy both answers as a table"), self.copy_table)
        for side in self.sides:
            side.pointed.connect(self._point)
            side.inspected.connect(self._inspect)
        self._lay_out()
        self.setFocusProxy(self.question)
        self._pair.updated.connect(self.show_both)
        bench.chat.busy_changed.connect(self.show_both)
        bench.session.changed.connect(self.show_both)
        self.show_both()

    def refresh(self) -> None:
        """Take the open model, and the chat's draft as the question."""
        self._pair.show(True)
        for side in self.sides:
            side.choice.refresh()
        if self._pair.sides is None:
            self.question.set_text(self._bench.chat.details.draft)
        self.show_both()

    def show_both(self, _: object = None) -> None:
        """Show what there is of the answers."""
        pair, chat = self._pair, self._bench.chat
        possible = not pair.busy and not chat.busy and self._bench.session.path is not None
        self.send.setEnabled(possible)
        self.stop.setEnabled(pair.busy)
        self.copy.setEnabled(pair.sides is not None)
        self.caption.setText(self._status())
        set_tone(self.caption, "bad" if pair.problem else "quiet")
        parted = None if pair.busy else pair.parted
        for number, side in enumerate(self.sides):
            at = None if parted is None else parted[number]
            side.show_answer(pair.sides[number] if pair.sides else None, at)

    def copy_table(self) -> None:
        """Both answers, a line for each word: by the model that wrote it, and by the other one."""
        if self._pair.sides is None:
            return
        lines = ["answer\tword\town\tother"]
        for side in self._pair.sides:
            text = side.message.text if side.message else ""
            for word in side.words:
                shown = visible(text[word.start : word.end])
                both = percent(_probability(word.own)), percent(_probability(word.other))
                lines.append("\t".join([side.choice.name, shown, *both]))
        QApplication.clipboard().setText("\n".join(lines))

    def _send(self) -> None:
        if not self.send.isEnabled():
            return
        left, right = (side.choice for side in self.sides)
        names = left.names(right)
        choices = [side.chosen(name) for side, name in zip((left, right), names, strict=True)]
        if choices[0] is not None and choices[1] is not None:
            text = self.question.text
            if self._pair.send(text, choices[0], choices[1]):
                self.question.set_text("")
        self.show_both()

    def _status(self) -> str:
        pair = self._pair
        if pair.problem:
            return pair.problem
        if pair.sides is None:
            return tr(NOTE)
        note = f"{pair.note} " if pair.note else ""
        loading = tr("{model} is loading.", model=pair.loading) + " " if pair.loading else ""
        if any(not side.ended for side in pair.sides):
            return f"{note}{loading}" + tr("The answers are being generated.")
        if pair.busy:
            return f"{note}{loading}" + tr("Each model reads the other's answer…")
        return f"{note}{self._parting()}"

    def _parting(self) -> str:
        """Where both answers part, and how likely each word there was to the other side."""
        pair = self._pair
        if pair.sides is None or any(not len(side.tokens) for side in pair.sides):
            return tr("There are not two answers to compare.")
        if pair.parted is None:
            return tr("Both answers are the same, word for word.")
        first = [
            _word_text(side, other.choice.name, at)
            for side, other, at in zip(pair.sides, reversed(pair.sides), pair.parted, strict=True)
        ]
        return tr(
            "They part at word {number}: {first}; {second}.",
            number=pair.parted[0] + 1,
            first=first[0],
            second=first[1],
        )

    def _point(self, number: int, at: int | None) -> None:
        pair = self._pair
        if at is None or pair.sides is None or at >= len(pair.sides[number].words):
            self.under.setText("")
        else:
            self.under.setText(
                _word_text(pair.sides[number], pair.sides[1 - number].choice.name, at) + "."
            )

    def _inspect(self, number: int, index: int) -> None:
        """Show a token of a side in the inspector, with the side's branch and its model."""
        sides, bench = self._pair.sides, self._bench
        message = sides[number].message if sides is not None else None
        if sides is None or message is None:
            return
        if bench.session.path != sides[number].choice.path and not bench.chat.busy:
            bench.open_model(sides[number].choice.path)
        self.done.emit()
        bench.chat.open_at(message.chat, message.id, [])
        bench.selection.select_token(message.id, index)
        bench.selection.word_clicked.emit()

    def _lay_out(self) -> None:
        self._halves = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._halves.setSpacing(PADDING)
        for side in self.sides:
            self._halves.addWidget(side, 1)
        field = QFrame()
        surface(field, "card")
        vbox(self.question, on=field, margins=(GRID, GRID // 2, GRID, GRID // 2))
        row = hbox((field, 1), self.stop, self.send, spacing=GRID)
        foot = hbox(self.copy, (self.under, 1), Button(tr("Close"), self.done.emit))
        content = QWidget()
        vbox(row, self.caption, divider(), (self._halves, 1), on=content, margins=(0, 0, GRID, 0))
        vbox(
            label(tr("Two models side by side"), size="strong"),
            (scrolled(content), 1),
            foot,
            on=self,
            margins=PADDING,
        )

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._pair.show(False)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        set_beside(self._halves, self.width() >= fonts.px(BESIDE))


class _Settings(QWidget):
    """The model of a side, and how it samples."""

    def __init__(self, bench: Workbench, name: str) -> None:
        super().__init__()
        self._bench = bench
        self.model, self.settings, self.temperature = QComboBox(), QComboBox(), QComboBox()
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(GRID // 2)
        grid.setColumnStretch(1, 1)
        rows = (
            (tr("Model"), self.model, ""),
            (tr("Settings"), self.settings, tr("Sampling of this side's answer")),
            (
                tr("Temperature"),
                self.temperature,
                tr("Higher is more random; 0 always picks the likeliest token"),
            ),
        )
        for at, (title, box, help) in enumerate(rows):
            caption = label(title, "quiet")
            caption.setBuddy(box)
            box.setAccessibleName(f"{title}, {name}")
            box.view().setAccessibleName(tr("Choices of {title}, {side}", title=title, side=name))
            box.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            box.setMinimumContentsLength(8)
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            if help:
                set_tip(caption, help)
            if box is self.model:  # long names need the whole width
                grid.addWidget(box, at, 0, 1, 2)
                continue
            grid.addWidget(caption, at, 0)
            grid.addWidget(box, at, 1)
        for title in (tr(AS_SET), *(decimal(f"{value:g}") for value in TEMPERATURES)):
            self.temperature.addItem(title)

    def refresh(self) -> None:
        """The models of this disk with the open one first, and the presets; the choice stays."""
        session = self._bench.session
        stored = [
            (model.name, model.paths[0])
            for model in self._bench.library.models
            if model.is_model and model.paths[0] != session.path
        ]
        opened = [(session.model_title, session.path)] if session.path is not None else []
        _fill(self.model, [(title, str(path)) for title, path in (*opened, *stored)])
        presets = self._bench.preferences.presets()
        named = [(preset_title(one.name), one.name) for one in presets]
        _fill(self.settings, [(tr(AS_CHAT), ""), *named])

    @property
    def own(self) -> OwnSampling:
        """The numbers that are set for this side."""
        presets = {one.name: one.sampling for one in self._bench.preferences.presets()}
        own = presets.get(str(self.settings.currentData()), self._bench.chat.details.own)
        at = self.temperature.currentIndex()
        values = own.values | ({"temperature": TEMPERATURES[at - 1]} if at > 0 else {})
        return OwnSampling(**values)

    def names(self, other: "_Settings") -> tuple[str, str]:
        """Names that distinguish both sides, in few words."""
        if self.model.currentData() != other.model.currentData():
            return self._title, other._title
        names = self._name, other._name
        return (
            names
            if names[0] != names[1]
            else (
                f"{names[0]}, {tr(NAMES[0])}",
                f"{names[1]}, {tr(NAMES[1])}",
            )
        )

    def chosen(self, name: str) -> PairChoice | None:
        """The choice under a name; None where there is no model."""
        path = self.model.currentData()
        return PairChoice(Path(path), self.own, name) if path else None

    @property
    def _title(self) -> str:
        return title_of(Path(self.model.currentData() or ""))

    @property
    def _name(self) -> str:
        at = self.temperature.currentIndex()
        if at > 0:
            return tr("temperature {value}", value=self.temperature.currentText())
        return self.settings.currentText()


class _Half(QWidget):
    """One side: its model and settings, its answer, and what can be done with that."""

    pointed = Signal(int, object)  # its number, a word's index or None
    inspected = Signal(int, int)  # its number, a token's index

    def __init__(self, bench: Workbench, number: int) -> None:
        super().__init__()
        self._pair, self._number, name = bench.pair, number, tr(NAMES[number])
        self.shown: PairSide | None = None
        self.words: list[ComparedWord] = []
        self.choice = _Settings(bench, name)
        self.title: QLabel = label("", size="strong", wrap=True)
        self.facts = label("", tone="quiet", wrap=True)
        self.text = TokenText(tr("Answer, {side}", side=name))
        self.stop = Button(
            tr("Stop"),
            lambda: self._pair.stop(number),
            "link",
            name=tr("Stop, {side}", side=name),
        )
        self.branch = Button(
            tr("Branch…"), self.show_others, "link", name=tr("Branch, {side}", side=name)
        )
        set_tip(self.branch, tr("Continue with another word at the cursor"))
        self.inspect = Button(
            tr("Inspect"),
            self._inspect,
            "link",
            name=tr("Inspect the word, {side}", side=name),
        )
        set_tip(self.inspect, tr("Show the word at the cursor in the inspector"))
        self.text.pointed.connect(lambda at: self.pointed.emit(number, at))
        self.text.placed.connect(self._placed)
        self.text.taken.connect(lambda at: self.show_others())
        self._area = area = scrolled(self.text)
        area.setAccessibleName(tr("Text of the answer, {side}", side=name))
        row = hbox(self.stop, self.branch, self.inspect, STRETCH, spacing=GRID)
        vbox(self.choice, self.title, self.facts, (area, 1), row, on=self, spacing=GRID // 2)
        area.setMinimumHeight(fonts.px(LEAST_TEXT))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._area.setMinimumHeight(fonts.px(LEAST_TEXT))

    def show_answer(self, side: PairSide | None, parted: int | None) -> None:
        """Show the answer, painted by how likely the other side finds each word; the word at which
        it parts from the other answer is framed.
        """
        self.shown = side
        self.words = side.words if side is not None else []
        message = side.message if side is not None else None
        self.title.setText(side.choice.name if side is not None else "")
        self.facts.setText(self._facts(side))
        text = message.text if message is not None else ""
        begin = side.tokens.begin if side is not None else 0
        bands = [word_band(word.other) for word in self.words]
        self.text.set_tokens(text, begin, [word.end for word in self.words], bands)
        self.text.show_selected(parted if parted is not None and parted < len(bands) else None)
        running = message is not None and not message.finish
        self.stop.setVisible(running)
        for button in (self.branch, self.inspect):
            button.setVisible(not running and bool(self.words))
            button.setEnabled(not self._pair.busy)
        self.title.setVisible(side is not None)
        self.facts.setVisible(side is not None)

    @property
    def token(self) -> int | None:
        """The answer's token at the cursor, or else where both answers part."""
        at = self.text.place if self.text.place is not None else self.text.selected
        if self.shown is None or at is None or at >= len(self.words):
            return None
        return self.shown.tokens.at(self.words[at].start)

    def menu(self) -> QMenu:
        """The words that could have come at the cursor; one that is chosen begins a branch."""
        menu = QMenu(self)
        token = self.token
        if self.shown is None or token is None:
            menu.addAction(tr("Move to a word of the answer first")).setEnabled(False)
            return menu
        info = self.shown.tokens[token]
        for other in sorted(info.top, key=lambda one: -one.logprob):
            action = menu.addAction(f"{visible(other.text)}   {percent(exp(other.logprob))}")
            action.setEnabled(other.token != info.token)
            action.triggered.connect(partial(self._pair.branch, self._number, token, other))
        if not info.top:
            menu.addAction(tr("No other words were recorded")).setEnabled(False)
        return menu

    def show_others(self) -> None:
        """Open the menu of other words."""
        if self.branch.isEnabled():
            self.menu().popup(self.branch.mapToGlobal(QPoint(0, self.branch.height())))

    def _inspect(self) -> None:
        token = self.token
        self.inspected.emit(self._number, 0 if token is None else token)

    def _placed(self, at: int) -> None:
        self.pointed.emit(self._number, at)
        self.text.announce(self._pair_words(at))

    def _pair_words(self, at: int) -> str:
        if self.shown is None or at >= len(self.words) or self._pair.sides is None:
            return ""
        other = self._pair.sides[1 - self._number].choice.name
        return tr(
            "Word {at} of {n}: {said}",
            at=at + 1,
            n=len(self.words),
            said=_word_text(self.shown, other, at),
        )

    def _facts(self, side: PairSide | None) -> str:
        message = side.message if side is not None else None
        if side is None or message is None:
            return tr("Waiting for the other side.")
        if message.problem:
            return message.problem
        written = tr_n("{n} token", "{n} tokens", len(side.tokens))
        parts = [summary(message) if message.finish else written]
        others = [word.other for word in self.words if not isnan(word.other)]
        if others and len(side.tokens):
            bits = -sum(others) / len(side.tokens) / float(np.log(2))
            parts.append(tr("surprise to the other side {bits:.2f} bits a token", bits=bits))
        return "  ·  ".join(filter(None, parts))


def _fill(box: QComboBox, rows: Sequence[tuple[str, str]]) -> None:
    """Other rows of title and value; what was chosen stays chosen."""
    chosen = box.currentData()
    box.clear()
    for title, value in rows:
        box.addItem(title, value)
    box.setCurrentIndex(max(0, box.findData(chosen)))


def _probability(logprob: float) -> float | None:
    return None if isnan(logprob) else exp(min(logprob, 0.0))


def _word_text(side: PairSide, other: str, at: int) -> str:
    """A word of a side with both probabilities."""
    if at >= len(side.words):
        return tr("{name} ends there", name=side.choice.name)
    word = side.words[at]
    text = visible(side.message.text[word.start : word.end] if side.message else "").strip("␣")
    own, others = (percent(_probability(p)) for p in (word.own, word.other))
    return tr(
        "“{word}” ({name}: {own}, {other}: {others})",
        word=text or "␣",
        name=side.choice.name,
        own=own,
        other=other,
        others=others,
    )
