"""The overlay of the window while a file is dragged over it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CARD
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import CENTER, DASHED, Paper

VEIL = 0.88  # its opacity


class DropShade(Painted):
    """A veil with a frame and a few words; it takes no mouse."""

    def __init__(self, parent: QWidget, words: str) -> None:
        super().__init__(words, focus=False)
        self.setParent(parent)
        self._over = parent
        self._words = words
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_over(self) -> None:
        """Cover the parent as it is now."""
        self.setGeometry(self._over.rect())
        self.show()
        self.raise_()

    def draw(self, paper: Paper) -> None:
        now, area = tokens(), self.rect().toRectF()
        with paper.faded(VEIL):
            paper.fill(area, now.canvas)
        frame = area.adjusted(2 * GRID, 2 * GRID, -2 * GRID, -2 * GRID)
        paper.frame(frame, now.accent, 2, RADIUS_CARD, DASHED)
        paper.wrapped(area, self._words, now.text, CENTER, fonts.title())
