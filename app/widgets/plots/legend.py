"""The meaning of a chart's colours: entries in lines, each of which can be chosen."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QRectF, Signal

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import Paper, flow, text_width

LINE = 24


class LegendEntry(NamedTuple):
    """`key` is what choosing it means; an entry without one is only read, and has no swatch."""

    key: Hashable | None
    text: str


class ChartLegend(Chart):
    """Arrows walk over the entries that have a key; Enter or a click picks one.

    `draw_key` draws an entry's swatch into a square whose side `side` gives.
    """

    picked = Signal(object)  # a key
    hand = True

    def __init__(
        self, name: str, draw_key: Callable[[Paper, QRectF, object], None], side: Callable[[], int]
    ) -> None:
        super().__init__(name)
        self._draw_key, self._side = draw_key, side
        self._entries: Sequence[LegendEntry] = ()
        self._selected: Collection[Hashable] = ()

    @property
    def keys(self) -> list[Hashable]:
        """The keys that can be chosen, in order."""
        return [entry.key for entry in self._entries if entry.key is not None]

    @property
    def selected(self) -> list[Hashable]:
        """The keys that are marked."""
        return [key for key in self.keys if key in self._selected]

    def show_entries(self, entries: Sequence[LegendEntry]) -> None:
        if list(entries) != list(self._entries):
            self._entries = entries
            self.setVisible(bool(entries))
            self.changed()

    def show_selected(self, keys: Collection[Hashable]) -> None:
        """Mark these entries."""
        self._selected = keys
        self.changed()

    def stops(self) -> int:
        return len(self.keys)

    def chosen(self) -> bool:
        self.picked.emit(self.keys[self.at])
        return True

    def areas(self) -> list[QRectF]:
        return [area for entry, area in self._places() if entry.key is not None]

    def place_of(self, key: Hashable) -> QRectF:
        """The place of an entry."""
        return self.areas()[self.keys.index(key)]

    def tall(self) -> float:
        return max((area.bottom() for _, area in self._places()), default=0.0)

    def draw(self, paper: Paper) -> None:
        now, side = tokens(), self._side()
        for entry, area in self._places():
            left, marked = 0, entry.key is not None and entry.key in self._selected
            if entry.key is not None:
                top, left = area.center().y() - side / 2, side + GRID
                self._draw_key(paper, QRectF(area.left(), top, side, side), entry.key)
            tone = now.text if marked else now.quiet
            paper.text(area.adjusted(left, 0, GRID, 0), entry.text, tone=tone)
            if marked:
                paper.fill(QRectF(area.left(), area.bottom() - 2, area.width(), 2), now.accent)
        if self.hasFocus() and self.stops():
            paper.frame(self.areas()[self.at].adjusted(0.5, 0.5, 1.5, -2.5), now.text)

    def in_words(self) -> str:
        texts = [entry.text for entry in self._entries if entry.key is not None]
        if not texts:
            return ""
        marked = tr(" selected,") if self.keys[self.at] in self._selected else ""
        return tr(
            "{texts},{marked} {at} of {texts2}",
            texts=texts[self.at],
            marked=marked,
            at=self.at + 1,
            texts2=len(texts),
        )

    def _places(self) -> list[tuple[LegendEntry, QRectF]]:
        height, swatch = fonts.px(LINE), self._side() + GRID
        widths = [text_width(e.text) + swatch * (e.key is not None) for e in self._entries]
        places = zip(self._entries, widths, flow(widths, self.width()), strict=True)
        return [
            (entry, QRectF(left, line * height, width, height))
            for entry, width, (left, line) in places
        ]
