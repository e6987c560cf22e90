"""Tiles, devices and what a placement costs, in words."""

from collections.abc import Callable, Iterable, Sequence

from app.language import decimal, tr
from app.state.layers.lanes import Lane, LayerTile
from app.state.layers.placing import spans
from engine.protocol import Repriced
from engine.units import MIB

PART_WORDS = {
    "attention": tr("attention"),
    "feed_forward": tr("feed-forward"),
    "experts": tr("experts"),
    "cache": tr("cache"),
    "vision": tr("vision"),
    "other": tr("other weights"),
}
OUTPUT = tr("the output block")


def layer_words(layers: Iterable[int], n_layer: int) -> str:
    """`layer 3`, `layers 0-7`, `layers 20-29 and the output block`."""
    inner = sorted(i for i in layers if i < n_layer)
    named = tr("layers {spans}") if len(inner) > 1 else tr("layer {spans}")
    parts = [named.format(spans=spans(inner))] if inner else []
    if n_layer in layers:
        parts.append(OUTPUT)
    return tr(" and ").join(parts)


def part_words(parts: Sequence[str]) -> str:
    """`attention, feed-forward and cache`."""
    pieces = [PART_WORDS[part] for part in parts]
    return (
        pieces[0]
        if len(pieces) == 1
        else tr("{text} and {last}", text=", ".join(pieces[:-1]), last=pieces[-1])
        if pieces
        else ""
    )


def describe_parts(
    tiles: Sequence[LayerTile], parts: Sequence[str], n_layer: int, named: Callable[[str], str]
) -> str:
    """`attention of layer 3, 1.2 MiB, on A intel:0`."""
    size = sum(band.size for tile in tiles for band in tile.bands if band.part in parts)
    of = layer_words({tile.layer for tile in tiles}, n_layer)
    return tr(
        "{part_words} of {of}, {size:.1f} MiB, on {device}",
        part_words=part_words(parts),
        of=of,
        size=size / MIB,
        device=named(tiles[0].device),
    )


def describe_tiles(
    tiles: Sequence[LayerTile], answer: Repriced, named: Callable[[str], str]
) -> str:
    """`layer 12, attention and feed-forward, 3.2 MiB, on B pocl:0: as asked`.

    `named` gives a device's letter with its name.
    """
    layers = [tile.layer for tile in tiles]
    parts = list(dict.fromkeys(band.part for tile in tiles for band in tile.bands))
    pieces = [
        layer_words(layers, answer.n_layer),
        part_words(parts),
        tr("{tiles:.1f} MiB", tiles=sum(tile.size for tile in tiles) / MIB),
        tr("on {device}", device=named(tiles[0].device)),
    ]
    text = ", ".join(part for part in pieces if part)
    labels = dict.fromkeys(label for i in layers for label in answer.labels[i])
    text += f" ({', '.join(labels)})" if labels else ""
    return f"{text}: {why(tiles, answer)}"


def why(tiles: Sequence[LayerTile], answer: Repriced) -> str:
    """Why it lies there, as the engine says."""
    if not tiles[0].home:
        return tr("placed by a pattern of the rule")
    causes = dict.fromkeys(answer.causes[tile.layer] for tile in tiles)
    return "; ".join(causes)


def short_lane(lane: Lane, named: Callable[[str], str]) -> str:
    """`B pocl:0 is 312.0 MiB short`."""
    return (
        tr("{device} is {over:.1f} MiB short", device=named(lane.device), over=lane.over / MIB)
        if lane.over
        else ""
    )


def describe_lane(lane: Lane, n_layer: int, named: Callable[[str], str]) -> str:
    """A device with what lies on it."""
    home = [tile.layer for tile in lane.tiles if tile.home]
    text = f"{named(lane.device)}: {layer_words(home, n_layer) or tr('no layers')}, "
    if lane.limit is None:
        text += tr("{wanted:.1f} MiB", wanted=lane.wanted / MIB)
    else:
        wanted, limit = lane.wanted / MIB, lane.limit / MIB
        text += tr("{wanted:.1f} of {limit:.1f} MiB", wanted=wanted, limit=limit)
    return (
        tr("{text}, {over:.1f} MiB short", text=text, over=lane.over / MIB) if lane.over else text
    )


def rate(value: float | None) -> str:
    """Tokens per second: one decimal below a hundred."""
    if value is None:
        return "–"
    return decimal(f"{value:.1f}") if value < 99.95 else f"{value:.0f}"


def crossing(size: int) -> str:
    """Bytes that go between devices per token."""
    if size < 1024:
        return tr("{size} bytes", size=size)
    return (
        tr("{size:.1f} KiB", size=size / 1024)
        if size < MIB
        else tr("{size:.1f} MiB", size=size / MIB)
    )
