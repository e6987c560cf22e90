"""Where everything of the lanes is drawn: one scale of bytes for all, tiles in groups where narrow.

Coordinates are of the widget, in pixels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from PySide6.QtCore import QPointF, QRectF

from app.state.layers.lanes import Lane, LayerTile

LEAST = 4.0  # pixels of the thinnest tile
WIDEST = 150.0  # pixels of a tile in an opened row
SPARE = 1.05  # a lane is that much longer than all there is
GROUPS = (1, 2, 4, 5, 8, 10, 16, 20, 40, 80, 160, 1 << 20)

Key = tuple[tuple[int, ...], str, bool, str]
"""Layers, device, whether they are at home there, and the one part of a layer, if it is one."""


@dataclass(frozen=True)
class ShownTile:
    """A layer, a group of layers side by side, or `part` of one layer (empty: all of it)."""

    tiles: tuple[LayerTile, ...]
    area: QRectF
    part: str = ""

    @property
    def key(self) -> Key:
        return self.layers, self.device, self.tiles[0].home, self.part

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(tile.layer for tile in self.tiles)

    @property
    def device(self) -> str:
        return self.tiles[0].device

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that a move of it takes along; none for all."""
        return (self.part,) if self.part else ()

    def bands(self) -> list[tuple[str, int]]:
        """Its parts with their bytes, from the top."""
        sums: dict[str, int] = {}
        for tile in self.tiles:
            for band in tile.bands:
                if self.part in ("", band.part):
                    sums[band.part] = sums.get(band.part, 0) + band.size
        return list(sums.items())

    @property
    def size(self) -> int:
        return sum(size for _, size in self.bands())

    @property
    def opens(self) -> bool:
        """Whether there is anything inside that can be looked at alone."""
        return not self.part and (len(self.tiles) > 1 or len(self.tiles[0].bands) > 1)


@dataclass(frozen=True)
class ShownRow:
    """A row of tiles: a lane, or what is inside a tile that was opened (`opened`) below it."""

    lane: Lane
    head: QRectF
    track: QRectF
    tiles: tuple[ShownTile, ...]
    beside: tuple[tuple[str, int, QRectF], ...] = ()
    limit: float | None = None
    opened: bool = False


@dataclass(frozen=True)
class Measures:
    """Heights of a row's head and of its tiles, the gap below, and the width of a text."""

    head: float
    tile: float
    gap: float
    text: Callable[[str], float]


class LanesPicture:
    """The rows of `lanes` in a widget of some width; `opened` is what is looked into."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        n_layer: int,
        width: float,
        measures: Measures,
        opened: Key | None = None,
    ) -> None:
        self.lanes, self.n_layer = lanes, n_layer
        self._width, self._measures = max(width, 1.0), measures
        self.scale = self._scale()
        self.group = self._group()
        self.rows: list[ShownRow] = []
        top = 0.0
        for lane in lanes:
            row = self._lane(lane, top)
            self.rows.append(row)
            top = row.track.bottom() + measures.gap
            found = self._opened_tile(lane, opened)
            if found is not None:
                self.rows.append(self._inside(lane, found, top - measures.gap / 2))
                top = self.rows[-1].track.bottom() + measures.gap
        self.height = max(0.0, top)

    def tiles(self) -> Iterator[ShownTile]:
        for row in self.rows:
            yield from row.tiles

    def find(self, key: Key | None) -> ShownTile | None:
        """The tile of that key, or else the one that is most like it: after an edit its layers may
        lie elsewhere, or in another group.
        """
        if key is None:
            return None
        layers, device, _, part = key
        near = [tile for tile in self.tiles() if set(layers) & set(tile.layers)]
        return max(
            near,
            key=lambda t: (t.key == key, t.device == device, t.part == part, t.layers == layers),
            default=None,
        )

    def at(self, place: QPointF) -> ShownTile | None:
        return next((tile for tile in self.tiles() if tile.area.contains(place)), None)

    def row_of(self, tile: ShownTile) -> int:
        return next(i for i, row in enumerate(self.rows) if tile in row.tiles)

    def device_at(self, y: float) -> str | None:
        """The lane at a height, opened rows being their lane's."""
        for row in self.rows:
            if row.head.top() <= y < row.track.bottom() + self._measures.gap:
                return row.lane.device
        return None

    def boundary_at(self, place: QPointF, reach: float) -> int | None:
        """The first layer behind the edge of two lanes' runs that is near."""
        for row in self.rows:
            if row.opened or not row.track.contains(place):
                continue
            for edge, layer in self.edges(row):
                if abs(place.x() - edge) <= reach:
                    return layer
        return None

    def run_edges(self, tile: ShownTile) -> tuple[int | None, int | None]:
        """The boundaries at the two ends of the run of layers that a tile belongs to."""
        home = {t.layer: lane.device for lane in self.lanes for t in lane.tiles if t.home}
        first = last = tile.layers[0]
        if first >= self.n_layer:
            return None, None
        while home.get(first - 1) == tile.device:
            first -= 1
        while home.get(last + 1) == tile.device and last + 1 < self.n_layer:
            last += 1
        return (first if first > 0 else None), (last + 1 if last + 1 < self.n_layer else None)

    def shifted(self, boundary: int, by: float) -> int:
        """Where a boundary is after a way of so many pixels."""
        sizes: dict[int, int] = {}
        for lane in self.lanes:
            for tile in lane.tiles:
                sizes[tile.layer] = sizes.get(tile.layer, 0) + tile.size
        to, rest = boundary, abs(by)
        while True:
            layer = to if by > 0 else to - 1
            width = max(sizes.get(layer, 0) * self.scale, LEAST)
            if layer < 0 or layer >= self.n_layer or rest < width / 2:
                return to
            rest -= width
            to += 1 if by > 0 else -1

    # How large

    def _scale(self) -> float:
        """Pixels of a byte: all the layers would fit on any one lane, beside what lies there."""
        layers = sum(tile.size for lane in self.lanes for tile in lane.tiles)
        beside = max((sum(s for _, s in lane.beside) for lane in self.lanes), default=0)
        return self._width / max((layers + beside) * SPARE, 1)

    def _group(self) -> int:
        """How many layers a tile stands for, so that its name can be read."""
        sizes = [
            t.size for lane in self.lanes for t in lane.tiles if t.home and t.layer < self.n_layer
        ]
        usual = max(median(sizes) * self.scale, LEAST) if sizes else LEAST
        last = str(max(self.n_layer - 1, 0))
        for count in GROUPS:
            name = last if count == 1 else f"{last}–{last}"
            if count >= self.n_layer or usual * count >= self._measures.text(name) + 6:
                return count
        return GROUPS[-1]

    # What lies where

    def _lane(self, lane: Lane, top: float) -> ShownRow:
        m = self._measures
        head = QRectF(0, top, self._width, m.head)
        track = QRectF(0, head.bottom(), self._width, m.tile)
        left, tiles = 0.0, []
        for group in self._grouped(lane):
            width = sum(max(tile.size * self.scale, LEAST) for tile in group)
            tiles.append(ShownTile(group, QRectF(left, track.top(), width, m.tile)))
            left += width
        beside = []
        for component, size in lane.beside:
            width = size * self.scale
            beside.append((component, size, QRectF(left, track.top(), width, m.tile)))
            left += width
        limit = None if lane.limit is None else lane.limit * self.scale
        return ShownRow(lane, head, track, tuple(tiles), tuple(beside), limit)

    def _grouped(self, lane: Lane) -> Iterator[tuple[LayerTile, ...]]:
        """Neighbours of one group of layers, at home or not; the output block stands alone."""

        def place(at: tuple[int, LayerTile]) -> tuple[int, bool, int]:
            i, tile = at
            number = -1 if tile.layer == self.n_layer else tile.layer // self.group
            return number, tile.home, tile.layer - i if self.group > 1 else i

        for _, group in groupby(enumerate(lane.tiles), place):
            yield tuple(tile for _, tile in group)

    def _opened_tile(self, lane: Lane, key: Key | None) -> tuple[LayerTile, ...] | None:
        if key is None or key[1] != lane.device:
            return None
        found = [t for t in lane.tiles if t.layer in key[0] and t.home == key[2]]
        return tuple(found) or None

    def _inside(self, lane: Lane, tiles: tuple[LayerTile, ...], top: float) -> ShownRow:
        """The layers of a group, or the parts of a layer, as wide as there is room."""
        m = self._measures
        head = QRectF(0, top, self._width, m.head)
        track = QRectF(0, head.bottom(), self._width, m.tile)
        single = len(tiles) == 1
        pieces = [(tiles, b.part, b.size) for b in tiles[0].bands] if single else [
            ((tile,), "", tile.size) for tile in tiles
        ]  # fmt: skip
        widths = _shares([size for _, _, size in pieces], self._width, m.head)
        left, shown = 0.0, []
        for (mine, part, _), width in zip(pieces, widths, strict=True):
            shown.append(ShownTile(mine, QRectF(left, track.top(), width, m.tile), part))
            left += width
        return ShownRow(lane, head, track, tuple(shown), opened=True)

    def edges(self, row: ShownRow) -> Iterator[tuple[float, int]]:
        """Where a run of layers begins or ends in a lane, with the first layer behind it."""
        home = {t.layer: lane.device for lane in self.lanes for t in lane.tiles if t.home}
        for tile in row.tiles:
            first, last = tile.layers[0], tile.layers[-1]
            if not tile.tiles[0].home or first >= self.n_layer:
                continue
            if last + 1 < self.n_layer and home.get(last + 1, "") != row.lane.device:
                yield tile.area.right(), last + 1
            if first and home.get(first - 1, "") != row.lane.device:
                yield tile.area.left(), first


def _shares(sizes: Sequence[int], width: float, least: float) -> list[float]:
    """Widths by size, none below `least` where there is room, all within `width`."""
    least = min(least, width / max(len(sizes), 1))
    whole = min(width, WIDEST * len(sizes))
    rest = whole - least * len(sizes)
    total = max(sum(sizes), 1)
    return [least + rest * size / total for size in sizes]
