"""The legend of the token colours, and the choice of their quantity."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QToolButton, QWidget

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import divider, surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import CENTER, Paper, text_width
from app.widgets.tips import show_tip
from app.widgets.tokens.bands import BANDS, DRAFT_BANDS, Measure, draw_band

PROBABILITIES = ("≥ 90 %", "60–90", "30–60", "10–30", "< 10 %")
DRAFTS = (tr("Undrafted"), tr("Form"), "n-gram", tr("Refused"))
ENTROPIES = (tr("≤ 0.5 bit"), "0.5–1.2", "1.2–2", "2–3", tr("> 3 bit"))

WORDS: dict[Measure, tuple[str, ...]] = {
    "probability": PROBABILITIES,
    "entropy": ENTROPIES,
    "speculation": DRAFTS,
}
SURE = tuple(range(len(BANDS)))


class Legend(QWidget):
    """`choose` gets the chosen measure. `seek` selects the next token of a band and says
    whether there is one.
    """

    def __init__(self, choose: Callable[[Measure], None], seek: Callable[[int], bool]) -> None:
        super().__init__()
        self._choose = choose
        surface(self, "panel")
        self.setAccessibleName(tr("Legend of the probabilities"))
        self.scale = BandScale(seek)
        self.by_probability = self._switch(tr("Probability"), "probability")
        self.by_entropy = self._switch(tr("Entropy"), "entropy")
        self.by_draft = self._switch(tr("Speculation"), "speculation")
        switches = hbox(
            self.by_probability, self.by_entropy, self.by_draft, STRETCH, spacing=GRID // 2
        )
        self._row = row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        row.setContentsMargins(PADDING, GRID // 2, PADDING, GRID // 2)
        row.setSpacing(GRID)
        row.addLayout(switches)
        row.addWidget(self.scale, 1)
        vbox(row, divider(), on=self, spacing=0)
        self._pick("probability")

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The scale is below the switches where its words would not fit beside them."""
        super().resizeEvent(event)
        buttons = (self.by_probability, self.by_entropy, self.by_draft)
        switches = sum(button.sizeHint().width() + GRID // 2 for button in buttons)
        room = self.width() - 2 * PADDING - switches - 2 * GRID
        narrow = room < self.scale.sizeHint().width()
        right, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._row.setDirection(down if narrow else right)

    def _switch(self, text: str, measure: Measure) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setCheckable(True)
        button.setAccessibleName(tr("Paint by {text}", text=text.lower()))
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self._pick(measure))
        return button

    def _pick(self, measure: Measure) -> None:
        self.by_probability.setChecked(measure == "probability")
        self.by_entropy.setChecked(measure == "entropy")
        self.by_draft.setChecked(measure == "speculation")
        self.scale.show_words(WORDS[measure], DRAFT_BANDS if measure == "speculation" else SURE)
        self._choose(measure)


class BandScale(Chart):
    """The bands with their limits; a click or Enter goes to the next token of one."""

    hand = True

    def __init__(self, seek: Callable[[int], bool]) -> None:
        super().__init__()
        self._seek = seek
        self._words: tuple[str, ...] = PROBABILITIES
        self._bands: Sequence[int] = SURE
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_words(self, words: tuple[str, ...], bands: Sequence[int]) -> None:
        self._words, self._bands = words, bands
        order = tr("From likely to unlikely") if bands is SURE else tr("What was drafted")
        self.setAccessibleName(f"{order}: {', '.join(words)}")
        self.changed()

    def words(self, at: int) -> str:
        return tr("{words}: Enter jumps to the next such token", words=self._words[at])

    def tip(self, place: QPointF) -> str:
        return ""

    def chosen(self) -> bool:
        if not self._seek(self._bands[self.at]):
            place = self.mapToGlobal(self.area(self.at).bottomLeft().toPoint())
            show_tip(place, tr("No such token in view."), self)
        return True

    def areas(self) -> list[QRectF]:
        return [self.area(at) for at in range(len(self._words))]

    def area(self, at: int) -> QRectF:
        """The place of a band in the row."""
        width = min(self.width() / len(self._words), self._wide(self._words))
        return QRectF(at * width, 3, width - 4, self.height() - 8)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(round(self._wide(self._words)) * len(self._words), fonts.px(24))

    def fitting(self) -> list[str]:
        """The words of the bands: without units where there is no room for them."""
        short = [words.rpartition(" ")[0] or words for words in self._words]
        room = self.width() / len(self._words)
        return list(self._words) if self._wide(self._words) <= room else short

    def draw(self, paper: Paper) -> None:
        for n, (words, area) in enumerate(zip(self.fitting(), self.areas(), strict=True)):
            draw_band(paper, area, self._bands[n])
            paper.text(area, words, align=CENTER, margin=-GRID)
            if self.hasFocus() and n == self.at:
                paper.frame(area.adjusted(0, -1, 0, 1), tokens().text)

    def _wide(self, words: Sequence[str]) -> float:
        """Pixels of a band in which each of these fits."""
        return max(text_width(text) for text in words) + 12
