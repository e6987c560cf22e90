"""Steering: a vector is made of pairs of texts or opened, saved, and added to the chat's edits."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QWidget,
)

from app.directions import At, Method, lines_of
from app.language import tr
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.lab.fields import check_box
from app.views.talk.edits import layers_of, plain
from app.widgets.basics import Button, divider, label, scrolled
from app.widgets.controls.flow import Flow
from app.widgets.controls.number_slider import NumberSlider
from app.widgets.file_dialogs import open_file, save_file
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import grouped
from engine.errors import BadSetting

NOTE = tr(
    "One text a line, a pair on each: the direction leads from the texts on the right to those on"
    " the left. Five pairs or more are checked against pairs that were left out."
)
METHODS: dict[Method, str] = {"mean": tr("Difference of means"), "pca": tr("Principal component")}
PLACES: dict[At, str] = {"last": tr("Last token"), "mean": tr("Mean of all tokens")}
KINDS = tr("Control vectors (*.gguf)")
STRENGTH = tr(
    "How often the direction is added: 0 changes nothing, negative values lead away from it"
)
USUAL_NAME = tr("my vector")


class SteerView(QWidget):
    """Two fields of texts, what is made of them, and how it is used."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Steer with a vector"))
        self._bench, self._steering = bench, bench.steering
        self._shown: object = None
        self.name = QLineEdit()
        self.name.setAccessibleName(tr("Name of the vector"))
        self.name.setPlaceholderText(USUAL_NAME)
        self.positive, self.negative = _Texts(tr("Towards")), _Texts(tr("Away from"))
        self.method, self.at = QComboBox(), QComboBox()
        self.method.setAccessibleName(tr("Method"))
        self.at.setAccessibleName(tr("Measured at"))
        for combo, titles in ((self.method, METHODS), (self.at, PLACES)):
            for code, title in titles.items():
                combo.addItem(title, code)
        self.chat = check_box(tr("As chat messages"))
        self.chat.setChecked(True)
        self.make = Button(tr("Make the vector"), self._make, kind="primary")
        self.cancel = Button(tr("Cancel"), self._steering.cancel)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Texts that are computed"))
        self.counts = label("", "quiet", "small")
        self.caption = label("", wrap=True)
        self.problem = label("", "bad", wrap=True)
        self.layers = QLineEdit()
        self.layers.setAccessibleName(tr("Layers"))
        self.strength = NumberSlider(tr("Strength"), STRENGTH, -4.0, 4.0, 1e5, 2)
        self.strength.field.setMinimum(-1e5)
        self.strength.set_value(1.0)
        self.save = Button(tr("Save…"), self._choose_file)
        self.use = Button(tr("Add to the edits"), self._use, kind="primary")
        self._lay_out()
        self.setFocusProxy(self.positive.field)
        for texts in (self.positive, self.negative):
            texts.field.textChanged.connect(self._count)
        self._steering.changed.connect(self._show)
        self._count()
        self._show()

    def refresh(self) -> None:
        """Take the layer that is selected."""
        layer = self._bench.selection.now.layer
        if layer is not None and self._bench.verbs.target is not None:
            self.layers.setText(str(layer))
        self._show()

    def _make(self) -> None:
        method: Method = self.method.currentData()
        at: At = self.at.currentData()
        sides = (lines_of(self.positive.text), lines_of(self.negative.text))
        name = self.name.text().strip() or USUAL_NAME
        self._steering.make(*sides, name, method, at, self.chat.isChecked())

    def _use(self) -> None:
        vector = self._steering.vector
        if vector is None:
            return
        try:
            layers = layers_of(self.layers.text())
        except BadSetting as error:
            self._say(plain(error))
            return
        if self._steering.use(self.strength.value, layers):
            self.done.emit()

    def _choose_file(self) -> None:
        vector = self._steering.vector
        if vector is not None:
            name = f"{vector.name.replace('/', '_')}.gguf"
            path, _ = save_file(self, tr("Save the vector"), name, KINDS)
            if path:
                self._steering.save(Path(path))

    def _open(self) -> None:
        path = open_file(self, tr("Open a control vector"), KINDS)
        if path:
            self._steering.open(Path(path))

    def _count(self) -> None:
        ours, theirs = (len(lines_of(side.text)) for side in (self.positive, self.negative))
        text = tr("{ours} and {theirs} texts", ours=grouped(ours), theirs=grouped(theirs))
        self.counts.setText(text if ours or theirs else "")

    def _show(self) -> None:
        steering, vector = self._steering, self._steering.vector
        ready = self._bench.session.model is not None
        self.bar.setVisible(steering.running)
        self.bar.setRange(0, max(1, steering.total))
        self.bar.setValue(steering.done)
        self.cancel.setEnabled(steering.running)
        self.make.setEnabled(ready and not steering.running)
        if vector is not self._shown and vector is not None:
            self._shown = vector
            if not self.layers.text():
                known = list(vector.directions)
                self.layers.setText(str(known[len(known) // 2]))  # of all layers it is too strong
        for widget in (self.save, self.use):
            widget.setEnabled(vector is not None and not steering.running)
        if steering.running:
            counts = {"n": steering.done + 1, "total": steering.total}
            self.caption.setText(tr("Computing text {n} of {total}…", **counts))
        elif vector is not None:
            name = tr("“{name}”", name=vector.name)
            self.caption.setText(f"{name}: {vector.facts}. {steering.notice}".strip())
        else:
            self.caption.setText(tr("There is no vector yet: make one of texts, or open a file."))
        self._say(steering.problem)

    def _say(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    def _lay_out(self) -> None:
        inside = QWidget()
        sides = hbox((self.positive, 1), (self.negative, 1), spacing=GRID)
        column = vbox(label(NOTE, "quiet", wrap=True), (sides, 1), on=inside)
        how, buttons = Flow(tr("How it is made")), Flow(tr("Make or open"))
        how.show_items([self.method, self.at, self.chat])
        column.addWidget(self.counts)
        column.addWidget(how)
        column.addWidget(self.name)
        buttons.show_items([self.make, self.cancel, Button(tr("Open a file…"), self._open)])
        column.addWidget(buttons)
        column.addWidget(self.bar)
        column.addWidget(self.caption)
        column.addWidget(self.problem)
        column.addWidget(divider())
        grid = QGridLayout()
        grid.setHorizontalSpacing(GRID)
        name = label(tr("Layers"), "quiet")
        name.setBuddy(self.layers)
        grid.addWidget(name, 0, 0)
        grid.addWidget(self.layers, 0, 1)
        column.addLayout(grid)
        column.addWidget(self.strength)
        ends = hbox(STRETCH, self.save, Button(tr("Close"), self.done.emit), self.use)
        vbox(
            label(tr("Steer with a vector"), size="strong"),
            (scrolled(inside, self), 1),
            ends,
            on=self,
            margins=PADDING,
        )


class _Texts(QWidget):
    """A field of texts, one a line."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.field = QPlainTextEdit()
        self.field.setAccessibleName(tr("{title}, one text a line", title=title))
        self.field.setTabChangesFocus(True)
        self.field.setMinimumHeight(96)
        name = label(title, "quiet")
        name.setBuddy(self.field)
        vbox(name, (self.field, 1), on=self, spacing=GRID // 2)

    @property
    def text(self) -> str:
        return self.field.toPlainText()
