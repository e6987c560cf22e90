"""Colours of a graph's nodes: by device, by type, by an amount such as time or bytes, or by the
results of a comparison with the host.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, log10
from typing import Literal

from app.language import tr
from app.state.graph.blocks import GraphIndex, is_leaf
from app.state.graph.scene import Shows
from engine.protocol import ComparedResult

DECADES = 6  # below what is allowed, from which on an error counts as none


@dataclass(frozen=True)
class NodeError:
    """The error of a node's result, or where that is not `own`, of the next one it leads to."""

    row: ComparedResult
    own: bool

    @property
    def deviates(self) -> bool:
        return bool(self.row.problem)

    @property
    def share(self) -> float:
        """From 0, a millionth of what is allowed or less, to 1, all of it or more; by decades."""
        if self.deviates or not isfinite(self.row.error):
            return 1.0
        if self.row.error <= 0 or self.row.most <= 0:
            return 0.0
        return min(1.0, max(0.0, 1 + log10(self.row.error / self.row.most) / DECADES))


def result_key(row: ComparedResult) -> str:
    """Return the result's name as in a selection, with "#occurrence" unless that is 0."""
    return row.name if row.occurrence == 0 else f"{row.name}#{row.occurrence}"


def node_errors(index: GraphIndex, rows: Iterable[ComparedResult]) -> Mapping[int, NodeError]:
    """By node, for the rows of one step; what leads to no result has none.

    Rows written into a cache are the result of the nodes that write there.
    """
    nodes = index.graph.nodes
    own: dict[int, ComparedResult] = {}
    for row in rows:
        number = index.by_key.get(result_key(row))
        if number is not None:
            own[number] = row
            if nodes[number].role == "cache":
                own |= dict.fromkeys(_writers(index, number), row)
    leads: dict[int, int] = {}
    for number in range(len(nodes) - 1, -1, -1):
        if number in own:
            leads[number] = number
        else:
            ends = (leads[reader] for reader in index.readers.get(number, ()) if reader in leads)
            end = min(ends, default=None)
            if end is not None and nodes[number].role in ("", "view"):
                leads[number] = end
    return {number: NodeError(own[end], number == end) for number, end in leads.items()}


def _writers(index: GraphIndex, cache: int) -> Iterator[int]:
    """Yield the nodes that write rows into a cache."""
    readers = index.readers.get(cache, ())
    return (reader for reader in readers if index.graph.nodes[reader].op == "set_rows")


def launch_errors(index: GraphIndex, errors: Mapping[int, NodeError]) -> Mapping[int, NodeError]:
    """By launch: that of its own results one, the worst before others; else what it leads to."""
    found: dict[int, NodeError] = {}
    for number, launch in enumerate(index.graph.launches):
        mine = [errors[node] for node in launch.nodes if node in errors]
        if mine:
            found[number] = max(mine, key=lambda e: (e.own, e.deviates, e.share))
    return found


def error_text(row: ComparedResult) -> str:
    """The error of a result and what is allowed, or what else is wrong with it."""
    if not row.problem or row.problem.startswith("NMSE"):
        return tr("NMSE {error:.2g}, at most {most:.2g}", error=row.error, most=row.most)
    return row.problem


Overlay = Literal["device", "type", "bytes", "time", "error"]
OVERLAYS: dict[Overlay, str] = {
    "device": tr("Device"),
    "type": tr("Type"),
    "bytes": tr("Bytes moved"),
    "time": tr("Time"),
    "error": tr("Error"),
}

NOT_COMPARED: Mapping[int, NodeError] = {}


@dataclass(frozen=True)
class Coloured:
    """By the number of a box: the name of a device or a type, or an amount with the largest; those
    that deviate from the host are `wrong`.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    amounts: Mapping[int, float] = field(default_factory=dict)
    most: float = 0.0
    wrong: Collection[int] = ()

    def share(self, number: int) -> float | None:
        """How much of the largest amount, from 0 to 1; None where nothing is known."""
        amount = self.amounts.get(number)
        return None if amount is None or self.most <= 0 else amount / self.most


def coloured(
    index: GraphIndex,
    shows: Shows,
    overlay: Overlay,
    launch_ns: Mapping[int, int],
    errors: Mapping[int, NodeError] = NOT_COMPARED,
) -> Coloured:
    """Colour all nodes, or all launches. `errors` are those of nodes."""
    graph = index.graph
    launched = shows == "launches"
    if overlay == "device":
        of_launches = (launch.device for launch in graph.launches)
        of_nodes = (node.device for node in graph.nodes)
        return Coloured(names=dict(enumerate(of_launches if launched else of_nodes)))
    if overlay == "type":
        types = {i: node.dtype for i, node in enumerate(graph.nodes) if not is_leaf(node)}
        if launched:
            makes = {i: launch.nodes for i, launch in enumerate(graph.launches) if launch.nodes}
            types = {i: types[nodes[-1]] for i, nodes in makes.items()}
        return Coloured(names=types)
    if overlay == "error":
        found = launch_errors(index, errors) if launched else errors
        shares = {number: error.share for number, error in found.items()}
        wrong = {number for number, error in found.items() if error.own and error.deviates}
        return Coloured(amounts=shares, most=1.0, wrong=wrong)
    amounts = (
        dict(launch_ns)
        if overlay == "time"
        else dict(enumerate(launch.bytes for launch in graph.launches))
    )
    if shows == "operations":  # a fused node's amount is that of its launch
        amounts = {
            number: amounts[node.launch]
            for number, node in enumerate(graph.nodes)
            if node.launch in amounts
        }
    return Coloured(amounts=amounts, most=max(amounts.values(), default=0))
