"""The scene of a graph: a card for each block (or group of identical blocks) with its boxes; steps
along its edges; its export as JSON and DOT; pins of its nodes (^ffn_inp-3$=pocl:0).
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from app.language import tr
from app.state.graph.blocks import (
    NUMBERED,
    GraphBlock,
    GraphIndex,
    key_of,
    plain_name,
    shape_text,
    title_of,
)
from app.state.graph.layout import HEIGHT, LaidOut, Point, lay_out
from engine.protocol import GraphDone, GraphNode

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
        title = tr("layers {layer} – {layer2}", layer=first.layer, layer2=last.layer)
    nodes = [index.graph.nodes[n] for n in block.nodes]
    operations = sum(node.role == "" for node in nodes)
    note = tr(
        "{operations} operations in {launches} launches",
        operations=operations,
        launches=len(block.launches),
    )
    return SceneCard(*place, *size, run, shown, title, note, moved, lines, tuple(ends))


def _node_box(index: GraphIndex, number: int, kind: Kind | None = None) -> SceneBox:
    node = index.graph.nodes[number]
    title = title_of(node)
    if kind == "port":
        note = tr("from {title}", title=index.blocks[index.block_of[number]].title)
        letters = len(plain_name(node)) + 3, len(tr("from output block"))
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


def as_json(graph: GraphDone) -> str:
    """Everything that the engine sent."""
    made = msgspec.to_builtins(graph)
    del made["id"]
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode()


def as_dot(index: GraphIndex) -> str:
    """A cluster for each block; lines from source to reader, dashed where they change device."""
    graph = index.graph
    lines = ["digraph model {", "  node [shape=box, fontname=monospace];"]
    for at, block in enumerate(index.blocks):
        lines += [f"  subgraph cluster_{at} {{", f"    label={_text(block.title)};"]
        for number in block.nodes:
            node = graph.nodes[number]
            label = f"{title_of(node)}\n{node.op} {shape_text(node)} {node.dtype}\n{node.device}"
            tip = f"{key_of(node)}: {node.why}"
            style = ", style=dashed" if node.role == "view" else ""
            lines.append(f"    n{number} [label={_text(label)}, tooltip={_text(tip)}{style}];")
        lines.append("  }")
    for number in index.block_of:
        node = graph.nodes[number]
        for source in node.sources:
            if source in index.block_of:
                crosses = graph.nodes[source].device != node.device
                style = " [style=dashed, color=red]" if crosses else ""
                lines.append(f"  n{source} -> n{number}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _text(text: str) -> str:
    """A string of DOT: what a model named its tensors is not taken for markup."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def along(index: GraphIndex, number: int | None, way: int) -> int | None:
    """The first node that reads this one (1), or the first that it reads (-1); no leaf. Walking
    begins with the first node.
    """
    if number is None:
        return next(iter(index.block_of), None)
    near = index.readers.get(number, []) if way > 0 else index.graph.nodes[number].sources
    return next((node for node in near if node in index.block_of), None)


def along_launches(index: GraphIndex, number: int, way: int) -> int | None:
    """Like `along`, for launches: the first that reads it, or the last that it reads."""
    launches = index.graph.launches
    if way > 0:
        return next((i for i, launch in enumerate(launches) if number in launch.sources), None)
    return next(reversed(launches[number].sources), None)


def same_place(index: GraphIndex, number: int | None, way: int) -> int | None:
    """The node at this one's place in the block before (-1) or behind (1)."""
    if number is None:
        return along(index, number, way)
    at = index.block_of.get(number)
    if at is None or not 0 <= at + way < len(index.blocks):
        return None
    here, there = index.blocks[at].nodes, index.blocks[at + way].nodes
    return there[min(here.index(number), len(there) - 1)]


def cyclic(found: list[int], number: int | None, way: int) -> int | None:
    """The next of what was found, round and round."""
    if not found:
        return None
    if number not in found:
        return found[0 if way > 0 else -1]
    return found[(found.index(number) + way) % len(found)]


def launch_of(index: GraphIndex, number: int, now: int | None) -> int | None:
    """A launch of a node: the present one if it is one of them, else the last."""
    mine = [i for i, launch in enumerate(index.graph.launches) if number in launch.nodes]
    return now if now in mine else (mine[-1] if mine else None)


_PLAIN = re.compile(r"[\w\-]+")


def can_pin(node: GraphNode) -> bool:
    """Return whether a rule can name the node: an operation with a plain name from the model."""
    named = NUMBERED.match(node.name) is None and _PLAIN.fullmatch(node.name) is not None
    return node.role == "" and named


def part_of(name: str) -> str:
    """The pattern that names a node and nothing else."""
    return f"^{name}$"


def pinned(rule: str, name: str) -> str | None:
    """Where a rule pins a node by its own name; None where it does not."""
    for part in rule.split(","):
        pattern, _, device = part.strip().rpartition("=")
        if pattern == part_of(name):
            return device
    return None


def with_pin(rule: str, name: str, device: str | None) -> str:
    """The rule with this pin in place of another of the same node; None takes it away."""
    kept = [part for part in rule.split(",") if part and not _is_of(part, name)]
    if device is not None:
        kept.append(f"{part_of(name)}={device}")
    return ",".join(kept)


def _is_of(part: str, name: str) -> bool:
    return part.strip().rpartition("=")[0] == part_of(name)
