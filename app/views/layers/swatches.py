"""What the bands of a tile mean."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QWidget

from app.state.layers.lanes import PARTS, LayerTile
from app.state.layers.words import PART_WORDS
from app.theme.devices import swatch_size
from app.views.layers.paint import fill_part, unusual_kinds
from app.widgets.plots.legend import ChartLegend, LegendEntry
from app.widgets.plots.paper import Paper


def parts_legend(parent: QWidget) -> ChartLegend:
    """A swatch for each part; picking one is for who wants to move it."""

    def draw(paper: Paper, area: QRectF, part: object) -> None:
        fill_part(paper, area, parent.property("device") or "host", str(part))

    return ChartLegend("Parts of a layer", draw, swatch_size)


def parts_of(tiles: Sequence[LayerTile], labels: Sequence[Sequence[str]]) -> list[LegendEntry]:
    """An entry for each part there is, from the top of a tile to its bottom, and one for what the
    line below a layer's number means.
    """
    there = {band.part for tile in tiles for band in tile.bands}
    entries = [LegendEntry(part, PART_WORDS[part]) for part in PARTS if part in there]
    kinds = dict.fromkeys(unusual_kinds(labels).values())
    return [*entries, LegendEntry(None, f"underlined: {', '.join(kinds)}")] if kinds else entries
