"""The scene of a graph: a card for each block (or group of identical blocks) with its boxes."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.state.graph.blocks import GraphBlock, GraphIndex, plain_name, shape_text, title_of
from app.state.graph.layout import HEIGHT, LaidOut, Point, lay_out

Shows = Literal["operations", "launches"]
Kind = Literal["node", "view", "port", "launch"]

LETTER, SMALL_LETTER = 7.3, 6.4  # pixels of the monospaced font's letters, and of the small one's
LEAST, MOST, INSIDE = 84.0, 340.0, 31.0  # widths of boxes, and what they leave free
HEAD, EDGE, APART = 40.0, 16.0, 56.0  # of cards: the title's height, the margin, the distance
ASPECT = 1.3  # width to height of all cards together


@dataclass(frozen=True)
class SceneBox:
    """`number` is that of a node, of a port the node's that comes from another block, or of a
    launch.
    """

    x: float
    y: float
    width: float
    kind: Kind
    number: int
    title: str
    note: str

    @property
    def height(self) -> float:
        return HEIGHT


@dataclass(frozen=True)
class SceneCard:
    """Blocks that are alike, of which block `shown` is drawn. `lines` lead from source to reader.

    `boxes` and `lines` are in the coordinates of the whole scene.
    """

    x: float
    y: float
    width: float
    height: float
    blocks: range
    shown: int
    title: str
    note: str
    boxes: tuple[SceneBox, ...]
    lines: tuple[tuple[Point, ...], ...]
    ends: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GraphScene:
    """All cards from left to right, in rows."""

    index: GraphIndex
    shows: Shows
    cards: tuple[SceneCard, ...]
    width: float
    height: float


class SceneMaker:
    """Makes scenes and keeps the layout of each kind of block, so that the next one is quick."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, LaidOut] = {}

    def make(
        self, index: GraphIndex, shows: Shows, collapsed: bool, chosen: Sequence[int] = ()
    ) -> GraphScene:
        """Blocks that are alike are one card if `collapsed`; it shows the one that is `chosen`,
        or its first.
        """
        runs = index.runs(shows == "launches")
        if not collapsed:
            runs = [range(i, i + 1) for i in range(len(index.blocks))]
        drawn = []
        for run in runs:
            shown = next((i for i in chosen if i in run), run.start)
            drawn.append((run, shown, self._inside(index, index.blocks[shown], shows)))
        sizes = [(laid.width + 2 * EDGE, laid.height + HEAD + EDGE) for _, _, (_, laid, _) in drawn]
        places, width, height = _in_rows([(max(w, 200.0), h) for w, h in sizes])
        cards = [
            _card(index, run, shown, inside, place, (max(size[0], 200.0), size[1]))
            for (run, shown, inside), place, size in zip(drawn, places, sizes, strict=True)
        ]
        return GraphScene(index, shows, tuple(cards), width, height)

    def _inside(
        self, index: GraphIndex, block: GraphBlock, shows: Shows
    ) -> tuple[list[SceneBox], LaidOut, list[tuple[int, int]]]:
        """A block's boxes at no place yet, their layout, and the edges between them."""
        if shows == "launches":
            boxes = [_launch_box(index, number) for number in block.launches]
            place = {box.number: i for i, box in enumerate(boxes)}
            edges = [
                (place[source], i)
                for i, box in enumerate(boxes)
                for source in index.graph.launches[box.number].sources
                if source in place
            ]
            key: Hashable = (shows, tuple(round(box.width) for box in boxes), tuple(edges))
        else:
            ports = [_node_box(index, number, "port") for number in index.outside(block)]
            boxes = ports + [_node_box(index, number) for number in block.nodes]
            place = {box.number: i for i, box in enumerate(boxes)}
            edges = [
                (place[source], i)
                for i, box in enumerate(boxes)
                if box.kind != "port"
                for source in index.graph.nodes[box.number].sources
                if source in place
            ]
            key = (shows, index.structure(block), len(ports))
        if key not in self._kept:
            self._kept[key] = lay_out([box.width for box in boxes], edges)
        return boxes, self._kept[key], edges


def _card(
    index: GraphIndex,
    run: range,
    shown: int,
    inside: tuple[list[SceneBox], LaidOut, list[tuple[int, int]]],
    place: Point,
    size: Point,
) -> SceneCard:
    boxes, laid, ends = inside
    left = place[0] + (size[0] - laid.width) / 2
    top = place[1] + HEAD
    moved = tuple(
        SceneBox(left + x, top + y, box.width, box.kind, box.number, box.title, box.note)
        for box, (x, y) in zip(boxes, laid.places, strict=True)
    )
    lines = tuple(tuple((left + x, top + y) for x, y in line) for line in laid.lines)
    block = index.blocks[shown]
    first, last = index.blocks[run.start], index.blocks[run[-1]]
    title = block.title
    if len(run) > 1:
        title = f"layers {first.layer} – {last.layer}"
    nodes = [index.graph.nodes[n] for n in block.nodes]
    operations = sum(node.role == "" for node in nodes)
    note = f"{operations} operations in {len(block.launches)} launches"
    return SceneCard(*place, *size, run, shown, title, note, moved, lines, tuple(ends))


def _node_box(index: GraphIndex, number: int, kind: Kind | None = None) -> SceneBox:
    node = index.graph.nodes[number]
    title = title_of(node)
    if kind == "port":
        note = f"from {index.blocks[index.block_of[number]].title}"
        letters = len(plain_name(node)) + 3, len("from output block")
    else:
        kind = "view" if node.role == "view" else "node"
        note = f"{node.op}  {shape_text(node)}  {node.dtype}"
        letters = len(plain_name(node)) + 3, len(f"{node.op}  {shape_text(node)}  ") + 4
    return SceneBox(0, 0, _width(*letters), kind, number, title, note)


def _launch_box(index: GraphIndex, number: int) -> SceneBox:
    launch = index.graph.launches[number]
    named = [title_of(index.graph.nodes[n]) for n in launch.nodes] or [launch.name]
    note = ", ".join(named)
    return SceneBox(0, 0, _width(len(launch.op), len(note) + 2), "launch", number, launch.op, note)


def _width(letters: int, small: int) -> float:
    return min(max(letters * LETTER, small * SMALL_LETTER, LEAST) + INSIDE, MOST)


def _in_rows(sizes: Sequence[Point]) -> tuple[list[Point], float, float]:
    """Places from left to right in rows, all together about ASPECT times as wide as high."""
    area = sum((w + APART) * (h + APART) for w, h in sizes)
    limit = max((area * ASPECT) ** 0.5, max((w for w, _ in sizes), default=0.0))
    places: list[Point] = []
    x = y = tallest = widest = 0.0
    for width, height in sizes:
        if x and x + width > limit:
            x, y, tallest = 0.0, y + tallest + APART, 0.0
        places.append((x, y))
        x += width + APART
        tallest, widest = max(tallest, height), max(widest, x - APART)
    return places, widest, y + tallest
