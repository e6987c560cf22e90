"""Runs of nodes on one backend, and what each run needs from elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.device.backend import Backend
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
        """True if the copy goes through host memory."""
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
    """Cut the graph where the backend changes, where it would have to wait for more than it did at
    the start of the split, and behind the graph's pauses. One copy per (storage, backend) in the
    whole plan, unless the storage is written in between.
    """
    cutter, pauses = _Cutter(places), frozenset(graph.pauses)
    for node in graph.nodes:
        if node.op not in VIEW_OPS:
            cutter.add(node, assignments[node].backend)
            cutter.is_open = node not in pauses
    return tuple(Split(r.backend, tuple(r.nodes), tuple(r.copies)) for r in cutter.runs)


@dataclass
class _Run:
    """A split being built; it waits for split number `waits`, or for none (-1)."""

    backend: Backend
    nodes: list[Tensor] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    waits: int = -1


class _Cutter:
    """Who wrote each storage last, in which split, and what of it each backend has. More may go
    into the last split while that `is_open`.
    """

    def __init__(self, places: Places) -> None:
        self.runs: list[_Run] = []
        self.is_open = False
        self._places = places
        self._owners: dict[Tensor, Backend] = {}
        self._made: dict[Tensor, int] = {}
        self._there: dict[tuple[Tensor, Backend], int] = {}

    def add(self, node: Tensor, backend: Backend) -> None:
        """The next node goes into the last split, or opens another."""
        wanted = self._missing(node, backend)
        latest = max((made for made in wanted.values()), default=-1)
        run = self.runs[-1] if self.is_open else None
        if run is None or run.backend is not backend or latest > run.waits:
            run = _Run(backend, waits=latest)
            self.runs.append(run)
        for storage, made in wanted.items():
            self._there[storage, backend] = made
            origin = self._owners.get(storage) or self._places.origin(storage)
            assert origin is not None or storage.role is Role.INPUT, f"{storage} is on no device"
            run.copies.append(Copy(storage, origin, backend, made))
        run.nodes.append(node)
        self._owners[node.storage] = backend
        self._made[node.storage] = self._there[node.storage, backend] = len(self.runs) - 1

    def _missing(self, node: Tensor, backend: Backend) -> dict[Tensor, int]:
        """The sources that the backend does not have yet, each with the split that wrote it."""
        found = {}
        for _, source in sources(node):
            storage = source.storage
            in_place = is_placed(storage) and self._places.readable(storage, backend) is not None
            made = self._made.get(storage, -1)
            if not in_place and self._there.get((storage, backend)) != made:
                found[storage] = made
        return found
