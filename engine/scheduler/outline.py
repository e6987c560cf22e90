"""A plan before it touches a device: who runs what and why, the splits, and every address.

Pure data made from a graph and where its weights and caches lie; it can be kept, compared and
drawn, and gives the size of each device's arena without allocating anything.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from engine.device.backend import Backend, BufferType, Computes, TypeOf
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor
from engine.scheduler.allocate import ArenaLayout, ArenaPlace, Lifetime, allocate
from engine.scheduler.assign import NO_PINS, Assignment, Pins, assign
from engine.scheduler.lifetimes import LoweredSplit, arena_type, timeline
from engine.scheduler.places import Places, is_placed, sources
from engine.scheduler.split import Split, split


def staging_layout(splits: Sequence[Split], kind: BufferType, inputs: int) -> ArenaLayout:
    """Places in one piece of host memory whose first `inputs` bytes hold a step's inputs.

    Time counts splits: a storage stays from the one that made it to the last that it is copied to.
    """
    stays: dict[Tensor, tuple[int, int]] = {}
    for number, part in enumerate(splits):
        for copy in part.copies:
            if copy.staged:
                made = number if copy.made < 0 else copy.made
                first, _ = stays.get(copy.source, (made, number))
                stays[copy.source] = (min(first, made), number)
    lives = [
        Lifetime((storage,), (first,), last, kind.padded(storage.nbytes))
        for storage, (first, last) in stays.items()
    ]
    return allocate(lives, kind.max_size, kind.padded(inputs))


@dataclass(frozen=True)
class Peak:
    """A device's arena at its maximum use: while `node` runs, or None during copies.

    `size` is the whole arena, `bound` the lower bound of every layout, `alive` the bytes that each
    tensor takes then, the largest first; the graph's inputs, where the device reads them, are one.
    """

    node: Tensor | None
    size: int
    bound: int
    alive: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Division:
    """Who runs what and why, and the splits that come of it: an outline without addresses."""

    graph: Graph
    assignments: Mapping[Tensor, Assignment]
    splits: tuple[Split, ...]
    places: Places


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

    @property
    def division(self) -> Division:
        """The same without addresses."""
        splits = tuple(part.split for part in self.splits)
        return Division(self.graph, self.assignments, splits, self.places)

    def place(self, backend: Backend, storage: Tensor) -> ArenaPlace:
        """Where an unplaced storage starts in the backend's arena."""
        if storage in self.input_offsets:
            return ArenaPlace(0, self.input_offsets[storage])
        return self.layouts[backend.name].places[storage]

    def peak(self, backend: Backend) -> Peak:
        """Bytes of the backend's arena in use at its busiest step."""
        layout = self.layouts[backend.name]
        alive = [(life.at(layout.busiest).name, life.size) for life in layout.alive]
        if layout.reserved:
            alive.append(("inputs", layout.reserved))
        node = self.steps[layout.busiest] if layout.alive else None
        alive.sort(key=lambda one: -one[1])
        return Peak(node, layout.peak, layout.bound, tuple(alive))


class Lowerings:
    """Lowered splits of a graph's last outline, by split: many come again in its next."""

    def __init__(self) -> None:
        self._last: dict[Graph, dict[Hashable, LoweredSplit]] = {}

    def of(
        self, division: Division, kept: Sequence[frozenset[Tensor] | None]
    ) -> tuple[LoweredSplit, ...]:
        """Every split lowered, and fused but for `kept` storages, or not where these are None."""
        before = self._last.get(division.graph, {})
        now: dict[Hashable, LoweredSplit] = {}
        for one, outside in zip(division.splits, kept, strict=True):
            types = division.places.types_on(one.backend)
            leaves = [s for n in one.nodes for _, s in sources(n) if is_placed(s.storage)]
            lie = tuple(types(s.storage) for s in leaves)
            key: Hashable = (one.backend, one.nodes, outside, lie)
            known = before.get(key)
            if known is None:
                plain = _lowered(one, types)
                known = plain if outside is None else fused_part(plain, outside)
            now[key] = replace(known, split=one)
        self._last[division.graph] = now
        return tuple(now.values())


def divide(
    graph: Graph,
    backends: Sequence[Backend],
    types: Mapping[Tensor, BufferType],
    pins: Pins = NO_PINS,
    mapped: Collection[Tensor] = (),
) -> Division:
    """Assign and split, as `outline` does. Raises `CannotPlace`."""
    places = Places(backends, types, mapped)
    assignments = assign(graph, places, pins)
    return Division(graph, assignments, split(graph, assignments, places), places)


def outline(
    graph: Graph,
    backends: Sequence[Backend],
    types: Mapping[Tensor, BufferType],
    fused: bool = True,
    pins: Pins = NO_PINS,
    mapped: Collection[Tensor] = (),
    lowerings: Lowerings | None = None,
) -> Outline:
    """Assign, split, lower and allocate. `types` shows where each weight and cache leaf lies;
    `mapped` weights can also be read in the mapped file, by the host. `lowerings` are of outlines
    of the same graph before.

    Unfused, every node's result is produced, as a dump or a comparison wants it. Raises
    `CannotPlace`.
    """
    division = divide(graph, backends, types, pins, mapped)
    places, splits = division.places, division.splits
    outside = kept(graph, splits) if fused else [None] * len(splits)
    lowered = (lowerings or Lowerings()).of(division, outside)
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
        graph, division.assignments, lowered, offsets, block, line.steps, layouts, places, staging
    )


def _lowered(own: Split, types: TypeOf) -> LoweredSplit:
    computes: Computes = {}
    nodes = own.backend.lower(own.nodes, types, computes)
    found = {node: computes.get(node, ()) for node in nodes}
    return LoweredSplit(own, nodes, found, found)


def fused_part(part: LoweredSplit, kept: frozenset[Tensor]) -> LoweredSplit:
    """The split as its backend fuses it, so that these storages are produced."""
    computes = dict(part.unfused)
    nodes = part.split.backend.fuse(tuple(part.unfused), kept, computes)
    return replace(part, nodes=nodes, computes={node: computes.get(node, ()) for node in nodes})


def kept(graph: Graph, splits: Sequence[Split]) -> list[frozenset[Tensor]]:
    """For each split, what it writes and other splits, outputs or effects read: fusion
    leaves them.
    """
    read = [{s.storage for node in one.nodes for _, s in sources(node)} for one in splits]
    readers = Counter(chain.from_iterable(read))
    readers.update({t.storage: 2 for t in (*graph.outputs, *graph.effects)})
    return [
        frozenset(
            node.storage for node in one.nodes if readers[node.storage] > (node.storage in own)
        )
        for one, own in zip(splits, read, strict=True)
    ]


def _input_block(graph: Graph, kinds: Collection[BufferType]) -> tuple[dict[Tensor, int], int]:
    """Offsets of the inputs, aligned for every device, and the end of the last input."""
    offsets, end = {}, 0
    for tensor in graph.inputs:
        offsets[tensor] = end
        end = max(kind.padded(end + tensor.nbytes) for kind in kinds)
    return offsets, end
