"""Which backend runs which node, and why. Pure data: the graph is never changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.backends.base import Backend, BufferType
from engine.errors import NotSupported
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor


@dataclass(frozen=True, slots=True)
class Assignment:
    """A node's backend and the rule that chose it, in the field's words (`1.wgt0`, `2.src1`)."""

    backend: Backend
    cause: str


def assign(
    graph: Graph, backends: Sequence[Backend], types: Mapping[Tensor, BufferType]
) -> dict[Tensor, Assignment]:
    """An assignment for every node. `backends` by priority, the host last.

    Nodes run where their weight or cache lies (`1.`), else where an input was computed, unless
    that is the host, which only takes what it must (`2.`), else on the best device (`3.`). What
    a device refuses goes to the first that can (`3.sup`); `NotSupported` for a write in place.
    """
    by_name = {b.name: b for b in backends}
    chosen: dict[Tensor, Assignment] = {}
    for node in graph.nodes:
        if node.op in VIEW_OPS:
            continue
        wanted = (
            _located(node, types, by_name)
            or _from_sources(node, chosen)
            or Assignment(backends[0], "3.best")
        )
        if not wanted.backend.supports(node, types.get):
            if wanted.cause == "1.vsrc":  # Another device would write into a copy.
                raise NotSupported(f"{node.op} into {node.storage.name} on {wanted.backend.name}")
            wanted = next(
                Assignment(b, "3.sup") for b in backends if b.is_host or b.supports(node, types.get)
            )
        chosen[node] = wanted
    return chosen


def _located(
    node: Tensor, types: Mapping[Tensor, BufferType], by_name: Mapping[str, Backend]
) -> Assignment | None:
    if node.root is not None and node.root in types:
        return Assignment(by_name[types[node.root].device], "1.vsrc")
    for i, source in enumerate(node.src):
        if source is not None and source.role is Role.WEIGHT and source in types:
            return Assignment(by_name[types[source].device], f"1.wgt{i}")
    for i, source in enumerate(node.src):
        if source is not None and source.storage.role is Role.CACHE:
            return Assignment(by_name[types[source.storage].device], f"1.src{i}")
    return None


def _from_sources(node: Tensor, chosen: Mapping[Tensor, Assignment]) -> Assignment | None:
    for i, source in enumerate(node.src):
        made = chosen.get(source.storage) if source is not None else None
        if made is not None and not made.backend.is_host:
            return Assignment(made.backend, f"2.src{i}")
    return None
