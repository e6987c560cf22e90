"""How many numbers fall into each of equal intervals."""

from collections.abc import Callable
from math import log10
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor, QPen

from app.language import tr
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.numbers import grouped
from app.widgets.plots.canvas import BETWEEN, PlotCanvas, Ticks, round_marks, toolkit
from app.widgets.plots.cells import number_text


class Histogram(PlotCanvas):
    """Bars from 0; arrows walk over them. `log` draws the logarithm of counts."""

    pointed = Signal(int)  # the bar that the person went to

    def __init__(self, name: str, log: bool = False) -> None:
        super().__init__(name)
        self.counts, self.edges = np.zeros(0, np.int64), np.zeros(1)
        self.at = 0
        self._log = log
        self._bars: Any = toolkit().BarGraphItem(x0=[0], x1=[0], y0=0, height=[0])
        self.box.addItem(self._bars, ignoreBounds=True)
        self.dress()

    def show_counts(self, counts: ArrayLike, edges: ArrayLike) -> None:
        """`counts` [n] of the numbers between `edges` [n + 1]."""
        self.counts, self.edges = np.asarray(counts, np.int64), np.asarray(edges, np.float64)
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.counts)} counts have not {len(self.edges)} edges")
        self.at = min(self.at, max(len(self.counts) - 1, 0))
        self.restyle()
        self.show_all()
        self._describe()

    def set_log(self, log: bool) -> None:
        """Whether heights are logarithms: small counts are seen beside large ones."""
        self._log = log
        self.restyle()
        self.show_all()

    def set_cursor(self, at: int) -> None:
        """Put the cursor on a bar without a signal."""
        if len(self.counts):
            self.at = min(max(at, 0), len(self.counts) - 1)
            self.restyle()
            self._describe()

    def describe(self, at: int) -> str:
        """A bar in words."""
        if not 0 <= at < len(self.counts):
            return ""
        low, high = (number_text(float(self.edges[at + side])) for side in (0, 1))
        share = 100 * self.counts[at] / max(int(self.counts.sum()), 1)
        return tr(
            "{low} to {high}: {counts} numbers, {share:.3g} %",
            low=low,
            high=high,
            counts=grouped(int(self.counts[at])),
            share=share,
        )

    def rows(self) -> list[list[str]]:
        return [[tr("from"), tr("to"), tr("numbers")]] + [
            [number_text(float(low)), number_text(float(high)), str(int(count))]
            for low, high, count in zip(self.edges, self.edges[1:], self.counts, strict=False)
        ]

    def show_all(self) -> None:
        top = float(self._heights().max(initial=0.0)) or 1.0
        low, high = float(self.edges[0]), float(self.edges[-1])
        right = high if high > low else low + 1
        self.box.setLimits(xMin=low, xMax=right, yMin=0, yMax=top * 1.05)
        self.box.setRange(xRange=(low, right), yRange=(0, top * 1.05), padding=0)
        self.ranged()

    def ranged(self) -> None:
        seen, room = self.seen, self.room
        tall = 1.6 * self._letters().height()
        marks = self._decades if self._log else round_marks
        self.set_left(
            marks(seen.top(), seen.bottom(), room.height(), lambda _: tall, self._count_text)
        )
        wide = lambda text: self.width_of(text) + BETWEEN  # noqa: E731
        self.set_bottom(round_marks(seen.left(), seen.right(), room.width(), wide, number_text))

    def restyle(self) -> None:
        now = tokens()
        usual, chosen = QColor(mix(now.accent, now.panel, 0.75)), QColor(now.text)
        brushes = [usual] * len(self.counts)
        if brushes and self.hasFocus():
            brushes[self.at] = chosen
        self._bars.setOpts(
            x0=self.edges[:-1],
            x1=self.edges[1:],
            y0=0,
            height=self._heights(),
            brushes=brushes or None,
            pen=QPen(Qt.PenStyle.NoPen),
        )

    def tip(self, place: QPointF) -> str:
        return self.describe(self._under(place))

    def point_at(self, place: QPointF) -> None:
        if 0 <= self._under(place) < len(self.counts):
            self.set_cursor(self._under(place))
            self.pointed.emit(self.at)

    def walk(self, right: int, down: int) -> None:
        if len(self.counts):
            self.set_cursor(self.at + right + down)
            self.pointed.emit(self.at)

    def cursor_place(self) -> QPointF | None:
        if not len(self.counts):
            return None
        middle = float(self.edges[self.at] + self.edges[self.at + 1]) / 2
        return QPointF(middle, self.seen.center().y())

    def _repaint(self) -> None:
        self.restyle()
        super()._repaint()

    def _under(self, place: QPointF) -> int:
        return int(np.searchsorted(self.edges, place.x(), side="right")) - 1

    def _heights(self) -> np.ndarray[Any, Any]:
        return np.log10(1.0 + self.counts) if self._log else self.counts.astype(np.float64)

    def _decades(
        self,
        low: float,
        high: float,
        room: float,
        needed: Callable[[str], float],
        text: Callable[[float], str],
    ) -> Ticks:
        """0, 1, 10, 100, … at the heights that these counts have."""
        kept: Ticks = []
        for count in (0, *(10**power for power in range(10))):
            at = log10(1 + count)
            gap = needed("") * (high - low) / max(room, 1.0)
            if low <= at <= high and (not kept or at - kept[-1][0] >= gap):
                kept.append((at, text(count)))
        return kept

    def _count_text(self, count: float) -> str:
        return grouped(round(count))

    def _describe(self) -> None:
        self.setAccessibleDescription(self.describe(self.at) or tr("no numbers yet"))
