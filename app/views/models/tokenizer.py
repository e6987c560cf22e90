"""The tokenizer: a text as the model sees it."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QPlainTextEdit, QScrollArea, QVBoxLayout, QWidget

from app.state.models.model import ModelState
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import label, set_tone
from app.widgets.numbers import grouped
from app.widgets.tokens.chips import Chip, Chips
from engine.protocol import TokenRow

WAIT_MS = 80
SAMPLE = "The quick brown fox jumps over 13 lazy dogs.\nNaïve façade, Straße, 12.50 €."


class TokenizerPage(QWidget):
    """Text above, its tokens with their ids below, as one writes."""

    def __init__(self, state: ModelState) -> None:
        super().__init__()
        self._state = state
        self.text = QPlainTextEdit(SAMPLE)
        self.text.setAccessibleName("Text to tokenize")
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(fonts.px(96))
        self._says = label(tone="quiet")
        self.chips = Chips("Tokens")
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self.chips)
        for part in (scroll.viewport(), self.chips):  # no canvas below them
            part.setAutoFillBackground(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, 12, PADDING, PADDING)
        column.setSpacing(GRID)
        column.addWidget(self.text)
        column.addWidget(self._says)
        column.addWidget(scroll, 1)
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._ask)
        self.text.textChanged.connect(self._soon.start)
        self._asked: object = None
        state.changed.connect(self._ask)
        state.tokens_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        tokens, problem = self._state.tokens, self._state.tokens_problem
        set_tone(self._says, "bad" if problem else "quiet")
        n_chars = len(self.text.toPlainText())
        counted = f"{grouped(len(tokens))} tokens for {grouped(n_chars)} characters"
        self._says.setText(problem or counted)
        self.chips.show_chips([_chip(row) for row in tokens])

    def showEvent(self, event: object) -> None:  # noqa: N802
        super().showEvent(event)  # type: ignore[arg-type]
        self._ask()

    def _ask(self) -> None:
        """Only while it can be seen: making a tokenizer takes a moment."""
        wanted = (self._state.content, self.text.toPlainText())
        if self.isVisible() and self._state.content is not None and wanted != self._asked:
            self._asked = wanted
            self._state.tokenize(self.text.toPlainText())


def _chip(row: TokenRow) -> Chip:
    shown = row.text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return Chip(shown, str(row.token), row.special, row.text.endswith("\n"))
