"""Painting of lanes and tiles; the scene has the rows, chosen tiles and those being dragged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor

from app.language import tr
from app.state.lab.shading import Shade
from app.state.layers.lanes import Lane
from app.state.layers.words import PART_WORDS, layer_words
from app.state.selection import Selected
from app.theme import fonts
from app.theme.devices import component_colour, device_look, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL, mix, readable
from app.views.layers.picture import Key, LanesPicture, ShownRow, ShownTile
from app.widgets.numbers import mib
from app.widgets.plots.paper import (
    CENTER,
    DASHED,
    LEFT,
    RIGHT,
    Paper,
    text_height,
    text_width,
)
from app.widgets.plots.scale import shade_of

STRIP, MARK, BESIDE_TWO_LINES = 18, 3, 420
_SHARES = {"attention": 1.0, "feed_forward": 0.78, "experts": 0.78, "other": 0.9}


def part_colour(device: str, part: str) -> str:
    """The colour of a part of a layer on the panel."""
    if part in ("cache", "vision"):
        return component_colour(device, part)
    return mix(device_look(device).colour, tokens().panel, _SHARES[part])


def fill_part(paper: Paper, area: QRectF, device: str, part: str) -> None:
    """Fill an area of that part of a layer; experts are hatched."""
    if part in ("cache", "vision"):
        paper.component(area, device, part)
        return
    colour = part_colour(device, part)
    paper.fill(area, colour)
    if part == "experts":
        line = QColor(mix(readable(colour), colour, 0.3))
        paper.fill(area, QBrush(line, Qt.BrushStyle.FDiagPattern))


def paint_row_head(paper: Paper, row: ShownRow, selected: bool) -> None:
    """The device at the left, what it holds of what it may at the right, or below."""
    lane, now = row.lane, tokens()
    area = row.head.adjusted(0, 0, -2, -4)
    first, second = area, area
    if two_lines(area.width()):
        first = QRectF(area.left(), area.top(), area.width(), area.height() / 2)
        second = first.translated(0, first.height())
    beside = first is second
    tone = now.bad if lane.over else now.quiet
    width = paper.text(second, lane_numbers(lane), tone=tone, align=RIGHT if beside else LEFT)
    paper.swatch(first.left(), first.center().y(), lane.device)
    left, right = swatch_size() + GRID, width + GRID if beside else GRID
    name = first.adjusted(left, 0, -right, 0)
    paper.elided(name, lane.device, now.link if selected else now.text, LEFT, fonts.strong())


def two_lines(width: float) -> bool:
    """Whether a lane's head needs a second line."""
    return width < fonts.px(BESIDE_TWO_LINES)


def lane_numbers(lane: Lane) -> str:
    """`34.1 of 15 000 MiB`, and how much is missing."""
    limit = tr(" of {limit} MiB", limit=mib(lane.limit)) if lane.limit is not None else tr(" MiB")
    return f"{mib(lane.wanted)}{limit}" + (
        tr(", {over} MiB short", over=mib(lane.over)) if lane.over else ""
    )


def paint_inside_head(paper: Paper, row: ShownRow, text: str) -> None:
    """What an opened row shows the inside of."""
    paper.elided(row.head.adjusted(0, 0, 0, -4), text, tokens().quiet)


def paint_track(paper: Paper, row: ShownRow) -> None:
    """A lane as wide as its device has room; torn where that is further than can be seen."""
    now, track = tokens(), row.track
    end = track.right() if row.limit is None else min(row.limit, track.right())
    room = QRectF(track.left(), track.top(), max(end, 0.0), track.height())
    ground = mix(now.faint, now.panel, 0.16)
    if row.lane.over:
        ground = now.on("bad", 0.14)
        paper.fill(track, ground)
    paper.fill(room, ground, radius=RADIUS_CONTROL)
    if row.limit is not None and row.limit > track.right() and not row.opened:
        for x in (track.right() - 10, track.right() - 5):
            ends = [QPointF(x, track.top()), QPointF(x - 4, track.bottom())]
            paper.line(ends, now.panel, 2)


def paint_limit(paper: Paper, row: ShownRow) -> None:
    """The line that a lane's bytes may not pass, over the tiles."""
    now, track = tokens(), row.track
    if row.limit is not None and row.limit <= track.right() and not row.opened:
        x = max(row.limit, 1.0)
        ends = [QPointF(x, track.top() - 3), QPointF(x, track.bottom() + 3)]
        paper.line(ends, now.bad if row.lane.over else now.warn, 2)


def paint_beside(paper: Paper, row: ShownRow) -> None:
    """Graph, input and staging memory behind the tiles."""
    height = text_height()
    for component, size, area in row.beside:
        ink = paper.component(area.adjusted(0, 0, -1, 0), row.lane.device, component)
        lines = component, mib(size)
        if max(map(text_width, lines)) <= area.width() - 8:
            box = QRectF(0, 0, area.width() - 4, 2 * height)
            box.moveCenter(area.center())
            paper.fill(box, mix(device_look(row.lane.device).colour, tokens().panel, 0.4))
            for at, line in enumerate(lines):
                place = QRectF(box.left(), box.top() + at * height, box.width(), height)
                paper.text(place, line, tone=ink, align=CENTER)


def paint_tile(
    paper: Paper,
    tile: ShownTile,
    area: QRectF,
    names: Sequence[str],
    marked: bool,
    shade: Shade | None = None,
) -> None:
    """A strip with the longest of `names` that fits, and a band for each part, or the value of the
    layer in the colour of a `shade`. `marked` is a line below the name: the layer is not of the
    usual kind.
    """
    now, device = tokens(), tile.device
    area = area.adjusted(0, 0, -1, 0)
    strip = QRectF(area.left(), area.top(), area.width(), fonts.px(STRIP))
    paper.fill(strip, mix(device_look(device).colour, now.panel, 0.22))
    paper.text(strip, *names, tone=now.text, align=CENTER, margin=4)
    if marked:
        paper.fill(QRectF(area.left(), strip.bottom() - MARK, area.width(), MARK), now.text)
    body = QRectF(area.left(), strip.bottom(), area.width(), area.bottom() - strip.bottom())
    if shade is None or tile.part:
        _paint_bands(paper, tile, body)
    else:
        _paint_shade(paper, tile, body, shade)


def _paint_shade(paper: Paper, tile: ShownTile, body: QRectF, shade: Shade) -> None:
    value = shade.of(tile.layers)
    ground = mix(tokens().faint, tokens().panel, 0.3)
    if value is not None:
        ground = shade_of(shade.share(value), shade.is_diverging)
    paper.fill(body, ground)
    texts = shade.text(value), shade.text(value, short=True)
    paper.text(body, *texts, tone=readable(ground), align=CENTER, margin=2)


def _paint_bands(paper: Paper, tile: ShownTile, body: QRectF) -> None:
    bands = tile.bands()
    least = min(3.0, body.height() / max(len(bands), 1))
    rest = body.height() - least * len(bands)
    whole, top = max(tile.size, 1), body.top()
    for at, (part, size) in enumerate(bands):
        height = least + rest * size / whole
        band = QRectF(body.left(), top, body.width(), height - (at + 1 < len(bands)))
        fill_part(paper, band, tile.device, part)
        _label_band(paper, band, tile.device, part, size, bool(tile.part))
        top += height


def _label_band(paper: Paper, band: QRectF, device: str, part: str, size: int, named: bool) -> None:
    """Its bytes, with the part's name where there is room and the tile is not `named` so."""
    ground = part_colour(device, part)
    if text_height() > band.height() - 2:
        return
    texts = (mib(size),) if named else (f"{PART_WORDS[part]} {mib(size)}", mib(size))
    fits = (text for text in texts if text_width(text) <= band.width() - 10)
    text = next(fits, "")
    if text and part in ("experts", "vision"):  # their patterns would run through the letters
        box = QRectF(0, 0, text_width(text) + 6, text_height())
        box.moveCenter(band.center())
        paper.fill(box, ground)
    paper.text(band, text, tone=readable(ground), align=CENTER)


def paint_frame(paper: Paper, area: QRectF, tone: str, width: float = 2) -> None:
    """A frame around what is selected, or where the keyboard is."""
    half = width / 2
    inside = area.adjusted(half, half, -half - 1, -half)
    paper.frame(inside, getattr(tokens(), tone), width)


def paint_outline(paper: Paper, area: QRectF, device: str) -> None:
    """Where what is dragged will lie."""
    colour = device_look(device).colour
    paper.fill(area, mix(colour, tokens().panel, 0.3))
    paper.frame(area.adjusted(0.5, 0.5, -1.5, -0.5), colour, style=DASHED)


def paint_grip(paper: Paper, x: float, row: ShownRow) -> None:
    """What the mouse takes a boundary by."""
    height = row.track.height() / 3
    grip = QRectF(x - 2.5, row.track.center().y() - height / 2, 4, height)
    paper.fill(grip, tokens().text, radius=2)
    paper.frame(grip, tokens().panel, 1, 2)


def names_of(tile: ShownTile, n_layer: int, labels: Sequence[Sequence[str]]) -> list[str]:
    """What a tile may be called, the longest first."""
    if tile.part:
        return [PART_WORDS[tile.part]]
    first, last = tile.layers[0], tile.layers[-1]
    if first == n_layer:
        return [tr("output block"), "out"]
    if len(tile.layers) > 1:
        return [tr("layers {first}–{last}", first=first, last=last), f"{first}–{last}"]
    kinds = [*labels[first], ""]
    return [f"{first} {kinds[0]}".strip(), str(first)]


def unusual_kinds(labels: Sequence[Sequence[str]]) -> Mapping[int, str]:
    """The layers that are not of the most usual kind, with what they are."""
    kinds = [", ".join(kind) for kind in labels[:-1]]
    if len(set(kinds)) < 2:
        return {}
    usual = max(dict.fromkeys(kinds), key=kinds.count)
    return {i: kind or "plain" for i, kind in enumerate(kinds) if kind != usual}


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
    shade: Shade | None = None

    def paint(self, paper: Paper) -> None:
        for row in self.picture.rows:
            self._paint_row(paper, row)
        with paper.faded(0.94):
            for tile, way in self.carried:
                area = tile.area.translated(way)
                names, marked = self._names(tile), self._is_unusual(tile)
                paint_tile(paper, tile, area, names, marked, self.shade)
                paint_frame(paper, area, "accent")

    def _paint_row(self, paper: Paper, row: ShownRow) -> None:
        device = row.lane.device
        if row.opened:
            paint_inside_head(paper, row, self._inside(row))
        else:
            paint_row_head(paper, row, self.marked.device == device)
            paint_track(paper, row)
            paint_beside(paper, row)
        held = {layer for tile, _ in self.carried for layer in tile.layers}
        for tile in row.tiles:
            if device == self.over and held >= set(tile.layers):
                paint_outline(paper, tile.area, device)
            else:
                self._paint_tile(paper, tile)
        if not row.opened:
            for x, _ in self.picture.edges(row):
                if x > row.track.left():
                    paint_grip(paper, x, row)
        paint_limit(paper, row)

    def _paint_tile(self, paper: Paper, tile: ShownTile) -> None:
        names, unusual = self._names(tile), self._is_unusual(tile)
        paint_tile(paper, tile, tile.area, names, unusual, self.shade)
        now = self.marked
        marked = not tile.part and now.layer in tile.layers and now.device in (None, tile.device)
        if marked or tile.key in self.chosen:
            paint_frame(paper, tile.area, "accent", 3)
        if tile.key == self.cursor:
            paint_frame(paper, tile.area, "text")

    def _names(self, tile: ShownTile) -> list[str]:
        return names_of(tile, self.picture.n_layer, self.labels)

    def _is_unusual(self, tile: ShownTile) -> bool:
        return not tile.part and self.marks.issuperset(tile.layers)

    def _inside(self, row: ShownRow) -> str:
        layers = {layer for tile in row.tiles for layer in tile.layers}
        return tr(
            "Inside {layer_words} (Esc closes)",
            layer_words=layer_words(layers, self.picture.n_layer),
        )
