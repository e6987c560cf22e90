"""What the colours of tokens mean, and by what they are painted."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import divider, surface
from app.widgets.charts.walk import Walk
from app.widgets.tips import show_tip
from app.widgets.tokens.bands import BANDS, Measure, band_colour, band_pen

PROBABILITIES = ("≥ 90 %", "60–90", "30–60", "10–30", "< 10 %")
ENTROPIES = ("≤ 0.5 bit", "0.5–1.2", "1.2–2", "2–3", "> 3 bit")


class Legend(QWidget):
    """`choose` is told which measure is wanted. `seek` selects the next token of a band and says
    whether there is one.
    """

    def __init__(self, choose: Callable[[Measure], None], seek: Callable[[int], bool]) -> None:
        super().__init__()
        self._choose = choose
        surface(self, "panel")
        self.setAccessibleName("Legend of the probabilities")
        self.scale = BandScale(seek)
        self._by_probability = self._switch("Probability", "probability")
        self._by_entropy = self._switch("Entropy", "entropy")
        switches = QHBoxLayout()
        switches.setSpacing(GRID // 2)
        switches.addWidget(self._by_probability)
        switches.addWidget(self._by_entropy)
        switches.addStretch(1)
        self._row = row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        row.setContentsMargins(PADDING, GRID // 2, PADDING, GRID // 2)
        row.setSpacing(GRID)
        row.addLayout(switches)
        row.addWidget(self.scale, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(divider())
        self._pick("probability")

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The scale is below the switches where its words would not fit beside them."""
        super().resizeEvent(event)
        switches = self._by_probability.sizeHint().width() + self._by_entropy.sizeHint().width()
        room = self.width() - 2 * PADDING - switches - 2 * GRID
        narrow = room < self.scale.sizeHint().width()
        right, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._row.setDirection(down if narrow else right)

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
        self.scale.show_words(PROBABILITIES if measure == "probability" else ENTROPIES)
        self._choose(measure)


class BandScale(Walk):
    """The bands with their limits; a click or Enter goes to the next token of one."""

    def __init__(self, seek: Callable[[int], bool]) -> None:
        super().__init__()
        self._seek = seek
        self._words: tuple[str, ...] = PROBABILITIES
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_words(self, words: tuple[str, ...]) -> None:
        self._words = words
        self.setAccessibleName("From sure to surprised: " + ", ".join(words))
        self.walked()
        self.update()

    def stops(self) -> int:
        return len(BANDS)

    def walked(self) -> None:
        self.setAccessibleDescription(f"{self._words[self.at]}: Enter goes to the next such token")

    def chosen(self) -> bool:
        if not self._seek(self.at):
            place = self.mapToGlobal(self.area(self.at).bottomLeft().toPoint())
            show_tip(place, "No such token in sight.", self)
        return True

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        bands = range(len(BANDS))
        found = next((n for n in bands if self.area(n).contains(event.position())), None)
        if found is not None:
            self.go(found)
            self.chosen()

    def area(self, band: int) -> QRectF:
        """Where a band is painted."""
        width = min(self.width() / len(BANDS), self._wide(self._words))
        return QRectF(band * width, 3, width - 4, self.height() - 8)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(round(self._wide(self._words)) * len(BANDS), fonts.px(24))

    def fitting(self) -> list[str]:
        """What the bands say: without units where there is no room for them."""
        short = [words.rpartition(" ")[0] or words for words in self._words]
        room = self.width() / len(BANDS)
        return list(self._words) if self._wide(self._words) <= room else short

    def _wide(self, words: Sequence[str]) -> float:
        """Pixels of a band in which each of these fits."""
        metrics = QFontMetricsF(fonts.small())
        return max(metrics.horizontalAdvance(text) for text in words) + 12

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setFont(fonts.small())
        for n, words in enumerate(self.fitting()):
            area = self.area(n)
            if BANDS[n].share:
                painter.fillRect(area, QColor(band_colour(n)))
            pen = band_pen(n)
            if pen is not None:
                painter.setPen(pen)
                painter.drawLine(area.bottomLeft(), area.bottomRight())
            painter.setPen(QColor(tokens().text))
            painter.drawText(area, int(Qt.AlignmentFlag.AlignCenter), words)
            if self.hasFocus() and n == self.at:
                painter.drawRect(area.adjusted(0, -1, 0, 1))
        painter.end()
