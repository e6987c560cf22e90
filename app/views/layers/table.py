"""The parts of the tiles as a table."""

from collections.abc import Iterable
from typing import NamedTuple

from app.state.layers.lanes import Lane, LayerTile, TileBand
from app.state.layers.layers import LayersState
from app.state.layers.words import PART_WORDS, why
from app.theme.devices import lettered
from app.widgets.lists.rows import Column
from app.widgets.numbers import mib


class PartRow(NamedTuple):
    """What a device has of a part of a layer."""

    tile: LayerTile
    band: TileBand


def part_rows(lanes: Iterable[Lane]) -> list[PartRow]:
    """By layer, and in a layer as the bands of its tile."""
    tiles = sorted((t for lane in lanes for t in lane.tiles), key=lambda t: (t.layer, not t.home))
    return [PartRow(tile, band) for tile in tiles for band in tile.bands]


def part_columns(state: LayersState) -> tuple[Column[PartRow], ...]:
    """Layer, device, part with its bytes, what kind of layer it is and why it lies there."""

    def title(row: PartRow) -> str:
        out = state.answer is not None and row.tile.layer == state.answer.n_layer
        return "out" if out else str(row.tile.layer)

    def kind(row: PartRow) -> str:
        return ", ".join(state.answer.labels[row.tile.layer]) if state.answer is not None else ""

    def cause(row: PartRow) -> str:
        return why([row.tile], state.answer) if state.answer is not None else ""

    return (
        Column[PartRow]("Layer", title, lambda r: r.tile.layer, right=True),
        Column[PartRow]("Device", lambda r: lettered(r.tile.device)),
        Column[PartRow]("Part", lambda r: PART_WORDS[r.band.part]),
        Column[PartRow]("MiB", lambda r: mib(r.band.size), lambda r: r.band.size, right=True),
        Column[PartRow]("Kind", kind, quiet=True),
        Column[PartRow]("Why", cause, quiet=True),
        Column[PartRow](
            "Bytes", lambda r: str(r.band.size), lambda r: r.band.size, right=True, quiet=True
        ),
    )
