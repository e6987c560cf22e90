"""Runs of nodes on one backend, and what each run needs from elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.backends.base import Backend
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS
from engine.graph.tensor import Role, Tensor
from engine.scheduler.assign import Assignment


@dataclass(frozen=True)
class Copy:
    """A storage brought to a backend once per run, before the first split that reads it there."""

    source: Tensor
    origin: Backend | None  # None: a graph input, uploaded with the step's others
    target: Backend

    @property
    def name(self) -> str:
        """The copy's name, `device#tensor`."""
        return f"{self.target.name}#{self.source.name}"


@dataclass(frozen=True)
class Split:
    """Consecutive nodes on one backend, and the copies made before they run."""

    backend: Backend
    nodes: tuple[Tensor, ...]
    copies: tuple[Copy, ...]


def split(
    graph: Graph,
    assignments: Mapping[Tensor, Assignment],
    home: Callable[[Tensor], Backend | None],
) -> tuple[Split, ...]:
    """Cut the graph where the backend changes; one copy per (storage, backend) in the whole plan.

    `home` tells where a placed leaf (weight, cache) lies; None for graph inputs.
    """
    copied: set[tuple[Tensor, str]] = set()
    splits = []
    for backend, nodes in _runs(graph, assignments):
        copies = []
        for storage in _foreign(nodes, backend, assignments, home):
            if (storage, backend.name) not in copied:
                copied.add((storage, backend.name))
                origin = None if storage.role is Role.INPUT else _home(storage, assignments, home)
                copies.append(Copy(storage, origin, backend))
        splits.append(Split(backend, tuple(nodes), tuple(copies)))
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
    nodes: Sequence[Tensor],
    backend: Backend,
    assignments: Mapping[Tensor, Assignment],
    home: Callable[[Tensor], Backend | None],
) -> dict[Tensor, None]:
    found: dict[Tensor, None] = {}
    for node in nodes:
        for source in node.src:
            if source is not None and _home(source.storage, assignments, home) is not backend:
                found[source.storage] = None
    return found


def _home(
    storage: Tensor,
    assignments: Mapping[Tensor, Assignment],
    home: Callable[[Tensor], Backend | None],
) -> Backend | None:
    made = assignments.get(storage)
    return made.backend if made is not None else home(storage)
