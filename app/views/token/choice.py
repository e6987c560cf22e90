"""The choice: how likely each word was, and what each step of sampling left of them."""

from collections.abc import Sequence
from math import exp, log

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL, mix
from app.views.token.words import percent, shown
from app.widgets.basics import TEXT_SIZE, label
from app.widgets.charts.walk import Walk
from app.widgets.numbers import grouped
from engine.protocol import Alternative, TokenChoice, TokenInfo

MOST = 8  # words listed
NAME = 96  # pixels of a word
HINT = (
    "A click or Enter goes on with another word, as a branch beside this answer. Alt+Left comes"
    " back."
)
STEPS = {
    "model": "model",
    "penalties": "penalties",
    "top_k": "top-k",
    "top_p": "top-p",
    "min_p": "min-p",
    "temperature": "temperature",
}
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


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
    def says(self) -> str:
        said = f"{shown(self.text)} {percent(self.model)}"
        if self.removed_by:
            return f"{said}, removed by {STEPS.get(self.removed_by, self.removed_by)}"
        return said if self.drawn is None else f"{said}, drawn with {percent(self.drawn)}"


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


class ChoiceBars(Walk):
    """A line a word: what the model gives it as a light bar, what it was drawn with as a solid one.

    Arrows and the mouse point at a word; a click or Enter takes it.
    """

    pointed = Signal(int)  # the word under the mouse or the keyboard
    taken = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.candidates: Sequence[Candidate] = ()
        self._hovered: int | None = None
        self.setAccessibleName("What could have come: Enter goes on with a word, as a branch")
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_candidates(self, found: Sequence[Candidate]) -> None:
        kept = [one for n, one in enumerate(found) if n < MOST or one.taken]
        self.candidates = kept
        self.setAccessibleDescription("; ".join(one.says for one in kept) or "Nothing yet")
        self.updateGeometry()
        self.update()

    def stops(self) -> int:
        return len(self.candidates)

    def walked(self) -> None:
        self.setAccessibleDescription(self.candidates[self.at].says)
        self.pointed.emit(self.at)

    def chosen(self) -> bool:
        self.taken.emit(self.at)
        return True

    def row_area(self, at: int) -> QRectF:
        """Where a word's line is painted."""
        return QRectF(0, (at + 1) * self._line(), self.width(), self._line())

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = self._under(event)
        if at is not None and event.button() == Qt.MouseButton.LeftButton:
            self.go(at)
            self.taken.emit(at)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = self._under(event)
        if at is not None and at != self._hovered:
            self.pointed.emit(at)
        self._hovered = at
        self.update()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._hovered = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        by = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
        if by is not None and self.stops():
            self.go(self.at + by)
        else:
            super().keyPressEvent(event)

    def _under(self, event: QMouseEvent) -> int | None:
        at = int(event.position().y() // self._line()) - 1
        return at if 0 <= at < self.stops() else None

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(240), round((len(self.candidates) + 1) * self._line()))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_titles(painter)
        for at, one in enumerate(self.candidates):
            area = self.row_area(at)
            if at == self._hovered:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(tokens().selection))
                painter.drawRoundedRect(area, RADIUS_CONTROL, RADIUS_CONTROL)
            self._paint(painter, one, area)
            if self.hasFocus() and at == self.at:
                painter.setPen(QPen(QColor(tokens().accent), 1))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                frame = area.adjusted(0.5, 0.5, -0.5, -0.5)
                painter.drawRoundedRect(frame, RADIUS_CONTROL, RADIUS_CONTROL)
        painter.end()

    def _paint(self, painter: QPainter, one: Candidate, area: QRectF) -> None:
        now = tokens()
        font = fonts.small()
        font.setBold(one.taken)
        font.setStrikeOut(bool(one.removed_by))
        painter.setFont(font)
        metrics = painter.fontMetrics()
        painter.setPen(QColor(now.quiet if one.removed_by else now.text))
        name = QRectF(area.left() + 4, area.top(), fonts.px(NAME) - 8, area.height())
        text = metrics.elidedText(shown(one.text), Qt.TextElideMode.ElideRight, int(name.width()))
        painter.drawText(name, _LEFT, text)
        painter.setFont(fonts.small())
        metrics = painter.fontMetrics()
        room, number, notes = self._widths()
        bar = QRectF(area.left() + fonts.px(NAME), area.center().y() - 4, room, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(now.raised))
        painter.drawRoundedRect(bar, 2, 2)
        for share, tone in ((one.drawn or 0.0, 0.9), (one.model, 0.45)):
            part = QRectF(bar)
            part.setWidth(max(1.0, bar.width() * min(share, 1.0)) if share else 0.0)
            painter.setBrush(QColor(mix(now.accent, now.panel, tone)))
            painter.drawRoundedRect(part, 2, 2)
        painter.setPen(QColor(now.text))
        numbers = QRectF(bar.right(), area.top(), number, area.height())
        painter.drawText(numbers, _RIGHT, percent(one.model))
        painter.setPen(QColor(now.quiet))
        last = QRectF(numbers.right() + GRID, area.top(), notes - GRID, area.height())
        step = STEPS.get(one.removed_by, one.removed_by)
        if one.removed_by:
            texts: tuple[str, ...] = (f"by {step}", step, "–")
        else:
            texts = (percent(one.drawn) if one.drawn is not None else "",)
        fits = (said for said in texts if metrics.horizontalAdvance(said) <= last.width())
        painter.drawText(last, _RIGHT, next(fits, ""))

    def _paint_titles(self, painter: QPainter) -> None:
        room, number, notes = self._widths()
        painter.setFont(fonts.small())
        painter.setPen(QColor(tokens().quiet))
        left = QRectF(fonts.px(NAME), 0, room + number, self._line())
        last = QRectF(left.right() + GRID, 0, notes - GRID, self._line())
        drawn = any(one.drawn is not None for one in self.candidates)
        for area, texts in (
            (left, ("by the model", "model")),
            (last, ("when drawn", "drawn") if drawn else ("",)),
        ):
            metrics = painter.fontMetrics()
            fits = (text for text in texts if metrics.horizontalAdvance(text) <= area.width())
            painter.drawText(area, _RIGHT, next(fits, ""))

    def _widths(self) -> tuple[float, float, float]:
        """Of the bar, of its number, of what is said of sampling."""
        metrics = QFontMetricsF(fonts.small())
        number = metrics.horizontalAdvance("< 0.1 %") + GRID
        notes = metrics.horizontalAdvance("by temperature") + GRID
        room = self.width() - fonts.px(NAME) - number - notes
        if room < fonts.px(40):
            notes, room = number, self.width() - fonts.px(NAME) - 2 * number
        return max(room, 4.0), number, notes

    def _line(self) -> float:
        return QFontMetricsF(fonts.small()).height() + 5


class ChoicePanel(QWidget):
    """The words that could have come, and a line for each step of sampling."""

    taken = Signal(object)  # Alternative that the answer is to go on with

    def __init__(self) -> None:
        super().__init__()
        self.bars = ChoiceBars()
        self.word = label("", "", "small", wrap=True)
        self.word.hide()
        self.hint = label(HINT, "quiet", "small", wrap=True)
        self.says = label("", "quiet", "small", wrap=True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(self.bars)
        column.addWidget(self.word)
        column.addWidget(self.says)
        column.addWidget(self.hint)
        column.addStretch(1)
        self._choice: TokenChoice | None = None
        self._of_answer = False
        self.bars.pointed.connect(self._tell_word)
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
        self.says.setText(_sentence(choice) if choice is not None else "" if found else empty)
        self.says.setVisible(bool(self.says.text()))

    def _tell_word(self, at: int) -> None:
        """All that is known of a word."""
        self.word.setText(self.bars.candidates[at].says)
        self.word.show()

    def _take(self, at: int) -> None:
        """Go on with a word that did not come; say why not where that cannot be."""
        one = self.bars.candidates[at]
        if self._of_answer and not one.taken:
            self.taken.emit(one.token)
            return
        why = "This word came." if one.taken else "Only a word of an answer can be replaced."
        self.word.setText(f"{one.says}. {why}")
        self.word.show()

    def rows(self) -> list[list[str]]:
        """Words and, behind them, the steps, titles on top."""
        rows = [["Word", "Model", "Drawn", "Removed"]]
        for one in self.bars.candidates:
            drawn = "" if one.drawn is None or one.removed_by else percent(one.drawn)
            step = STEPS.get(one.removed_by, one.removed_by)
            rows.append([shown(one.text), percent(one.model), drawn, step])
        for step_of in self._choice.steps if self._choice is not None else ():
            name = STEPS.get(step_of.name, step_of.name)
            left = f"{grouped(step_of.n_left)} left"
            rows.append([name, left, _bits(step_of.entropy), percent(step_of.removed)])
        return rows


def _sentence(choice: TokenChoice) -> str:
    """What each step did, as far as it did something."""
    if not choice.steps:
        return ""
    first, *rest = choice.steps
    said = [f"{grouped(first.n_left)} words, {_bits(first.entropy)}"]
    left = first.n_left
    for step in rest:
        name = STEPS.get(step.name, step.name)
        if step.n_left != left:
            said.append(f"{name} leaves {grouped(step.n_left)}, takes {percent(step.removed)}")
            left = step.n_left
    said.append(f"drawn from {_bits(choice.steps[-1].entropy)}")
    return " → ".join(said)


def _bits(nats: float) -> str:
    return f"{abs(nats / log(2)):.1f} bits"
