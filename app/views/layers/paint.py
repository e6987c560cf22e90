"""How lanes and tiles are painted."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen

from app.state.layers.lanes import Lane
from app.state.layers.words import PART_WORDS
from app.theme import fonts
from app.theme.devices import (
    component_colour,
    device_look,
    draw_swatch,
    fill_component,
    swatch_size,
)
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL, mix, readable
from app.views.layers.picture import ShownRow, ShownTile
from app.widgets.numbers import mib

STRIP, MARK, BESIDE_TWO_LINES = 18, 3, 420
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_CENTER = Qt.AlignmentFlag.AlignCenter
_SHARES = {"attention": 1.0, "feed_forward": 0.78, "experts": 0.78, "other": 0.9}


def part_colour(device: str, part: str) -> str:
    """The colour of a part of a layer on the panel."""
    if part in ("cache", "vision"):
        return component_colour(device, part)
    return mix(device_look(device).colour, tokens().panel, _SHARES[part])


def fill_part(painter: QPainter, area: QRectF, device: str, part: str) -> None:
    """Paint an area of that part of a layer; experts are hatched."""
    if part in ("cache", "vision"):
        fill_component(painter, area, device, part)
        return
    colour = part_colour(device, part)
    painter.fillRect(area, QColor(colour))
    if part == "experts":
        line = QColor(mix(readable(colour), colour, 0.3))
        painter.fillRect(area, QBrush(line, Qt.BrushStyle.FDiagPattern))


def paint_row_head(painter: QPainter, row: ShownRow, selected: bool) -> None:
    """The device at the left, what it holds of what it may at the right, or below."""
    lane, now = row.lane, tokens()
    area = row.head.adjusted(0, 0, -2, -4)
    said = lane_numbers(lane)
    first, second = area, area
    if two_lines(area.width()):
        first = QRectF(area.left(), area.top(), area.width(), area.height() / 2)
        second = first.translated(0, first.height())
    painter.setFont(fonts.small())
    painter.setPen(QColor(now.bad if lane.over else now.quiet))
    painter.drawText(second, _RIGHT if first is second else _LEFT, said)
    width = painter.fontMetrics().horizontalAdvance(said) if first is second else 0
    draw_swatch(painter, first.left(), first.center().y(), lane.device)
    left = swatch_size() + GRID
    painter.setFont(fonts.strong())
    painter.setPen(QColor(now.link if selected else now.text))
    room = first.width() - left - width - GRID
    name = painter.fontMetrics().elidedText(lane.device, Qt.TextElideMode.ElideRight, int(room))
    painter.drawText(first.adjusted(left, 0, 0, 0), _LEFT, name)


def two_lines(width: float) -> bool:
    """Whether a lane's head needs a second line."""
    return width < fonts.px(BESIDE_TWO_LINES)


def lane_numbers(lane: Lane) -> str:
    """`34.1 of 15 000 MiB`, and how much is missing."""
    limit = f" of {mib(lane.limit)} MiB" if lane.limit is not None else " MiB"
    return f"{mib(lane.wanted)}{limit}" + (f", {mib(lane.over)} MiB short" if lane.over else "")


def paint_inside_head(painter: QPainter, row: ShownRow, text: str) -> None:
    """What an opened row shows the inside of."""
    painter.setFont(fonts.small())
    painter.setPen(QColor(tokens().quiet))
    metrics = painter.fontMetrics()
    shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(row.head.width()))
    painter.drawText(row.head.adjusted(0, 0, 0, -4), _LEFT, shown)


def paint_track(painter: QPainter, row: ShownRow) -> None:
    """A lane as wide as its device has room; torn where that is further than can be seen."""
    now, track = tokens(), row.track
    end = track.right() if row.limit is None else min(row.limit, track.right())
    room = QRectF(track.left(), track.top(), max(end, 0.0), track.height())
    ground = mix(now.faint, now.panel, 0.16)
    if row.lane.over:
        ground = now.on("bad", 0.14)
        painter.fillRect(track, QColor(ground))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(ground))
    painter.drawRoundedRect(room, RADIUS_CONTROL, RADIUS_CONTROL)
    if row.limit is not None and row.limit > track.right() and not row.opened:
        _tear(painter, track)


def paint_limit(painter: QPainter, row: ShownRow) -> None:
    """The line that a lane's bytes may not pass, over the tiles."""
    now, track = tokens(), row.track
    if row.limit is None or row.limit > track.right() or row.opened:
        return
    painter.setPen(QPen(QColor(now.bad if row.lane.over else now.warn), 2))
    x = max(row.limit, 1.0)
    painter.drawLine(QPointF(x, track.top() - 3), QPointF(x, track.bottom() + 3))


def paint_beside(painter: QPainter, row: ShownRow) -> None:
    """Graph, input and staging memory behind the tiles."""
    for component, size, area in row.beside:
        ink = fill_component(painter, area.adjusted(0, 0, -1, 0), row.lane.device, component)
        painter.setFont(fonts.small())
        painter.setPen(QColor(ink))
        lines = component, mib(size)
        if max(map(painter.fontMetrics().horizontalAdvance, lines)) <= area.width() - 8:
            ground = mix(device_look(row.lane.device).colour, tokens().panel, 0.4)
            height = painter.fontMetrics().height()
            box = QRectF(0, 0, area.width() - 4, 2 * height)
            box.moveCenter(area.center())
            painter.fillRect(box, QColor(ground))
            painter.drawText(QRectF(box.left(), box.top(), box.width(), height), _CENTER, lines[0])
            painter.drawText(
                QRectF(box.left(), box.top() + height, box.width(), height), _CENTER, lines[1]
            )


def paint_tile(
    painter: QPainter, tile: ShownTile, area: QRectF, names: Sequence[str], marked: bool
) -> None:
    """A strip with the longest of `names` that fits, and a band for each part. `marked` is a line
    below the name: the layer is not of the usual kind.
    """
    now, device = tokens(), tile.device
    area = area.adjusted(0, 0, -1, 0)
    strip = QRectF(area.left(), area.top(), area.width(), fonts.px(STRIP))
    painter.fillRect(strip, QColor(mix(device_look(device).colour, now.panel, 0.22)))
    painter.setFont(fonts.small())
    painter.setPen(QColor(now.text))
    metrics = painter.fontMetrics()
    name = next((n for n in names if metrics.horizontalAdvance(n) <= area.width() - 4), "")
    painter.drawText(strip, _CENTER, name)
    if marked:
        line = QRectF(area.left(), strip.bottom() - MARK, area.width(), MARK)
        painter.fillRect(line, QColor(now.text))
    body = QRectF(area.left(), strip.bottom(), area.width(), area.bottom() - strip.bottom())
    _paint_bands(painter, tile, body)


def _paint_bands(painter: QPainter, tile: ShownTile, body: QRectF) -> None:
    bands = tile.bands()
    least = min(3.0, body.height() / max(len(bands), 1))
    rest = body.height() - least * len(bands)
    whole, top = max(tile.size, 1), body.top()
    for at, (part, size) in enumerate(bands):
        height = least + rest * size / whole
        band = QRectF(body.left(), top, body.width(), height - (at + 1 < len(bands)))
        fill_part(painter, band, tile.device, part)
        _label_band(painter, band, tile.device, part, size, bool(tile.part))
        top += height


def _label_band(
    painter: QPainter, band: QRectF, device: str, part: str, size: int, named: bool
) -> None:
    """Its bytes, with the part's name where there is room and the tile is not `named` so."""
    ground = part_colour(device, part)
    painter.setFont(fonts.small())
    painter.setPen(QColor(readable(ground)))
    metrics = painter.fontMetrics()
    if metrics.height() > band.height() - 2:
        return
    texts = (mib(size),) if named else (f"{PART_WORDS[part]} {mib(size)}", mib(size))
    for text in texts:
        if metrics.horizontalAdvance(text) <= band.width() - 10:
            box = QRectF(0, 0, metrics.horizontalAdvance(text) + 6, metrics.height())
            box.moveCenter(band.center())
            if part in ("experts", "vision"):  # their patterns would run through the letters
                painter.fillRect(box, QColor(ground))
            painter.drawText(band, _CENTER, text)
            return


def paint_frame(painter: QPainter, area: QRectF, tone: str, width: float = 2) -> None:
    """A frame around what is selected, or where the keyboard is."""
    painter.setPen(QPen(QColor(getattr(tokens(), tone)), width))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    half = width / 2
    painter.drawRect(area.adjusted(half, half, -half - 1, -half))


def paint_outline(painter: QPainter, area: QRectF, device: str) -> None:
    """Where what is dragged will lie."""
    painter.fillRect(area, QColor(mix(device_look(device).colour, tokens().panel, 0.3)))
    painter.setPen(QPen(QColor(device_look(device).colour), 1, Qt.PenStyle.DashLine))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(area.adjusted(0.5, 0.5, -1.5, -0.5))


def names_of(tile: ShownTile, n_layer: int, labels: Sequence[Sequence[str]]) -> list[str]:
    """What a tile may be called, the longest first."""
    if tile.part:
        return [PART_WORDS[tile.part]]
    first, last = tile.layers[0], tile.layers[-1]
    if first == n_layer:
        return ["output block", "out"]
    if len(tile.layers) > 1:
        return [f"layers {first}–{last}", f"{first}–{last}"]
    kinds = [*labels[first], ""]
    return [f"{first} {kinds[0]}".strip(), str(first)]


def unusual_kinds(labels: Sequence[Sequence[str]]) -> Mapping[int, str]:
    """The layers that are not of the most usual kind, with what they are."""
    kinds = [", ".join(kind) for kind in labels[:-1]]
    if len(set(kinds)) < 2:
        return {}
    usual = max(dict.fromkeys(kinds), key=kinds.count)
    return {i: kind or "plain" for i, kind in enumerate(kinds) if kind != usual}


def paint_grip(painter: QPainter, x: float, row: ShownRow) -> None:
    """What the mouse takes a boundary by."""
    height = row.track.height() / 3
    grip = QRectF(x - 2.5, row.track.center().y() - height / 2, 4, height)
    painter.setPen(QPen(QColor(tokens().panel), 1))
    painter.setBrush(QColor(tokens().text))
    painter.drawRoundedRect(grip, 2, 2)


def _tear(painter: QPainter, track: QRectF) -> None:
    """The lane goes on further than it is drawn."""
    painter.setPen(QPen(QColor(tokens().panel), 2))
    for shift in (10, 5):
        x = track.right() - shift
        painter.drawLine(QPointF(x, track.top()), QPointF(x - 4, track.bottom()))
