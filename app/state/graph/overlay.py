"""Colours of the nodes of a graph: by device, by type, or by an amount such as time or bytes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.state.graph.blocks import GraphIndex, is_leaf
from app.state.graph.errors import NodeError, launch_errors
from app.state.graph.scene import Shows

Overlay = Literal["device", "type", "bytes", "time", "error"]
OVERLAYS: dict[Overlay, str] = {
    "device": "Device",
    "type": "Type",
    "bytes": "Bytes moved",
    "time": "Time",
    "error": "Error",
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
