"""The lanes as they are painted: rows, what is chosen, and what the hand carries."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QPointF

from app.state.layers.words import layer_words
from app.state.selection import Selected
from app.views.layers import paint
from app.views.layers.picture import Key, LanesPicture, ShownRow, ShownTile
from app.widgets.plots.paper import Paper


@dataclass(frozen=True)
class LanesScene:
    """`cursor` is where the keyboard is, None without it. `carried` are tiles with how far they
    are from where they lay; their place in the lane `over` is outlined.
    """

    picture: LanesPicture
    labels: Sequence[Sequence[str]]
    chosen: Sequence[Key]
    cursor: Key | None
    marked: Selected
    carried: Sequence[tuple[ShownTile, QPointF]] = ()
    over: str | None = None
    marks: frozenset[int] = field(default=frozenset())

    def paint(self, paper: Paper) -> None:
        for row in self.picture.rows:
            self._paint_row(paper, row)
        with paper.faded(0.94):
            for tile, way in self.carried:
                area = tile.area.translated(way)
                paint.paint_tile(paper, tile, area, self._names(tile), self._is_unusual(tile))
                paint.paint_frame(paper, area, "accent")

    def _paint_row(self, paper: Paper, row: ShownRow) -> None:
        device = row.lane.device
        if row.opened:
            paint.paint_inside_head(paper, row, self._inside(row))
        else:
            paint.paint_row_head(paper, row, self.marked.device == device)
            paint.paint_track(paper, row)
            paint.paint_beside(paper, row)
        held = {layer for tile, _ in self.carried for layer in tile.layers}
        for tile in row.tiles:
            if device == self.over and held >= set(tile.layers):
                paint.paint_outline(paper, tile.area, device)
            else:
                self._paint_tile(paper, tile)
        if not row.opened:
            for x, _ in self.picture.edges(row):
                if x > row.track.left():
                    paint.paint_grip(paper, x, row)
        paint.paint_limit(paper, row)

    def _paint_tile(self, paper: Paper, tile: ShownTile) -> None:
        paint.paint_tile(paper, tile, tile.area, self._names(tile), self._is_unusual(tile))
        now = self.marked
        marked = not tile.part and now.layer in tile.layers and now.device in (None, tile.device)
        if marked or tile.key in self.chosen:
            paint.paint_frame(paper, tile.area, "accent", 3)
        if tile.key == self.cursor:
            paint.paint_frame(paper, tile.area, "text")

    def _names(self, tile: ShownTile) -> list[str]:
        return paint.names_of(tile, self.picture.n_layer, self.labels)

    def _is_unusual(self, tile: ShownTile) -> bool:
        return not tile.part and self.marks.issuperset(tile.layers)

    def _inside(self, row: ShownRow) -> str:
        layers = {layer for tile in row.tiles for layer in tile.layers}
        return f"Inside {layer_words(layers, self.picture.n_layer)} (Esc closes)"
