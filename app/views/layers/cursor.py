"""The keyboard's cursor among lanes and tiles; dragging of tiles from lane to lane, and of the
boundary between devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF

from app.state.layers.lanes import LayerTile, moved_tiles
from app.state.layers.layers import LayersState
from app.state.layers.placing import EditedPlacement
from app.state.selection import Selected
from app.views.layers.picture import Key, LanesPicture, ShownTile


class LaneCursor:
    """`chosen` are the tiles that a move takes along, all of one row; `opened` is the tile whose
    inside is shown. They stay with their layers when an edit moves these.
    """

    def __init__(self, picture: LanesPicture) -> None:
        self.picture = picture
        self.at: Key | None = None
        self.anchor: Key | None = None
        self.chosen: list[Key] = []
        self.opened: Key | None = None

    @property
    def current(self) -> ShownTile | None:
        """Where the keyboard is."""
        return self.picture.find(self.at) or next(self.picture.tiles(), None)

    @property
    def taken(self) -> list[ShownTile]:
        """What a move takes along: where the keyboard is, if nothing is chosen."""
        chosen = [tile for tile in self.picture.tiles() if tile.key in self.chosen]
        current = self.current
        return chosen or ([current] if current is not None else [])

    def show(self, picture: LanesPicture) -> None:
        """Other lanes: what is chosen stays so wherever it lies now."""
        self.picture = picture
        current = self.current
        self.at = current.key if current is not None else None
        found = [tile for tile in map(picture.find, self.chosen) if tile is not None]
        self.chosen = list(dict.fromkeys(tile.key for tile in found))
        anchor = picture.find(self.anchor)
        self.anchor = anchor.key if anchor is not None else self.at

    def carry(self, taken: Sequence[ShownTile], device: str) -> None:
        """What is chosen goes there with the next lanes that are shown."""
        home = taken[0].tiles[0].home and not taken[0].part
        self.chosen = [(tile.layers, device, home, "") for tile in taken]
        self.at = self.anchor = self.chosen[0]

    def go(self, tile: ShownTile, extend: bool = False) -> None:
        """To a tile; `extend` chooses all from the anchor to it, in its row."""
        row = self.picture.rows[self.picture.row_of(tile)].tiles
        anchor = next((t for t in row if t.key == self.anchor), None)
        if extend and anchor is not None:
            first, last = sorted((row.index(anchor), row.index(tile)))
            self.chosen = [t.key for t in row[first : last + 1]]
        else:
            self.anchor, self.chosen = tile.key, [tile.key]
        self.at = tile.key

    def beside(self, step: int) -> ShownTile | None:
        """The next tile of the row, or the last one there is."""
        current = self.current
        if current is None:
            return None
        row = self.picture.rows[self.picture.row_of(current)].tiles
        return row[min(max(row.index(current) + step, 0), len(row) - 1)]

    def above(self, step: int) -> ShownTile | None:
        """The nearest tile of the next row that has any."""
        current = self.current
        if current is None:
            return None
        rows, at = self.picture.rows, self.picture.row_of(current)
        beyond = rows[at + 1 :] if step > 0 else rows[:at][::-1]
        row = next((row for row in beyond if row.tiles), None)
        if row is None:
            return None
        middle = current.area.center().x()
        return min(row.tiles, key=lambda tile: abs(tile.area.center().x() - middle))

    def choose_row(self) -> None:
        """All tiles of the row."""
        current = self.current
        if current is not None:
            row = self.picture.rows[self.picture.row_of(current)].tiles
            self.chosen = [tile.key for tile in row]

    def other_lane(self, step: int) -> str | None:
        """The device of the lane above or below the one that the tiles lie in."""
        taken, lanes = self.taken, [lane.device for lane in self.picture.lanes]
        if not taken or taken[0].device not in lanes:
            return None
        at = lanes.index(taken[0].device) + step
        return lanes[at] if 0 <= at < len(lanes) else None

    def boundary(self) -> int | None:
        """The boundary nearest to the right end of the run in which the keyboard is, else at its
        left; None where the run has none.
        """
        current = self.current
        if current is None or not current.tiles[0].home:
            return None
        edges = self.picture.run_edges(current)
        return edges[1] if edges[1] is not None else edges[0]

    def follow(self, selected: Selected, same: Callable[[ShownTile], bool]) -> bool:
        """To a layer that was selected elsewhere; whether the keyboard has gone there."""
        current = self.current
        known = [tile for tile in self.picture.tiles() if selected.layer in tile.layers]
        on = [tile for tile in known if same(tile)] or known
        if not on or (current is not None and current in on):
            return False
        self.go(on[0])
        return True


START = 4.0  # pixels; a press that moves less is a click


@dataclass
class TileDrag:
    """Tiles in the hand; `device` is the lane they are over, None before they were moved."""

    state: LayersState
    shown: Sequence[ShownTile]
    pressed: QPointF
    placed: EditedPlacement
    at: QPointF
    device: str | None = None

    @property
    def tiles(self) -> list[LayerTile]:
        return [tile for shown in self.shown for tile in shown.tiles]

    @property
    def has_moved(self) -> bool:
        return self.device is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing of them can lie where they are held."""
        away = self.device not in (None, self.shown[0].device)
        return away and self.state.draft.placement == self.placed

    def move(self, place: QPointF, picture: LanesPicture) -> None:
        """Follow the hand; the lane below it is priced with the tiles."""
        self.at = place
        if self.device is None and (place - self.pressed).manhattanLength() < START:
            return
        device = picture.device_at(place.y()) or self.device or self.shown[0].device
        if device != self.device:
            self.device = device
            if device == self.shown[0].device:
                self.state.drop_preview()
            else:
                parts = self.shown[0].parts
                self.state.preview(moved_tiles(self.placed, self.tiles, device, parts))

    def drop(self) -> None:
        """Leave them there."""
        layers = frozenset(tile.layer for tile in self.tiles)
        self.state.keep_preview((layers, self.shown[0].parts, self.shown[0].tiles[0].home))

    def cancel(self) -> None:
        """Put them back."""
        self.state.drop_preview()


@dataclass
class BoundaryDrag:
    """The boundary before layer `at` in the hand; `pressed` is where it was taken."""

    state: LayersState
    picture: LanesPicture
    placed: EditedPlacement
    at: int
    pressed: QPointF
    to: int

    @property
    def has_moved(self) -> bool:
        return self.to != self.at

    def move(self, place: QPointF, _: LanesPicture) -> None:
        """Follow the hand, layer by layer; each side keeps one."""
        first, last = self.placed.neighbours(self.at)
        wanted = self.picture.shifted(self.at, place.x() - self.pressed.x())
        to = min(max(wanted, first + 1), last)
        if to != self.to:
            self.to = to
            self.state.preview(self.placed.with_boundary(self.at, to))

    def drop(self) -> None:
        """Leave it there."""
        self.state.keep_preview(("boundary", *self.placed.neighbours(self.at)))

    def cancel(self) -> None:
        """Put it back."""
        self.state.drop_preview()
