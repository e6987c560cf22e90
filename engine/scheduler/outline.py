"""A plan before it touches a device: who runs what and why, the splits, and every address.

Pure data made from a graph and where its weights and caches lie; it can be kept, compared and
drawn, and gives the size of each device's arena without allocating anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.backends.base import Backend, BufferType
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor
from engine.scheduler.allocate import Layout, Lifetime, allocate
from engine.scheduler.assign import Assignment, assign
from engine.scheduler.split import Split, split

ALIGNMENT = 256


@dataclass(frozen=True)
class LoweredSplit:
    """A split, and its nodes as the backend runs them (fused, helpers inserted)."""

    split: Split
    nodes: tuple[Tensor, ...]


@dataclass(frozen=True)
class Outline:
    """Assignments, splits and addresses. `input_block` bytes at every arena's start hold the
    graph's inputs at `input_offsets`, so that a step uploads them to a device in one piece.
    """

    graph: Graph
    assignments: Mapping[Tensor, Assignment]
    splits: tuple[LoweredSplit, ...]
    input_offsets: Mapping[Tensor, int]
    input_block: int
    layouts: Mapping[str, Layout]

    def arena_size(self, backend: Backend) -> int:
        """Bytes the backend needs for inputs, intermediate results and copies."""
        return self.input_block + self.layouts[backend.name].peak

    def offset(self, backend: Backend, storage: Tensor) -> int:
        """Where an unplaced storage starts in the backend's arena."""
        if storage in self.input_offsets:
            return self.input_offsets[storage]
        return self.input_block + self.layouts[backend.name].offsets[storage]


def outline(
    graph: Graph,
    backends: Sequence[Backend],
    types: Mapping[Tensor, BufferType],
    fused: bool = True,
) -> Outline:
    """Assign, split, lower and allocate. `types` tells where each weight and cache leaf lies.

    Unfused, every node's result is produced, as a dump or a comparison wants it.
    """
    by_name = {b.name: b for b in backends}
    assignments = assign(graph, backends, types)
    splits = split(graph, assignments, lambda t: by_name[types[t].device] if t in types else None)
    lowered = tuple(
        LoweredSplit(
            s, s.backend.lower(s.nodes, types.get, _kept(graph, splits, s) if fused else None)
        )
        for s in splits
    )
    offsets, block = _input_block(graph)
    lifetimes = _lifetimes(graph, lowered, types)
    layouts = {b.name: allocate(lifetimes.get(b.name, ()), ALIGNMENT) for b in backends}
    return Outline(graph, assignments, lowered, offsets, block, layouts)


def _kept(graph: Graph, splits: Sequence[Split], own: Split) -> frozenset[Tensor]:
    """Storages of a split that are read outside of it."""
    read = [t.storage for t in (*graph.outputs, *graph.effects)]
    for other in splits:
        if other is not own:
            read += [s.storage for node in other.nodes for s in node.src if s is not None]
    return frozenset(read)


def _input_block(graph: Graph) -> tuple[dict[Tensor, int], int]:
    offsets, end = {}, 0
    for tensor in graph.inputs:
        offsets[tensor] = end
        end += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


def _lifetimes(
    graph: Graph, splits: Sequence[LoweredSplit], types: Mapping[Tensor, BufferType]
) -> dict[str, list[Lifetime]]:
    """Per backend, the storages that need an address. Time counts lowered nodes in run order."""
    born: dict[tuple[str, Tensor], int] = {}
    dies: dict[tuple[str, Tensor], int] = {}
    now = 0

    def touch(backend: Backend, tensor: Tensor) -> None:
        storage = tensor.storage
        if storage.role is Role.INPUT or types.get(storage, _NOWHERE).device == backend.name:
            return
        born.setdefault((backend.name, storage), now)
        dies[backend.name, storage] = now

    for part in splits:
        for copy in part.split.copies:
            touch(copy.target, copy.source)
            if copy.origin is not None:
                touch(copy.origin, copy.source)
        for node in part.nodes:
            now += 1
            touch(part.split.backend, node)
            for source in node.src:
                if source is not None:
                    touch(part.split.backend, source)
    made = {node.storage: p.split.backend.name for p in splits for node in p.nodes}
    for output in graph.outputs:
        dies[made[output.storage], output.storage] = now + 1
    found: dict[str, list[Lifetime]] = {}
    for (name, storage), first in born.items():
        life = Lifetime(storage, storage.nbytes, first, dies[name, storage])
        found.setdefault(name, []).append(life)
    return found


_NOWHERE = BufferType("", "", 1, 0)
