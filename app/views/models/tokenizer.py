"""The tokenizer: a text as the model sees it, as chips of a word above a number."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPlainTextEdit, QScrollArea, QWidget

from app.language import tr
from app.state.models.model import ModelState
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import DEVICES, PADDING, RADIUS_CONTROL, mix
from app.widgets.basics import label, set_height, set_tone
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import CENTER, Paper, text_width
from engine.protocol import TokenRow

GAP, HEIGHT = 3, 42
MOST = 5000  # chips painted; more say how many are left out


@dataclass(frozen=True)
class Chip:
    """`breaks` begins a new line after it; `strong` stands out."""

    text: str
    number: str
    strong: bool = False
    breaks: bool = False


class Chips(Chart):
    """Arrows walk over the chips."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._chips: Sequence[Chip] = ()
        self._areas: list[QRectF] = []

    def show_chips(self, chips: Sequence[Chip]) -> None:
        self._chips, self._at = chips[:MOST], 0
        self._place()
        text = " ".join(f"{chip.text} {chip.number}," for chip in self._chips[:200])
        self.setAccessibleDescription(text)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(200, self.minimumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._place()

    def areas(self) -> list[QRectF]:
        return self._areas

    def words(self, at: int) -> str:
        return f"{self._chips[at].text} {self._chips[at].number}"

    def draw(self, paper: Paper) -> None:
        now, text_font, small = tokens(), fonts.mono(13), fonts.mono(10)
        for at, (chip, area) in enumerate(zip(self._chips, self._areas, strict=True)):
            if not area.intersects(paper.seen):
                continue
            under = now.raised if chip.strong else DEVICES[at % len(DEVICES)]
            share = 1.0 if chip.strong else 0.24 if now.dark else 0.16
            paper.fill(area, mix(under, now.panel, share), radius=RADIUS_CONTROL)
            if self.hasFocus() and at == self.at:
                paper.frame(area, now.accent, 2, RADIUS_CONTROL)
            half = area.height() * 0.58
            upper = QRectF(area.left(), area.top() + 1, area.width(), half)
            tone = now.link if chip.strong else now.text
            paper.text(upper, chip.text, tone=tone, align=CENTER, font=text_font, margin=-GAP)
            lower = QRectF(area.left(), area.top() + half, area.width(), area.height() - half - 2)
            paper.text(lower, chip.number, tone=now.quiet, align=CENTER, font=small, margin=-GAP)

    def _place(self) -> None:
        text, small = fonts.mono(13), fonts.mono(10)
        height, width = fonts.px(HEIGHT), max(self.width(), 80)
        left = top = 0.0
        self._areas = []
        for chip in self._chips:
            wide = max(text_width(chip.text, text), text_width(chip.number, small))
            wide = min(wide + 10, width)
            if left and left + wide > width:
                left, top = 0.0, top + height + GAP
            self._areas.append(QRectF(left, top, wide, height))
            left += wide + GAP
            if chip.breaks:
                left, top = 0.0, top + height + GAP
        self.setMinimumHeight(round(top + height) if self._chips else 0)
        self.update()


WAIT_MS = 80
SAMPLE = "The quick brown fox jumps over 13 lazy dogs.\nNaïve façade, Straße, 12.50 €."


class TokenizerPage(QWidget):
    """Text above, its tokens with their ids below, as one writes."""

    def __init__(self, state: ModelState) -> None:
        super().__init__()
        self._state = state
        self.text = QPlainTextEdit(SAMPLE)
        self.text.setAccessibleName(tr("Text to tokenize"))
        self.text.setTabChangesFocus(True)
        set_height(self.text, 96)
        self._caption = label(tone="quiet")
        self.chips = Chips(tr("Tokens"))
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self.chips)
        for part in (scroll.viewport(), self.chips):  # no canvas below them
            part.setAutoFillBackground(False)
        vbox(
            self.text, self._caption, (scroll, 1), on=self, margins=(PADDING, 12, PADDING, PADDING)
        )
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._send)
        self.text.textChanged.connect(self._soon.start)
        self._requested: object = None
        state.changed.connect(self._send)
        state.tokens_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        tokens, problem = self._state.tokens, self._state.tokens_problem
        set_tone(self._caption, "bad" if problem else "quiet")
        n_chars = len(self.text.toPlainText())
        counted = tr(
            "{tokens} tokens for {n_chars} characters",
            tokens=grouped(len(tokens)),
            n_chars=grouped(n_chars),
        )
        self._caption.setText(problem or counted)
        self.chips.show_chips([_chip(row) for row in tokens])

    def showEvent(self, event: object) -> None:  # noqa: N802
        super().showEvent(event)  # type: ignore[arg-type]
        self._send()

    def _send(self) -> None:
        """Only while it can be seen: making a tokenizer takes a moment."""
        wanted = (self._state.content, self.text.toPlainText())
        if self.isVisible() and self._state.content is not None and wanted != self._requested:
            self._requested = wanted
            self._state.tokenize(self.text.toPlainText())


def _chip(row: TokenRow) -> Chip:
    shown = row.text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return Chip(shown, str(row.token), row.special, row.text.endswith("\n"))
