"""A bar of segments: how full something is, and with what."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import Paper

HEIGHT = 10


class Segment(NamedTuple):
    """`tone` is a token of the theme, by `share` over the panel."""

    size: float
    tone: str
    share: float


class SegmentBar(Chart):
    """Segments from the left, together at most the whole. `pointed` carries the one under the
    mouse, None for none.
    """

    pointed = Signal(object)

    def __init__(self, width: int) -> None:
        super().__init__(focus=False)
        self._segments: Sequence[Segment] = ()
        self._whole, self._width = 1.0, width
        self.marked: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def show_segments(self, segments: Sequence[Segment], whole: float) -> None:
        self._segments = segments
        self._whole = max(whole, sum(segment.size for segment in segments), 1e-9)
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return fonts.square(HEIGHT).expandedTo(QSize(fonts.px(self._width), 0))

    def areas(self) -> list[QRectF]:
        places, left = [], 0.0
        for segment in self._segments:
            wide = segment.size / self._whole * self.width()
            places.append(QRectF(left, 0, wide, self.height()))
            left += wide
        return places

    def hovers(self, at: int | None) -> None:
        self.marked = at
        self.pointed.emit(at)

    def draw(self, paper: Paper) -> None:
        now = tokens()
        with paper.rounded(self.rect().toRectF(), 3):
            paper.fill(self.rect().toRectF(), now.divider)
            for n, (segment, area) in enumerate(zip(self._segments, self.areas(), strict=True)):
                share = 1.0 if n == self.marked else segment.share
                gap = 1 if area.width() > 3 and n + 1 < len(self._segments) else 0
                colour = mix(getattr(now, segment.tone), now.panel, share)
                paper.fill(area.adjusted(0, 0, -gap, 0), colour)
