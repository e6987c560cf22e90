"""Caches: how many of their cells are in use, shared and free, and which position is in each."""

from math import ceil

import numpy as np
from PySide6.QtWidgets import QComboBox, QWidget

from app.language import tr
from app.state.tensors.cells import CacheUse, CellsState
from app.theme.tokens import GRID
from app.widgets.basics import label, set_tone
from app.widgets.layouts import SPARE, vbox
from app.widgets.numbers import grouped
from app.widgets.plots.bars import Segment, SegmentBar
from app.widgets.plots.cells import grid_of
from app.widgets.plots.heat_map import HeatMap

ACROSS = 64  # cells in a row
PALEST = 0.4  # of the largest position lies between free and the first, so that it is seen
MOST_MARKED = 1024  # shared cells that are framed
ABOUT = tr(
    "Each square is a cell of the cache. Free cells are empty; later positions are darker."
    " Shared cells are framed."
)
ABOUT_SLOTS = tr(
    "Each square is a slot. Free slots are empty; slots that have read more tokens are darker."
    " Checkpoints are framed."
)
FEW = 20 * GRID  # pixels of height are enough for a row of slots
EMPTY = tr("Open a model to see its KV cache.")


class CellsPage(QWidget):
    """Shows `bench.cells`, one cache at a time."""

    def __init__(self, state: CellsState) -> None:
        super().__init__()
        self._state = state
        self.which = QComboBox()
        self.which.setAccessibleName(tr("Cache"))
        self.which.currentIndexChanged.connect(self._show)
        self.caption = label(wrap=True)
        self.bar = SegmentBar(160)
        self.map = HeatMap(tr("Cells of the cache"))
        self._tallest = self.map.maximumHeight()
        self.map.pointed.connect(self._pointed)
        self.place = label(tone="quiet", size="small", wrap=True)
        vbox(self.which, self.caption, self.bar, (self.map, 1), self.place, SPARE, on=self)
        state.changed.connect(self._list)
        self._list()

    @property
    def cache(self) -> CacheUse | None:
        """The selected cache."""
        at = self.which.currentIndex()
        return self._state.caches[at] if 0 <= at < len(self._state.caches) else None

    def _list(self) -> None:
        titles = [cache.title for cache in self._state.caches]
        if titles != [self.which.itemText(i) for i in range(self.which.count())]:
            self.which.blockSignals(True)
            self.which.clear()
            self.which.addItems(titles)
            self.which.blockSignals(False)
        self.which.setVisible(bool(titles))
        self._show()

    def _show(self) -> None:
        cache = self.cache
        for widget in (self.bar, self.map, self.place):
            widget.setVisible(cache is not None)
        set_tone(self.caption, "bad" if self._state.problem else "")
        if cache is None:
            self.caption.setText(self._state.problem or EMPTY)
            return
        self.caption.setText(self._state.problem or numbers_of(cache))
        own = cache.used - cache.shared
        self.bar.show_segments(
            [Segment(own, "accent", 0.8), Segment(cache.shared, "warn", 0.8)], cache.size
        )
        self.map.setMaximumHeight(self._tallest if cache.kept is None else FEW)
        across = min(ACROSS, cache.size)
        rows = ceil(cache.size / across)
        last = cache.reach[1] if cache.reach else 1
        values = np.full(rows * across, -PALEST * (last + 1), np.float32)
        values[: cache.size][cache.sequences > 0] = cache.positions[cache.sequences > 0]
        grid = grid_of(
            values.reshape(rows, across),
            row_title=tr("cells from") if cache.kept is None else tr("slots from"),
            row_name=lambda row: str(row * across),
            column_title=tr("cell") if cache.kept is None else tr("slot"),
            text=_position if cache.kept is None else _read_to,
        )
        self.map.show_cells(grid, levels=(-PALEST * (last + 1), float(last + 1)))
        shared = np.flatnonzero(cache.sequences > 1)[:MOST_MARKED]
        marks = {divmod(int(at), across): _shared(cache, int(at)) for at in shared}
        for at in np.flatnonzero(cache.kept) if cache.kept is not None else ():
            marks[divmod(int(at), across)] = tr("checkpoint")
        self.map.mark(marks)
        self.place.setText(ABOUT if cache.kept is None else ABOUT_SLOTS)

    def _pointed(self, row: int, column: int) -> None:
        cache, at = self.cache, row * ACROSS + column
        if cache is None or at >= cache.size:
            return
        name = tr("cell") if cache.kept is None else tr("slot")
        if not cache.sequences[at]:
            self.place.setText(tr("{name} {at}: free", name=name, at=at))
            return
        parts = [(_position if cache.kept is None else _read_to)(cache.positions[at])]
        parts += [_shared(cache, at)] if cache.sequences[at] > 1 else []
        parts += [tr("a checkpoint")] if cache.kept is not None and cache.kept[at] else []
        self.place.setText(f"{name} {at}: {', '.join(parts)}")


def numbers_of(cache: CacheUse) -> str:
    """How much of a cache is in use, in words."""
    if cache.kept is not None:
        reach = (
            tr(" (of tokens up to {reach} – {reach2})", reach=cache.reach[0], reach2=cache.reach[1])
            if cache.reach
            else ""
        )
        n_kept = int(np.count_nonzero(cache.kept))
        return tr(
            "{size} slots, {used} in use{reach}, {n_kept} of them checkpoints, {free} free",
            size=cache.size,
            used=cache.used,
            reach=reach,
            n_kept=n_kept,
            free=cache.free,
        )
    reach = (
        tr(" (positions {reach} – {reach2})", reach=cache.reach[0], reach2=cache.reach[1])
        if cache.reach
        else ""
    )
    return tr(
        "{size} cells, {used} in use{reach}, {shared} of them shared, {free} free",
        size=grouped(cache.size),
        used=grouped(cache.used),
        reach=reach,
        shared=grouped(cache.shared),
        free=grouped(cache.free),
    )


def _position(value: float) -> str:
    return tr("position {value}", value=round(value)) if value >= 0 else tr("free")


def _read_to(value: float) -> str:
    return tr("up to token {value}", value=round(value)) if value >= 0 else tr("free")


def _shared(cache: CacheUse, at: int) -> str:
    return tr("shared by {sequences} sequences", sequences=cache.sequences[at])
