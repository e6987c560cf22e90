"""The last measurements as a line of small bars."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper

BAR, GAP = 3, 1


class Sparkline(Painted):
    """The newest on the right, as high as its share of the largest."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name, focus=False)
        self._values: Sequence[float] = ()
        self._most, self._active = most, False
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_values(self, values: Sequence[float], active: bool) -> None:
        """`active` means that more are coming."""
        self._values, self._active = list(values)[-self._most :], active
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._most * (BAR + GAP) - GAP, fonts.px(20))

    def draw(self, paper: Paper) -> None:
        now, top, high = tokens(), max(self._values, default=0.0), self.height()
        paper.fill(QRectF(0, high - 1, self.width(), 1), now.divider)
        bright = now.accent if self._active else mix(now.quiet, now.panel, 0.7)
        for n, value in enumerate(reversed(self._values)):
            x = self.width() - (n + 1) * (BAR + GAP) + GAP
            height = max(1.0, value / top * high) if top > 0 else 1.0
            paper.fill(QRectF(x, high - height, BAR, height), bright)
