"""Contents of each device's lane, from the engine's answer as it is or after an edit."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from app.state.layers.placing import EditedPlacement
from engine.protocol import DeviceRow, Repriced

OF_LAYERS = ("weights", "adapters", "cache", "recurrent state", "checkpoints", "vision")
MAPPED = "mapped"
HOST = "host"
PARTS = ("attention", "feed_forward", "experts", "cache", "vision", "other")
"""From the top of a tile to its bottom."""


@dataclass(frozen=True)
class TileBand:
    """A part of a layer: `held` bytes allocated, `mapped` in the file's pages. `pattern` names its
    weights; empty for what goes with its layer.
    """

    part: str
    held: int
    pattern: str = ""
    mapped: int = 0

    @property
    def size(self) -> int:
        return self.held + self.mapped

    def on(self, device: str) -> "TileBand":
        """Return the band on another device, as far as that can be predicted: the host reads
        weights in the file.
        """
        mapped = self.size if device == HOST and self.part != "cache" else 0
        return replace(self, held=self.size - mapped, mapped=mapped)


@dataclass(frozen=True)
class LayerTile:
    """The part of a layer on one device; the output block is layer `n_layer`.

    `home` says that the device has the layer, and with it its cache; else patterns put this here.
    """

    layer: int
    device: str
    bands: tuple[TileBand, ...]
    home: bool = True

    @property
    def size(self) -> int:
        return sum(band.size for band in self.bands)


@dataclass(frozen=True)
class Lane:
    """A device. `tiles` are by layer; `beside` is what it holds that belongs to no layer.

    `wanted` is all of it, `limit` the most it may hold (None: not known before something lies
    there), `over` by how much it is too much, also of a pool that it shares.
    """

    device: str
    tiles: tuple[LayerTile, ...] = ()
    beside: tuple[tuple[str, int], ...] = ()
    wanted: int = 0
    limit: int | None = None
    over: int = 0


def lanes_of(
    answer: Repriced, now: EditedPlacement, devices: Sequence[str], memory: Mapping[str, int]
) -> list[Lane]:
    """A lane for each of `devices`, the tiles lying as `now` says. `memory` is what each has.

    Bytes are the answer's; where `now` differs from it, they are what the answer said of the other
    device, until the engine has answered again.
    """
    original = EditedPlacement.of(answer.layers, answer.overrides)
    tiles = _tiles(answer, original, now)
    budgets = {row.device: row for row in answer.budgets}
    over = shortfalls(answer)
    made = []
    for device in devices:
        mine = tuple(tile for tile in tiles if tile.device == device)
        beside = _beside(answer, device)
        budget = budgets.get(device)
        limit = budget.limit if budget is not None else memory.get(device)
        held = sum(band.held for tile in mine for band in tile.bands)
        wanted = held + sum(size for _, size in beside)
        made.append(Lane(device, mine, beside, wanted, limit, over.get(device, 0)))
    return made


def devices_in_use(
    answer: Repriced | None,
    now: EditedPlacement | None,
    rows: Sequence[DeviceRow],
    added: Collection[str],
) -> list[str]:
    """Devices with a lane, in the order of `rows`: those the engine uses by default, those in use,
    and those in `added`. The host comes last, and only where it has a layer's part or was added.
    """
    used = {*added, *(row.id for row in rows if row.is_default)}
    if answer is not None:
        used |= {row.device for row in answer.budgets if row.device != HOST}
        used |= {tile.device for tile in answer.tiles}
    if now is not None:
        used |= {*now.layers, *(device for _, device in now.overrides)}
    known = [row.id for row in rows if row.id in used]
    return [*known, *sorted(used - {*known, HOST}), *([HOST] if HOST in used else [])]


def moved_tiles(
    placed: EditedPlacement, tiles: Sequence[LayerTile], device: str, parts: Collection[str] = ()
) -> EditedPlacement:
    """Tiles, or only some `parts` of them, on that device: a layer where its home tile is moved
    whole, else patterns.
    """
    moved = placed.with_layers([tile.layer for tile in tiles if tile.home and not parts], device)
    for tile in tiles:
        for band in tile.bands:
            chosen = band.part in parts if parts else not tile.home
            if chosen and band.pattern:
                moved = moved.with_part(band.pattern, tile.layer, device)
    return moved


def shortfalls(answer: Repriced) -> dict[str, int]:
    """By how many bytes each device has too much, alone or with those that share its pool."""
    over = {row.device: row.over for row in answer.budgets}
    wanted = {row.device: row.wanted for row in answer.budgets}
    for pool in answer.memory.pools:
        both = sum(wanted.get(device, 0) for device in pool.devices) - pool.limit
        for device in pool.devices:
            if both > 0 and wanted.get(device, 0):
                over[device] = max(over.get(device, 0), both)
    return {device: size for device, size in over.items() if size > 0}


def _tiles(answer: Repriced, original: EditedPlacement, now: EditedPlacement) -> list[LayerTile]:
    places: dict[tuple[int, str], list[TileBand]] = {}
    for tile in answer.tiles:
        device = _moved(tile.pattern, tile.layer, tile.device, original, now)
        band = TileBand(tile.part, tile.size, tile.pattern, tile.mapped)
        band = band if device == tile.device else band.on(device)
        places.setdefault((tile.layer, device), []).append(band)
    return [
        LayerTile(layer, device, _joined(bands), now.layers[layer] == device)
        for (layer, device), bands in sorted(places.items())
    ]


def _moved(
    pattern: str, layer: int, device: str, original: EditedPlacement, now: EditedPlacement
) -> str:
    """Where a part lies now that lay on `device` in the engine's answer."""
    own, before = dict(reversed(now.overrides)), dict(reversed(original.overrides))
    if pattern and pattern in own:
        return own[pattern]
    if device == original.layers[layer] or (pattern and pattern in before):
        return now.layers[layer]
    return device


def _joined(bands: Iterable[TileBand]) -> tuple[TileBand, ...]:
    """By part, in order; two of one part, which came from two devices, together."""
    ordered = sorted(bands, key=lambda band: PARTS.index(band.part))
    return tuple(
        same[0]
        if len(same) == 1
        else replace(same[0], held=sum(b.held for b in same), mapped=sum(b.mapped for b in same))
        for _, group in groupby(ordered, lambda band: band.part)
        for same in (list(group),)
    )


def _beside(answer: Repriced, device: str) -> tuple[tuple[str, int], ...]:
    """Bytes by component that no layer has; pages of the file are not allocated."""
    sums: dict[str, int] = {}
    for row in answer.memory.rows:
        of_layer = row.layer is not None and row.component in OF_LAYERS
        if row.device == device and row.status != MAPPED and not of_layer:
            sums[row.component] = sums.get(row.component, 0) + row.size
    return tuple(sums.items())
