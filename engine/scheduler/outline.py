"""A plan before it touches a device: who runs what and why, the splits, and every address.

Pure data made from a graph and where its weights and caches lie; it can be kept, compared and
drawn, and gives the size of each device's arena without allocating anything.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.backends.base import Backend, BufferType, Computes
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor
from engine.scheduler.allocate import ArenaLayout, ArenaPlace, allocate
from engine.scheduler.assign import NO_PINS, Assignment, Pins, assign
from engine.scheduler.lifetimes import LoweredSplit, arena_type, timeline
from engine.scheduler.places import Places
from engine.scheduler.split import Split, split
from engine.scheduler.staging import staging_layout


@dataclass(frozen=True)
class Peak:
    """A device's arena at its maximum use: while `node` runs, or None while copies are made.

    `size` is the whole arena, `bound` the lower bound of every layout, `alive` the bytes that each
    tensor takes then, the largest first; the graph's inputs, where the device reads them, are one.
    """

    node: Tensor | None
    size: int
    bound: int
    alive: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Outline:
    """Assignments, splits and addresses. The first `input_block` bytes of the arena of a device
    that reads inputs hold all of them, at `input_offsets`, so that a step uploads them in one
    piece. `steps` are the lowered nodes in order, None where copies are made. `staging` is host
    memory for the inputs and for what passes from one device to another through the host.
    """

    graph: Graph
    assignments: Mapping[Tensor, Assignment]
    splits: tuple[LoweredSplit, ...]
    input_offsets: Mapping[Tensor, int]
    input_block: int
    steps: tuple[Tensor | None, ...]
    layouts: Mapping[str, ArenaLayout]
    places: Places
    staging: ArenaLayout

    def place(self, backend: Backend, storage: Tensor) -> ArenaPlace:
        """Where an unplaced storage starts in the backend's arena."""
        if storage in self.input_offsets:
            return ArenaPlace(0, self.input_offsets[storage])
        return self.layouts[backend.name].places[storage]

    def peak(self, backend: Backend) -> Peak:
        """What the backend's arena holds at its busiest step."""
        layout = self.layouts[backend.name]
        alive = [(life.at(layout.busiest).name, life.size) for life in layout.alive]
        if layout.reserved:
            alive.append(("inputs", layout.reserved))
        node = self.steps[layout.busiest] if layout.alive else None
        alive.sort(key=lambda one: -one[1])
        return Peak(node, layout.peak, layout.bound, tuple(alive))


def outline(
    graph: Graph,
    backends: Sequence[Backend],
    types: Mapping[Tensor, BufferType],
    fused: bool = True,
    pins: Pins = NO_PINS,
    mapped: Collection[Tensor] = (),
) -> Outline:
    """Assign, split, lower and allocate. `types` tells where each weight and cache leaf lies;
    `mapped` weights can also be read in the mapped file, by the host.

    Unfused, every node's result is produced, as a dump or a comparison wants it. Raises
    `CannotPlace`.
    """
    places = Places(backends, types, mapped)
    assignments = assign(graph, places, pins)
    splits = split(graph, assignments, places)
    plain = [_lowered(part, places) for part in splits]
    lowered = [
        fused_part(part, kept(graph, splits, part.split)) if fused else part for part in plain
    ]
    kinds = {b.name: arena_type(b) for b in backends}
    offsets, block = _input_block(graph, kinds.values())
    readers = {c.target.name for s in splits for c in s.copies if c.source.role is Role.INPUT}
    line = timeline(graph, lowered, places)
    layouts = {
        name: allocate(line.lifetimes[name], kind.max_size, block if name in readers else 0)
        for name, kind in kinds.items()
    }
    staging = staging_layout(splits, arena_type(places.host), block)
    return Outline(
        graph, assignments, tuple(lowered), offsets, block, line.steps, layouts, places, staging
    )


def _lowered(own: Split, places: Places) -> LoweredSplit:
    computes: Computes = {}
    nodes = own.backend.lower(own.nodes, places.types_on(own.backend), computes)
    found = {node: computes.get(node, ()) for node in nodes}
    return LoweredSplit(own, nodes, found, found)


def fused_part(part: LoweredSplit, kept: frozenset[Tensor]) -> LoweredSplit:
    """The split as its backend fuses it, so that these storages are produced."""
    computes = dict(part.unfused)
    nodes = part.split.backend.fuse(tuple(part.unfused), kept, computes)
    return replace(part, nodes=nodes, computes={node: computes.get(node, ()) for node in nodes})


def kept(graph: Graph, splits: Sequence[Split], own: Split) -> frozenset[Tensor]:
    """Storages that other splits, outputs or effects read: fusion leaves them."""
    read = [t.storage for t in (*graph.outputs, *graph.effects)]
    for other in splits:
        if other is not own:
            read += [s.storage for node in other.nodes for s in node.src if s is not None]
    return frozenset(read)


def _input_block(graph: Graph, kinds: Collection[BufferType]) -> tuple[dict[Tensor, int], int]:
    """Offsets of the inputs, aligned for every device, and the end of the last input."""
    offsets, end = {}, 0
    for tensor in graph.inputs:
        offsets[tensor] = end
        end = max(kind.padded(end + tensor.nbytes) for kind in kinds)
    return offsets, end
