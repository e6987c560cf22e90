"""Where an answer ends: its maximum length, stop strings, a full context."""

from typing import cast

from msgspec import structs
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QPlainTextEdit, QWidget

from app.state.limits import LONGEST, MOST_STOPS, AnswerLimits
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import label
from app.widgets.controls.number_slider import NAME, NumberSlider
from app.widgets.tips import plain_tip, set_tip
from engine.protocol import WhenFull

WHEN_FULL: dict[WhenFull, tuple[str, str]] = {
    "shift": ("Drop the oldest", "Drops the oldest messages after the system prompt"),
    "middle": ("Cut the middle", "Keeps the start and the end of a prompt that is too long"),
    "stop": (
        "Stop",
        "Stops the answer when the context is full; does not send a prompt that is too long",
    ),
}
SLIDER_MOST = 4096  # tokens
STOPS_HINT = f"One per line, at most {MOST_STOPS}; \\n is a line break. Default: none"


class WhenFullChoice(QComboBox):
    """The choice of what to drop when the context is full; kept for all chats with the model."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._chat = bench.chat
        self.setAccessibleName("When the context is full")
        self.view().setAccessibleName("When the context is full")
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
            "Maximum length",
            f"Tokens of an answer, up to {LONGEST}. Default: no limit",
            0,
            SLIDER_MOST,
            LONGEST,
            0,
            "none",
        )
        self.length.changed.connect(self._set_length)
        self.loops = QCheckBox("Stop repetitive answers")
        self.loops.setAccessibleName(self.loops.text())
        self.loops.toggled.connect(self._set_loops)
        self.stops = QPlainTextEdit()
        self.stops.setAccessibleName("Stop strings")
        self.stops.setAccessibleDescription(STOPS_HINT)
        set_tip(self.stops, STOPS_HINT)
        self.stops.setPlaceholderText("Generation stops at any of these, one per line")
        self.stops.setTabChangesFocus(True)
        self.stops.setFixedHeight(fonts.px(52))
        self.stops.installEventFilter(self)
        self.when_full = WhenFullChoice(bench)
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setSpacing(GRID)
        form.addRow(self.length)
        form.addRow(self.loops)
        for name, field in (("Stop strings", self.stops), ("Context full", self.when_full)):
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
