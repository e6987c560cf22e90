"""The colours of values on a chart: a bar from the lowest to the highest, with numbers."""

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.plots.chart import Painted
from app.widgets.plots.colours import SHADES, diverging, sequential
from app.widgets.plots.paper import RIGHT, Paper, text_width

LINE, BAR, LONGEST = 22, 10, 240


def shade_of(share: float, is_diverging: bool) -> str:
    """The colour of a share of the scale, as "#RRGGBB"."""
    table = diverging() if is_diverging else sequential()
    return "#" + "".join(f"{part:02X}" for part in table[round(share * (SHADES - 1))].tolist())


class ColourScale(Painted):
    """Says what the colours mean: the value's name above a bar with the numbers of its ends."""

    def __init__(self, name: str) -> None:
        super().__init__(name, focus=False)
        self._title, self._ends, self._diverging = "", ("", ""), False

    def show_scale(self, title: str, ends: tuple[str, str], is_diverging: bool) -> None:
        """Another value, with the texts of the lowest and the highest."""
        self._title, self._ends, self._diverging = title, ends, is_diverging
        self.changed()

    def in_words(self) -> str:
        low, high = self._ends
        return tr("{title}, from {low} to {high}", title=self._title, low=low, high=high)

    def tall(self) -> float:
        return 2 * fonts.px(LINE)

    def tip(self, place: object) -> str:
        return self.in_words()

    def draw(self, paper: Paper) -> None:
        now, line = tokens(), fonts.px(LINE)
        paper.elided(QRectF(0, 0, self.width(), line), self._title, now.quiet)
        low, high = self._ends
        before, behind = (text_width(end) + GRID for end in self._ends)
        room = min(self.width(), fonts.px(LONGEST) + before + behind)
        paper.text(QRectF(0, line, before, line), low, tone=now.quiet)
        paper.text(QRectF(0, line, room, line), high, tone=now.quiet, align=RIGHT)
        area = QRectF(before, 0, max(room - before - behind, 1.0), fonts.px(BAR))
        area.moveTop(line + (line - area.height()) / 2)
        table = np.ascontiguousarray((diverging() if self._diverging else sequential())[None])
        shape = QImage.Format.Format_RGB888
        image = QImage(table.data, SHADES, 1, 3 * SHADES, shape)
        paper.image(area, image, smooth=False)
        paper.frame(area.adjusted(0.5, 0.5, -0.5, -0.5), now.faint)
