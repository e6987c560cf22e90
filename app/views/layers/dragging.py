"""What the mouse takes along: tiles from lane to lane, or the boundary between two lanes."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF

from app.state.layers.lanes import LayerTile, moved_tiles
from app.state.layers.layers import LayersState
from app.state.layers.placing import EditedPlacement
from app.views.layers.picture import LanesPicture, ShownTile

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
