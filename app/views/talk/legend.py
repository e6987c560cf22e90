"""What the colours of tokens mean, and by what they are painted."""

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import divider, surface
from app.widgets.tokens.bands import BANDS, Measure, band_colour, band_pen

PROBABILITIES = ("≥ 90 %", "60–90", "30–60", "10–30", "< 10 %")
ENTROPIES = ("≤ 0.5 bit", "0.5–1.2", "1.2–2", "2–3", "> 3 bit")


class Legend(QWidget):
    """`choose` is told which measure is wanted."""

    def __init__(self, choose: Callable[[Measure], None]) -> None:
        super().__init__()
        self._choose = choose
        surface(self, "panel")
        self.setAccessibleName("Legend of the probabilities")
        self._scale = _Scale()
        self._by_probability = self._switch("Probability", "probability")
        self._by_entropy = self._switch("Entropy", "entropy")
        row = QHBoxLayout()
        row.setContentsMargins(PADDING, GRID // 2, PADDING, GRID // 2)
        row.setSpacing(GRID // 2)
        row.addWidget(self._by_probability)
        row.addWidget(self._by_entropy)
        row.addSpacing(GRID)
        row.addWidget(self._scale, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(divider())
        self._pick("probability")

    def _switch(self, text: str, measure: Measure) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setCheckable(True)
        button.setAccessibleName(f"Paint by {text.lower()}")
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self._pick(measure))
        return button

    def _pick(self, measure: Measure) -> None:
        self._by_probability.setChecked(measure == "probability")
        self._by_entropy.setChecked(measure == "entropy")
        self._scale.show_words(PROBABILITIES if measure == "probability" else ENTROPIES)
        self._choose(measure)


class _Scale(QWidget):
    """The bands with their limits."""

    def __init__(self) -> None:
        super().__init__()
        self._words: tuple[str, ...] = PROBABILITIES
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_words(self, words: tuple[str, ...]) -> None:
        self._words = words
        self.setAccessibleName("From sure to surprised: " + ", ".join(words))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(66) * len(BANDS), fonts.px(24))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setFont(fonts.small())
        width = min(self.width() / len(BANDS), fonts.px(72))
        for n, words in enumerate(self._words):
            area = QRectF(n * width, 3, width - 4, self.height() - 8)
            if BANDS[n].share:
                painter.fillRect(area, QColor(band_colour(n)))
            pen = band_pen(n)
            if pen is not None:
                painter.setPen(pen)
                painter.drawLine(area.bottomLeft(), area.bottomRight())
            painter.setPen(QColor(tokens().text))
            painter.drawText(area, int(Qt.AlignmentFlag.AlignCenter), words)
        painter.end()
