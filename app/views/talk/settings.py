"""Settings of an answer: its form (JSON, grammar), and the limits that end it."""

from collections.abc import Callable
from typing import Literal, cast

from msgspec import structs
from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QPlainTextEdit, QWidget

from app.client import Latest
from app.language import tr
from app.state.presets import LONGEST, MOST_STOPS, AnswerLimits
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import label, set_height
from app.widgets.controls.number_slider import NAME, NumberSlider
from app.widgets.tips import plain_tip, set_tip
from engine.protocol import (
    AnswerForm,
    CheckForm,
    Failed,
    FormChecked,
    JsonObject,
    JsonSchema,
    Regex,
    WhenFull,
)

Kind = Literal["text", "json", "schema", "regex"]
KINDS: dict[Kind, tuple[str, str]] = {
    "text": (tr("Text"), tr("No constraint on the answer")),
    "json": ("JSON", tr("The answer must be a JSON object")),
    "schema": (tr("JSON schema"), tr("The answer must match the JSON schema below")),
    "regex": (tr("Regular expression"), tr("The whole answer must match the regular expression")),
}
WRITTEN: dict[Kind, Callable[[str], AnswerForm]] = {"schema": JsonSchema, "regex": Regex}
CHECK_MS = 400
FITS = tr("Valid")


class AnswerFormChoice(QWidget):
    """Kept with the chat; every change holds from the next answer on. What is written is checked
    while it is written, by the engine.
    """

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._details, self._checked = bench.chat.details, Latest(bench.client)
        self.kind = QComboBox()
        self.kind.setAccessibleName(tr("Answer format"))
        self.kind.view().setAccessibleName(tr("Answer format"))
        for key, (words, hint) in KINDS.items():
            self.kind.addItem(words, key)
            self.kind.setItemData(
                self.kind.count() - 1, plain_tip(hint), Qt.ItemDataRole.ToolTipRole
            )
        self.kind.activated.connect(self._choose)
        self.text = QPlainTextEdit()
        self.text.setFont(fonts.mono())
        self.text.setTabChangesFocus(True)
        set_height(self.text, 88)
        self.text.textChanged.connect(self._typed)
        self.problem = label("", tone="quiet", wrap=True)
        self._soon = QTimer(self, singleShot=True, interval=CHECK_MS)
        self._soon.timeout.connect(self.save)
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setSpacing(GRID)
        named = label(tr("Answer format"))
        named.setFixedWidth(fonts.px(NAME))
        named.setBuddy(self.kind)
        form.addRow(named, self.kind)
        form.addRow(self.text)
        form.addRow(self.problem)
        self._details.changed.connect(self.refresh)
        self._details.draft_changed.connect(self._follow)
        self.refresh()

    def refresh(self) -> None:
        """Show what the chat has."""
        if self._soon.isActive():
            return
        form = self._details.form
        kind = _kind(form)
        if form is not None or self._chosen not in WRITTEN:
            self.kind.setCurrentIndex(self.kind.findData(kind))
        written = _text(form)
        if kind in WRITTEN and self.text.toPlainText() != written:
            self.text.blockSignals(True)
            self.text.setPlainText(written)
            self.text.blockSignals(False)
            self._check()
        self._show_kind()

    def _follow(self) -> None:
        """Another chat is open: what was chosen without a word written was of the one before."""
        if self._details.form is None:
            self._soon.stop()
            self.kind.setCurrentIndex(self.kind.findData("text"))
            self._show_kind()
        self.refresh()

    def save(self) -> None:
        """Keep what is written now, and have it checked."""
        self._soon.stop()
        kind, text = self._chosen, self.text.toPlainText()
        form: AnswerForm | None = JsonObject() if kind == "json" else None
        if kind in WRITTEN and text.strip():
            form = WRITTEN[kind](text)
        if form != self._details.form:
            self._details.set_form(form)
        self._check()

    @property
    def _chosen(self) -> Kind:
        kind: Kind = self.kind.currentData()
        return kind

    def _choose(self) -> None:
        self.text.blockSignals(True)
        self.text.clear()
        self.text.blockSignals(False)
        self.save()
        self._show_kind()
        if self._chosen in WRITTEN:
            self.text.setFocus()

    def _show_kind(self) -> None:
        kind = self._chosen
        set_tip(self.kind, KINDS[kind][1])
        self.kind.setAccessibleDescription(KINDS[kind][1])
        is_written = kind in WRITTEN
        what = tr("Regular expression") if kind == "regex" else tr("JSON schema")
        self.text.setAccessibleName(what)
        example = "[0-9]{4}-[0-9]{2}" if kind == "regex" else '{"type": "object", …}'
        self.text.setPlaceholderText(tr("For instance {example}", example=example))
        self.text.setVisible(is_written)
        self.problem.setVisible(is_written)

    def _typed(self) -> None:
        self._soon.start()

    def _check(self) -> None:
        kind, text = self._chosen, self.text.toPlainText()
        if kind not in WRITTEN or not text.strip():
            self._checked.forget()
            self._say(tr("Empty: answers are plain text") if kind in WRITTEN else "")
            return
        self._checked.send(CheckForm(0, WRITTEN[kind](text)), self._on_checked, self._on_failed)

    def _on_checked(self, checked: FormChecked) -> None:
        problem = checked.problem
        self._say(f"{problem[:1].upper()}{problem[1:]}" if problem else FITS)

    def _on_failed(self, failed: Failed) -> None:
        self._say("")

    def _say(self, words: str) -> None:
        self.problem.setText(words)


def _kind(form: AnswerForm | None) -> Kind:
    if isinstance(form, JsonObject):
        return "json"
    return (
        "schema" if isinstance(form, JsonSchema) else "regex" if isinstance(form, Regex) else "text"
    )


def _text(form: AnswerForm | None) -> str:
    if isinstance(form, JsonSchema):
        return form.text
    return form.pattern if isinstance(form, Regex) else ""


WHEN_FULL: dict[WhenFull, tuple[str, str]] = {
    "shift": (tr("Drop the oldest"), tr("Drops the oldest messages after the system prompt")),
    "middle": (
        tr("Cut the middle"),
        tr("Keeps the start and the end of a prompt that is too long"),
    ),
    "stop": (
        tr("Stop"),
        tr("Stops the answer when the context is full; does not send a prompt that is too long"),
    ),
}
SLIDER_MOST = 4096  # tokens
STOPS_HINT = tr(
    "One per line, at most {most_stops}; \\n is a line break. Default: none", most_stops=MOST_STOPS
)


class WhenFullChoice(QComboBox):
    """The choice of what to drop when the context is full; kept for all chats with the model."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._chat = bench.chat
        self.setAccessibleName(tr("When the context is full"))
        self.view().setAccessibleName(tr("When the context is full"))
        for key, (words, hint) in WHEN_FULL.items():
            self.addItem(words, key)
            self.setItemData(self.count() - 1, plain_tip(hint), Qt.ItemDataRole.ToolTipRole)
        self.activated.connect(self._choose)
        self._chat.details.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what is kept."""
        now = self._chat.details.limits.when_full
        self.setCurrentIndex(self.findData(now))
        hint = WHEN_FULL[now][1]
        set_tip(self, hint)
        self.setAccessibleDescription(hint)

    def _choose(self) -> None:
        chosen = cast(WhenFull, self.currentData())
        self._chat.details.set_limits(structs.replace(self._chat.details.limits, when_full=chosen))


class LimitsForm(QWidget):
    """Every change holds from the next answer on."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._chat = bench.chat
        self.length = NumberSlider(
            tr("Maximum length"),
            tr("Tokens of an answer, up to {longest}. Default: no limit", longest=LONGEST),
            0,
            SLIDER_MOST,
            LONGEST,
            0,
            tr("none"),
        )
        self.length.changed.connect(self._set_length)
        self.loops = QCheckBox(tr("Stop repetitive answers"))
        self.loops.setAccessibleName(self.loops.text())
        self.loops.toggled.connect(self._set_loops)
        self.stops = QPlainTextEdit()
        self.stops.setAccessibleName(tr("Stop strings"))
        self.stops.setAccessibleDescription(STOPS_HINT)
        set_tip(self.stops, STOPS_HINT)
        self.stops.setPlaceholderText(tr("Generation stops at any of these, one per line"))
        self.stops.setTabChangesFocus(True)
        set_height(self.stops, 52)
        self.stops.installEventFilter(self)
        self.when_full = WhenFullChoice(bench)
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setSpacing(GRID)
        form.addRow(self.length)
        form.addRow(self.loops)
        for name, field in ((tr("Stop strings"), self.stops), (tr("Context full"), self.when_full)):
            words = label(name)
            words.setFixedWidth(fonts.px(NAME))
            words.setBuddy(field)
            set_tip(words, field.toolTip())
            form.addRow(words, field)
        bench.chat.details.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what is kept."""
        limits = self._chat.details.limits
        self.length.set_value(limits.max_tokens or 0)
        self.loops.setChecked(limits.stop_loops)
        if stops_of(self.stops.toPlainText()) != limits.stop:
            self.stops.setPlainText("\n".join(_escaped(text) for text in limits.stop))

    def save(self) -> None:
        """Keep the stop strings as they are written now."""
        stops = stops_of(self.stops.toPlainText())
        if stops != self._chat.details.limits.stop:
            self._set(structs.replace(self._chat.details.limits, stop=stops))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.FocusOut:
            self.save()
        return False

    def _set_length(self, value: float) -> None:
        self._set(structs.replace(self._chat.details.limits, max_tokens=round(value) or None))

    def _set_loops(self, on: bool) -> None:
        self._set(structs.replace(self._chat.details.limits, stop_loops=on))

    def _set(self, limits: AnswerLimits) -> None:
        if limits != self._chat.details.limits:
            self._chat.details.set_limits(limits)


def stops_of(text: str) -> list[str]:
    """Stop strings as written, one per line; backslash n is a line break, two are a backslash."""
    lines = [_unescaped(line)[:200] for line in text.split("\n") if line]
    return list(dict.fromkeys(lines))[:MOST_STOPS]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _unescaped(line: str) -> str:
    parts = [part.replace("\\n", "\n").replace("\\t", "\t") for part in line.split("\\\\")]
    return "\\".join(parts)
