"""Runs of nodes on one backend, and what each run needs from elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.backends.base import Backend
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.scheduler.assign import Assignment
from engine.scheduler.places import Places, is_placed, sources


@dataclass(frozen=True)
class Copy:
    """A storage brought to a backend before the first split that reads it there, and again only
    where something has written it since. `made` is the split that wrote it last, -1 where it lies
    there from the start.
    """

    source: Tensor
    origin: Backend | None  # None: a graph input, uploaded with the step's others
    target: Backend
    made: int = -1

    @property
    def name(self) -> str:
        """The copy's name, `device#tensor`."""
        return f"{self.target.name}#{self.source.name}"

    @property
    def staged(self) -> bool:
        """Whether it needs memory of the host on its way."""
        if self.origin is None or self.origin.is_host or self.target.is_host:
            return False
        return not self.target.reaches(self.origin)


@dataclass(frozen=True)
class Split:
    """Consecutive nodes on one backend, and the copies made before they run."""

    backend: Backend
    nodes: tuple[Tensor, ...]
    copies: tuple[Copy, ...]


def split(
    graph: Graph, assignments: Mapping[Tensor, Assignment], places: Places
) -> tuple[Split, ...]:
    """Cut the graph where the backend changes; one copy per (storage, backend) in the whole plan,
    unless the storage is written in between.
    """
    owners: dict[Tensor, Backend] = {}
    written: dict[Tensor, int] = {}
    copied: dict[tuple[Tensor, Backend], int] = {}
    splits = []
    for number, (backend, nodes) in enumerate(_runs(graph, assignments)):
        copies = []
        for storage in _foreign(nodes, backend, owners, places):
            made = written.get(storage, -1)
            if copied.get((storage, backend)) != made:
                copied[storage, backend] = made
                origin = owners.get(storage) or places.origin(storage)
                copies.append(Copy(storage, origin, backend, made))
        splits.append(Split(backend, tuple(nodes), tuple(copies)))
        for node in nodes:
            owners[node.storage] = backend
            written[node.storage] = number
    return tuple(splits)


def _runs(
    graph: Graph, assignments: Mapping[Tensor, Assignment]
) -> list[tuple[Backend, list[Tensor]]]:
    runs: list[tuple[Backend, list[Tensor]]] = []
    for node in graph.nodes:
        if node.op in VIEW_OPS:
            continue
        backend = assignments[node].backend
        if not runs or runs[-1][0] is not backend:
            runs.append((backend, []))
        runs[-1][1].append(node)
    return runs


def _foreign(
    nodes: Sequence[Tensor], backend: Backend, owners: Mapping[Tensor, Backend], places: Places
) -> dict[Tensor, None]:
    """What a run reads and does not make, and its backend does not find in place."""
    made = {node.storage for node in nodes if node.storage.role is Role.NONE}
    found: dict[Tensor, None] = {}
    for node in nodes:
        for _, source in sources(node):
            storage = source.storage
            if storage in made or owners.get(storage) is backend:
                continue
            if not is_placed(storage) or places.readable(storage, backend) is None:
                found[storage] = None
    return found
