"""Two sliders for where the colours of a heat map begin and end, with the colours between them."""

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QSlider, QWidget

from app.language import tr
from app.theme import fonts
from app.widgets.basics import IconButton, label
from app.widgets.layouts import hbox
from app.widgets.plots.cells import number_text
from app.widgets.plots.chart import Painted
from app.widgets.plots.colours import diverging, sequential
from app.widgets.plots.heat_map import HeatMap
from app.widgets.plots.paper import Paper

STEPS = 1000


class LevelSliders(QWidget):
    """Belongs to one heat map: shows its levels and sets them, within the range of its numbers."""

    def __init__(self, plot: HeatMap) -> None:
        super().__init__()
        self._plot = plot
        self._ends = plot.levels
        self._setting = False
        self._low_text, self._high_text = label(tone="quiet"), label(tone="quiet")
        self.low = self._slider(tr("Lowest level"))
        self.high = self._slider(tr("Highest level"))
        self._bar = _Gradient(plot)
        hbox(
            self._low_text,
            (self.low, 1),
            (self._bar, 1),
            (self.high, 1),
            self._high_text,
            IconButton("undo", tr("Levels from the numbers"), self.reset, 16),
            on=self,
        )
        self.low.valueChanged.connect(self._slid)
        self.high.valueChanged.connect(self._slid)
        plot.levels_changed.connect(self.show_ends)
        self.show_ends(*plot.levels)

    def show_ends(self, low: float, high: float) -> None:
        """The sliders reach from the least to the largest number, and stand there."""
        self._ends = low, high
        self._setting = True
        self.low.setValue(0)
        self.high.setValue(STEPS)
        self._setting = False
        self._write(low, high)

    def reset(self) -> None:
        """Back to the range of the numbers."""
        self.show_ends(*self._ends)
        self._plot.set_levels(*self._ends)

    def _slider(self, name: str) -> QSlider:
        slider = QSlider(Qt.Orientation.Horizontal)
        slider.setRange(0, STEPS)
        slider.setPageStep(STEPS // 20)
        slider.setAccessibleName(
            tr("{name} of {accessiblename}", name=name, accessiblename=self._plot.accessibleName())
        )
        slider.setMinimumWidth(40)
        return slider

    def _slid(self, _: int) -> None:
        if self._setting:
            return
        low, high = self._ends
        chosen = sorted(
            low + (high - low) * slider.value() / STEPS for slider in (self.low, self.high)
        )
        self._plot.set_levels(chosen[0], chosen[1])
        self._write(chosen[0], chosen[1])

    def _write(self, low: float, high: float) -> None:
        self._low_text.setText(number_text(low))
        self._high_text.setText(number_text(high))
        for slider, value in ((self.low, low), (self.high, high)):
            slider.setAccessibleDescription(number_text(value))


class _Gradient(Painted):
    """The colours of a heat map from its lowest level to its highest."""

    wide = 80

    def __init__(self, plot: HeatMap) -> None:
        super().__init__(focus=False)
        self._plot = plot

    def tall(self) -> float:
        return fonts.px(10)

    def draw(self, paper: Paper) -> None:
        table = diverging() if self._plot.is_diverging else sequential()
        line = np.ascontiguousarray(table[None])
        image = QImage(line.data, table.shape[0], 1, 3 * len(table), QImage.Format.Format_RGB888)
        paper.image(self.rect().toRectF(), image, smooth=False)
