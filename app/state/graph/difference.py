"""How two graphs of one model differ: a step of one token and one of many, or before a pin and
after it.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from app.language import tr
from app.state.graph.blocks import NUMBERED, GraphIndex
from engine.protocol import GraphDone


@dataclass(frozen=True)
class GraphChange:
    """The cost of another graph: nodes that change their device, splits, and bytes copied between
    devices in a step, each before and after.
    """

    moved: tuple[str, ...]
    splits: tuple[int, int]
    copied: tuple[int, int]


def difference(a: GraphIndex, b: GraphIndex) -> dict[int, str]:
    """The nodes of `a` that are not the same in `b`, and in which way."""
    others = dict(zip(_keys(b), range(len(b.graph.nodes)), strict=True))
    found = {}
    for number, key in enumerate(_keys(a)):
        node = a.graph.nodes[number]
        if node.role != "":
            continue
        if key not in others:
            found[number] = tr("only here")
            continue
        other = b.graph.nodes[others[key]]
        if node.device != other.device:
            found[number] = tr("on {device} there", device=other.device)
        elif (ran := _launched(a, number)) != (there := _launched(b, others[key])):
            found[number] = tr(
                "{there} there, {ran} here", there=", ".join(there), ran=", ".join(ran)
            )
    return found


def change(before: GraphIndex, after: GraphIndex) -> GraphChange:
    """Compare the graphs before and after a change of pins."""
    moved = [
        before.graph.nodes[number].name
        for number, how in difference(before, after).items()
        if how.startswith("on ")
    ]
    splits = len(before.graph.splits), len(after.graph.splits)
    return GraphChange(tuple(moved), splits, (copied(before.graph), copied(after.graph)))


def copied(graph: GraphDone) -> int:
    """Bytes that go between devices in a step."""
    return sum(c.size for split in graph.splits for c in split.copies if c.origin is not None)


def _launched(index: GraphIndex, number: int) -> tuple[str, ...]:
    """The kernels of a node's launch, and how many nodes they make together."""
    node = index.graph.nodes[number]
    if node.launch < 0:
        return ()
    launch = index.graph.launches[node.launch]
    return (
        *launch.kernels,
        *([tr("of {nodes}", nodes=len(launch.nodes))] if len(launch.nodes) > 1 else []),
    )


def _keys(index: GraphIndex) -> list[Hashable]:
    """The same for the same node of two graphs: what has no name is counted in its layer."""
    counts: Counter[Hashable] = Counter()
    found: list[Hashable] = []
    for node in index.graph.nodes:
        name = node.op if NUMBERED.match(node.name) else node.name
        key: Hashable = (node.layer, name, node.op)
        found.append((key, counts[key]))
        counts[key] += 1
    return found
