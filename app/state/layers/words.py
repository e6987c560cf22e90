"""Tiles, devices and what a placement costs, in words."""

from collections.abc import Callable, Iterable, Sequence

from app.state.layers.lanes import Lane, LayerTile
from app.state.layers.placing import spans
from engine.protocol import Repriced
from engine.units import MIB

PART_WORDS = {
    "attention": "attention",
    "feed_forward": "feed-forward",
    "experts": "experts",
    "cache": "cache",
    "vision": "vision",
    "other": "other weights",
}
OUTPUT = "the output block"


def layer_words(layers: Iterable[int], n_layer: int) -> str:
    """`layer 3`, `layers 0-7`, `layers 20-29 and the output block`."""
    inner = sorted(i for i in layers if i < n_layer)
    said = [f"layer{'s' if len(inner) > 1 else ''} {spans(inner)}"] if inner else []
    if n_layer in layers:
        said.append(OUTPUT)
    return " and ".join(said)


def part_words(parts: Sequence[str]) -> str:
    """`attention, feed-forward and cache`."""
    said = [PART_WORDS[part] for part in parts]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}" if said else ""


def describe_parts(
    tiles: Sequence[LayerTile], parts: Sequence[str], n_layer: int, named: Callable[[str], str]
) -> str:
    """`attention of layer 3, 1.2 MiB, on A intel:0`."""
    size = sum(band.size for tile in tiles for band in tile.bands if band.part in parts)
    of = layer_words({tile.layer for tile in tiles}, n_layer)
    return f"{part_words(parts)} of {of}, {size / MIB:.1f} MiB, on {named(tiles[0].device)}"


def describe_tiles(
    tiles: Sequence[LayerTile], answer: Repriced, named: Callable[[str], str]
) -> str:
    """`layer 12, attention and feed-forward, 3.2 MiB, on B pocl:0: as asked`.

    `named` gives a device's letter with its name.
    """
    layers = [tile.layer for tile in tiles]
    parts = list(dict.fromkeys(band.part for tile in tiles for band in tile.bands))
    said = [
        layer_words(layers, answer.n_layer),
        part_words(parts),
        f"{sum(tile.size for tile in tiles) / MIB:.1f} MiB",
        f"on {named(tiles[0].device)}",
    ]
    text = ", ".join(part for part in said if part)
    labels = dict.fromkeys(label for i in layers for label in answer.labels[i])
    text += f" ({', '.join(labels)})" if labels else ""
    return f"{text}: {why(tiles, answer)}"


def why(tiles: Sequence[LayerTile], answer: Repriced) -> str:
    """Why it lies there, as the engine says."""
    if not tiles[0].home:
        return "placed by a pattern of the rule"
    causes = dict.fromkeys(answer.causes[tile.layer] for tile in tiles)
    return "; ".join(causes)


def short_lane(lane: Lane, named: Callable[[str], str]) -> str:
    """`B pocl:0 is 312.0 MiB short`."""
    return f"{named(lane.device)} is {lane.over / MIB:.1f} MiB short" if lane.over else ""


def describe_lane(lane: Lane, n_layer: int, named: Callable[[str], str]) -> str:
    """A device with what lies on it."""
    home = [tile.layer for tile in lane.tiles if tile.home]
    limit = f" of {lane.limit / MIB:.1f} MiB" if lane.limit is not None else " MiB"
    said = f"{named(lane.device)}: {layer_words(home, n_layer) or 'no layers'}"
    said += f", {lane.wanted / MIB:.1f}{limit}"
    return f"{said}, {lane.over / MIB:.1f} MiB short" if lane.over else said


def rate(value: float | None) -> str:
    """Tokens per second: one decimal below a hundred."""
    if value is None:
        return "–"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def crossing(size: int) -> str:
    """Bytes that go between devices per token."""
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < MIB else f"{size / MIB:.1f} MiB"
