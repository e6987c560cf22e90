"""Painting of a scene: cards, lines and boxes, with less detail the smaller they are; and what is
marked in it: the selection, and its neighbours.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen

from app.state.graph.blocks import GraphIndex
from app.state.graph.overlay import Coloured
from app.state.graph.scene import APART, HEAD, GraphScene, SceneBox, SceneCard
from app.state.selection import Selected
from app.theme import fonts
from app.theme.devices import device_look
from app.theme.theme import tokens
from app.theme.tokens import DEVICES, mix, readable

CORNER = 5.0
HEIGHT = 22.0  # of a card's joint below its upper edge

Point = tuple[float, float]


def rounded(points: Sequence[Point]) -> QPainterPath:
    """A line with its corners rounded."""
    path = QPainterPath(QPointF(*points[0]))
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        path.lineTo(_towards(at, before))
        path.quadTo(QPointF(*at), _towards(at, after))
    path.lineTo(QPointF(*points[-1]))
    return path


def between(one: SceneCard, other: SceneCard) -> QPainterPath:
    """An arrow from the right of a card to the left of the next, also where that begins a row."""
    start, end = (one.x + one.width, one.y + HEIGHT), (other.x, other.y + HEIGHT)
    points = [start, end]
    if other.x <= one.x:
        turn, right, left = other.y - APART / 2, start[0] + 20, end[0] - 20
        points = [start, (right, start[1]), (right, turn), (left, turn), (left, end[1]), end]
    path, tip = rounded(points), QPointF(*end)
    path.moveTo(tip + QPointF(-7, -5))
    path.lineTo(tip)
    path.lineTo(tip + QPointF(-7, 5))
    return path


def _towards(at: Point, other: Point) -> QPointF:
    """A point a corner's radius from `at`, at most half of the way."""
    dx, dy = other[0] - at[0], other[1] - at[1]
    length = max(abs(dx), abs(dy), 1e-9)
    share = min(CORNER / length, 0.5)
    return QPointF(at[0] + dx * share, at[1] + dy * share)


TITLES, NOTES, LINES = 0.4, 0.62, 0.13  # the scales from which on these are painted
STRIP, RADIUS = 14.0, 5.0
STEPS = 8  # shades of an amount
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_CENTER = Qt.AlignmentFlag.AlignCenter


@dataclass(frozen=True)
class Marks:
    """What stands out: `lit` is what the selected box reads and is read by; of boxes that are not
    `clear` little is seen; `changed` differ from another graph.
    """

    selected: int | None = None
    card: int | None = None
    lit: Collection[int] = ()
    found: Collection[int] = ()
    changed: Collection[int] = ()
    clear: Collection[int] | None = None


@dataclass(frozen=True)
class _CardShapes:
    """A card's lines in two colours, and its boxes by what they are filled with."""

    lines: QPainterPath
    crossing: QPainterPath
    filled: Mapping[str, list[QRectF]] = field(default_factory=dict)


class ScenePainter:
    """Paints one scene in the colours of an overlay; to be made anew when the theme changes."""

    def __init__(self, scene: GraphScene, coloured: Coloured) -> None:
        self.scene = scene
        self._coloured = coloured
        self._types = {name: i for i, name in enumerate(dict.fromkeys(coloured.names.values()))}
        graph = scene.index.graph
        self._devices = {node.device for node in graph.nodes if node.role == ""}
        self._shapes: dict[int, _CardShapes] = {}
        self._where: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, card in enumerate(scene.cards):
            for place, box in enumerate(card.boxes):
                if box.kind != "port":
                    self._where[box.number].append((at, place))
        self._arrows = QPainterPath(), QPainterPath()
        for one, other in zip(scene.cards, scene.cards[1:], strict=False):
            self._arrows[self._crosses(one, other)].addPath(between(one, other))
        self._titles, self._notes = _font(12), _font(10.5)
        self._heads: dict[int, QFont] = {}
        self._head_texts: dict[tuple[int, int], tuple[str, float]] = {}
        self._texts: dict[tuple[int, int], tuple[str, str]] = {}

    def paint(self, painter: QPainter, visible: QRectF, scale: float, marks: Marks) -> None:
        """Onto a painter that has the scene's coordinates."""
        shown = [
            (at, card)
            for at, card in enumerate(self.scene.cards)
            if visible.intersects(QRectF(card.x, card.y, card.width, card.height))
        ]
        self._paint_between(painter)
        for at, card in shown:
            self._paint_card(painter, card, marks.card == at)
            self._paint_head(painter, at, card, scale)
        for at, card in shown:
            self._paint_boxes(painter, at, card, visible, scale, marks)
        self._paint_marks(painter, {at for at, _ in shown}, scale, marks)

    def tone(self, number: int) -> str:
        """The colour of a box by its number."""
        if number in self._coloured.wrong:
            return tokens().bad
        name = self._coloured.names.get(number)
        if name is not None:
            if name in self._devices:
                return device_look(name).colour
            return DEVICES[self._types[name] % len(DEVICES)]
        share = self._coloured.share(number)
        if share is None:
            return tokens().faint
        return shade(share)

    # Cards and what is between them

    def _paint_card(self, painter: QPainter, card: SceneCard, marked: bool) -> None:
        now = tokens()
        area = QRectF(card.x, card.y, card.width, card.height)
        if len(card.blocks) > 1:  # others lie below
            painter.setPen(_pen(now.divider))
            painter.setBrush(QColor(now.raised))
            for below in (12, 6):
                painter.drawRoundedRect(area.translated(below, below), 10, 10)
        painter.setPen(_pen(now.accent if marked else now.divider, 2 if marked else 1))
        painter.setBrush(QColor(now.canvas))
        painter.drawRoundedRect(area, 10, 10)

    def _paint_head(self, painter: QPainter, at: int, card: SceneCard, scale: float) -> None:
        """Title and note; above a card that is small, where the title stays as large as text."""
        now, size, room = tokens(), 13, card.width - 28
        area = QRectF(card.x + 14, card.y + 4, room, HEAD * 0.8)
        if scale < TITLES:
            size, room = round(min(11 / scale, APART * 0.72)), card.width + APART - 12
            if size * scale < 7:
                return
            area = QRectF(card.x, card.y - APART, room, APART)
        title, used = self._title_of(at, size, room)
        painter.setFont(self._heads[size])
        painter.setPen(QColor(now.text))
        painter.drawText(area, _LEFT, title)
        if scale >= NOTES:
            notes = QFontMetricsF(self._notes)
            if used + notes.horizontalAdvance(card.note) < room:
                painter.setFont(self._notes)
                painter.setPen(QColor(now.quiet))
                painter.drawText(area.adjusted(used, 0, 0, 0), _LEFT, card.note)

    def _paint_between(self, painter: QPainter) -> None:
        """From each card to the next one, where the device changes more clearly."""
        now = tokens()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for path, tone, width in zip(self._arrows, (now.faint, now.warn), (1.6, 2.4), strict=True):
            painter.setPen(_pen(tone, width))
            painter.drawPath(path)

    def _crosses(self, one: SceneCard, other: SceneCard) -> bool:
        """Whether the next card begins on another device than this one ends."""
        blocks, nodes = self.scene.index.blocks, self.scene.index.graph.nodes
        last, first = blocks[one.blocks[-1]].nodes[-1], blocks[other.blocks.start].nodes[0]
        return nodes[last].device != nodes[first].device

    # Boxes

    def _paint_boxes(
        self,
        painter: QPainter,
        at: int,
        card: SceneCard,
        visible: QRectF,
        scale: float,
        marks: Marks,
    ) -> None:
        now, shapes = tokens(), self._shapes_of(at, card)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if scale >= LINES:
            painter.setPen(_pen(now.faint))
            painter.drawPath(shapes.lines)
            painter.setPen(_pen(now.warn, 2))
            painter.drawPath(shapes.crossing)
        if scale < TITLES and marks.clear is None:
            painter.setPen(Qt.PenStyle.NoPen)
            for colour, areas in shapes.filled.items():
                painter.setBrush(QColor(colour))
                painter.drawRects(areas)
            return
        for place, box in enumerate(card.boxes):
            area = _area(box)
            if visible.intersects(area):
                clear = marks.clear is None or box.number in marks.clear
                self._paint_box(painter, (at, place), box, area, scale, clear)

    def _paint_box(
        self,
        painter: QPainter,
        place: tuple[int, int],
        box: SceneBox,
        area: QRectF,
        scale: float,
        clear: bool,
    ) -> None:
        now, tone = tokens(), self.tone(box.number)
        under = now.canvas
        is_plain = box.kind in ("view", "port")
        if scale < TITLES:
            painter.fillRect(
                area, QColor(mix(tone, under, (0.35 if is_plain else 0.8) * (clear or 0.2)))
            )
            return
        fill = now.canvas if is_plain else mix(tone, now.panel, 0.16 if clear else 0.05)
        style = Qt.PenStyle.DashLine if box.kind == "view" else Qt.PenStyle.SolidLine
        line = now.divider if is_plain or not clear else mix(tone, now.panel, 0.6)
        painter.setPen(_pen(line, 1, style))
        painter.setBrush(QColor(fill))
        radius = area.height() / 2 if box.kind == "port" else RADIUS
        painter.drawRoundedRect(area, radius, radius)
        title, note = self._text_of(place, box)
        if not is_plain:
            self._paint_strip(painter, box, area, tone, clear)
        painter.setPen(QColor(now.text if clear and not is_plain else now.quiet))
        painter.setFont(self._titles)
        left = area.adjusted(STRIP + 7 if not is_plain else 10, 0, -6, 0)
        if scale < NOTES:
            painter.drawText(left, _LEFT, title)
            return
        half = area.height() / 2
        painter.drawText(left.adjusted(0, 3, 0, -half + 3), _LEFT, title)
        painter.setFont(self._notes)
        painter.setPen(QColor(now.quiet))
        painter.drawText(left.adjusted(0, half - 1, 0, -3), _LEFT, note)

    def _paint_strip(
        self, painter: QPainter, box: SceneBox, area: QRectF, tone: str, clear: bool
    ) -> None:
        """At the left the colour in full, with the device's letter where it is a device's."""
        strip = QRectF(area.left() + 1, area.top() + 1, STRIP - 1, area.height() - 2)
        colour = mix(tone, tokens().panel, 1.0 if clear else 0.25)
        painter.fillRect(strip, QColor(colour))
        name = self._coloured.names.get(box.number, "")
        if name in self._devices:
            painter.setFont(self._notes)
            painter.setPen(QColor(readable(colour)))
            painter.drawText(strip, _CENTER, device_look(name).letter)
        elif box.number in self._coloured.wrong:
            painter.setFont(self._titles)
            painter.setPen(QColor(readable(colour)))
            painter.drawText(strip, _CENTER, "!")

    def _paint_marks(
        self, painter: QPainter, shown: Collection[int], scale: float, marks: Marks
    ) -> None:
        now = tokens()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if marks.selected is not None and scale >= LINES:
            painter.setPen(_pen(now.accent, 2))
            for at, place in self._where.get(marks.selected, ()):
                card = self.scene.cards[at]
                for ends, line in zip(card.ends, card.lines, strict=True):
                    if place in ends:
                        painter.drawPath(rounded(line))
        selected = () if marks.selected is None else (marks.selected,)
        for members, tone, width, out in (
            (self._coloured.wrong, now.bad, 3, 3.0),
            (marks.changed, now.bad, 2, 3.0),
            (marks.found, now.warn, 2, 3.0),
            (marks.lit, mix(now.accent, now.canvas, 0.7), 2, 1.0),
            (selected, now.accent, 3, 2.0),
        ):
            painter.setPen(_pen(tone, width))
            for number in members:
                for at, place in self._where.get(number, ()):
                    if at in shown:
                        area = _area(self.scene.cards[at].boxes[place])
                        painter.drawRoundedRect(area.adjusted(-out, -out, out, out), 7, 7)

    # Kept between paintings

    def _shapes_of(self, at: int, card: SceneCard) -> _CardShapes:
        if at not in self._shapes:
            shapes = _CardShapes(QPainterPath(), QPainterPath(), defaultdict(list))
            nodes = self.scene.index.graph.nodes
            for (start, end), line in zip(card.ends, card.lines, strict=True):
                one, other = card.boxes[start].number, card.boxes[end].number
                crosses = (
                    self.scene.shows == "operations" and nodes[one].device != nodes[other].device
                )
                (shapes.crossing if crosses else shapes.lines).addPath(rounded(line))
            for box in card.boxes:
                share = 0.35 if box.kind in ("view", "port") else 0.85
                colour = mix(self.tone(box.number), tokens().canvas, share)
                shapes.filled[colour].append(_area(box))
            self._shapes[at] = shapes
        return self._shapes[at]

    def _title_of(self, at: int, size: int, room: float) -> tuple[str, float]:
        """A card's title in letters of that size, shortened to the room, and its width."""
        if size not in self._heads:
            self._heads[size] = fonts.strong()
            self._heads[size].setPixelSize(size)
        if (at, size) not in self._head_texts:
            metrics = QFontMetricsF(self._heads[size])
            title = self.scene.cards[at].title
            title = metrics.elidedText(title, Qt.TextElideMode.ElideRight, room)
            self._head_texts[at, size] = title, metrics.horizontalAdvance(title) + 14
        return self._head_texts[at, size]

    def _text_of(self, place: tuple[int, int], box: SceneBox) -> tuple[str, str]:
        """Title and note, shortened to the box."""
        if place not in self._texts:
            room = box.width - (STRIP + 13 if box.kind in ("node", "launch") else 16)
            made = [
                QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, room)
                for font, text in ((self._titles, box.title), (self._notes, box.note))
            ]
            self._texts[place] = made[0], made[1]
        return self._texts[place]


def shade(share: float) -> str:
    """The colour of an amount, from 0 to 1 of the largest."""
    return tokens().on("accent", 0.15 + 0.85 * round(share**0.5 * STEPS) / STEPS)


def _area(box: SceneBox) -> QRectF:
    return QRectF(box.x, box.y, box.width, box.height)


def _font(size: float) -> QFont:
    """Monospaced, in the scene's own units."""
    font = fonts.mono()
    font.setPixelSize(round(size))
    return font


@cache
def _pen(colour: str, width: float = 1, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
    """As wide on the screen whatever the scale."""
    pen = QPen(QBrush(QColor(colour)), width, style)
    pen.setCosmetic(True)
    return pen


def marks_of(
    scene: GraphScene,
    selected: Selected,
    number: int | None,
    launch: int | None,
    found: Sequence[int],
    changed: Collection[int],
) -> Marks:
    """`number` is the node that is selected, `launch` the launch, where those are shown."""
    index, graph = scene.index, scene.index.graph
    clear = None
    if selected.split is not None and selected.split < len(graph.splits):
        clear = {i for i, node in enumerate(graph.nodes) if node.split == selected.split}
    elif selected.device is not None and number is None:
        clear = {i for i, node in enumerate(graph.nodes) if node.device == selected.device}
    card = _card(scene, selected.layer) if number is None else None
    weight = weight_of(index, selected)
    reading = index.readers.get(weight, ()) if weight is not None else ()
    if scene.shows == "operations":
        near = reading if number is None else near_of(index, number)
        return Marks(number, card, near, found, changed, clear)
    if launch is None and number is not None:
        launch = graph.nodes[number].launch
    near = _launches(index, reading)
    if launch is not None and launch >= 0:
        near = _near_launch(index, launch)
    into = None if clear is None else _launches(index, clear)
    return Marks(launch, card, near, _launches(index, found), _launches(index, changed), into)


def weight_of(index: GraphIndex, selected: Selected) -> int | None:
    """The weight that is selected, as a node of the graph."""
    return None if selected.tensor is None else index.by_key.get(selected.tensor)


def near_of(index: GraphIndex, number: int) -> Collection[int]:
    """What a node reads and what reads it."""
    return {*index.graph.nodes[number].sources, *index.readers.get(number, ())}


def _near_launch(index: GraphIndex, number: int) -> Collection[int]:
    launches = index.graph.launches
    behind = {i for i, launch in enumerate(launches) if number in launch.sources}
    return {*launches[number].sources, *behind}


def _launches(index: GraphIndex, nodes: Iterable[int]) -> Collection[int]:
    return {index.graph.nodes[node].launch for node in nodes} - {-1}


def _card(scene: GraphScene, layer: int | None) -> int | None:
    """The place of the card with that layer."""
    if layer is None:
        return None
    blocks = scene.index.blocks
    places = (
        at
        for at, card in enumerate(scene.cards)
        if any(blocks[block].layer == layer for block in card.blocks)
    )
    return next(places, None)
