"""Exact memory of loading a model: the same code as loading, without device memory."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.device.backend import Backend, BufferType, Component, MemoryPool, Owner
from engine.errors import BadSetting, NoMem
from engine.graph.graph import Graph, is_numbered
from engine.graph.tensor import Role, Tensor
from engine.memory.placement import Placement
from engine.memory.records import BackendMemory, Status
from engine.models.build import BuiltModel
from engine.patterns import placing
from engine.protocol import MemoryRow
from engine.runner.placing.graphs import ModelGraphs
from engine.scheduler.allocate import ArenaLayout
from engine.scheduler.assign import Pins
from engine.scheduler.lifetimes import arena_type
from engine.scheduler.outline import Division, Outline, Peak, divide, outline
from engine.weights.load import Allocation, plan_weights

Types = dict[Tensor, BufferType]
"""Where weights and caches lie."""


@dataclass(frozen=True)
class WantedBuffer:
    """One buffer to be allocated."""

    backend: Backend
    kind: BufferType
    size: int
    owner: Owner


@dataclass(frozen=True)
class DryRun:
    """Every buffer that a model requests under a placement, in the order of loading.

    `backends` are those with something to do, by priority, the host last; `devices` the names of
    all that there are. `mapped` weights stay in the file, on the host; `pins` are nodes by name.
    `peaks` show what the arenas hold.
    """

    graphs: ModelGraphs
    placement: Placement
    backends: tuple[Backend, ...]
    devices: tuple[str, ...]
    weights: tuple[Allocation, ...]
    caches: tuple[Allocation, ...]
    mapped: tuple[tuple[Tensor, Owner], ...]
    pins: Pins
    arenas: tuple[WantedBuffer, ...]
    peaks: tuple[tuple[Backend, Peak], ...]

    @property
    def built(self) -> BuiltModel:
        return self.graphs.built

    @property
    def main(self) -> Backend:
        """The device that holds the most layers, the output block being one."""
        counts = Counter(self.placement.layers)
        return max(self.backends, key=lambda b: counts[b.name])

    def backend_of(self, tensor: Tensor) -> Backend:
        """Where a weight lies."""
        return _backend(self.backends, self.placement, self.built, tensor)

    def one_token(self) -> Division:
        """Who runs what in a decode step with an empty cache."""
        return divide(self.graphs.one_token, *self._given())

    def outline(self, graph: Graph) -> Outline:
        """Outline the plan of a graph of this model."""
        backends, types, pins, mapped = self._given()
        return outline(graph, backends, types, pins=pins, mapped=mapped)

    def _given(
        self,
    ) -> tuple[Sequence[Backend], Types, Pins, Collection[Tensor]]:
        """Return the inputs that all outlines share."""
        types = _types(self.backends[-1], (*self.weights, *self.caches), self.mapped)
        return self.backends, types, self.pins, self.built.sources.keys()

    def wanted(self) -> Iterator[WantedBuffer]:
        """Every buffer, in order."""
        for one in (*self.weights, *self.caches):
            yield WantedBuffer(one.backend, one.type, one.size, one.owner)
        yield from self.arenas

    def memory(self) -> BackendMemory:
        """The records before anything is allocated."""
        host = self.backends[-1].name
        rows = [
            MemoryRow(w.backend.name, owner.component, owner.layer, size, Status.UNALLOCATED)
            for w in self.wanted()
            for owner, size in w.owner.parts(w.size)
        ]
        rows += [
            MemoryRow(host, owner.component, owner.layer, tensor.nbytes, Status.MAPPED)
            for tensor, owner in self.mapped
        ]
        return BackendMemory.of(rows, self.devices, self.built.n_layer)

    def refused(self) -> NoMem | None:
        """The first allocation that limits and budgets would refuse, in pools that are empty."""
        pools = {id(b.pool): MemoryPool(b.pool.name, b.pool.limit) for b in self.backends}
        try:
            for wanted in self.wanted():
                pool = pools[id(wanted.backend.pool)]
                wanted.backend.claim(wanted.kind, wanted.size, wanted.owner, pool)
        except NoMem as refused:
            return refused
        return None

    def fixed(self) -> dict[str, list[int]]:
        """Bytes per layer that patterns put on each device."""
        sizes = {b.name: [0] * (self.built.n_layer + 1) for b in self.backends}
        for one in self.weights:
            if one.owner.layer is not None:
                sizes[one.backend.name][one.owner.layer] += sum(
                    size for t, size in one.tensors if self.placement.override(t.name)
                )
        for tensor, owner in self.mapped:
            if owner.layer is not None and self.placement.override(tensor.name):
                sizes[self.backends[-1].name][owner.layer] += tensor.nbytes
        return sizes


def dry_run(graphs: ModelGraphs, backends: tuple[Backend, ...], placement: Placement) -> DryRun:
    """Where every byte goes; allocates nothing."""
    host, built = backends[-1], graphs.built
    placed = {_backend(backends, placement, built, tensor) for tensor in built.sources}
    named = {*placement.layers, *(device for _, device in placement.overrides)}
    placed |= {b for b in backends if b.name in named}
    used = tuple(b for b in backends if b is host or b in placed)
    mapped = tuple(
        (tensor, built.owners[tensor])
        for tensor in built.sources
        if _backend(used, placement, built, tensor) is host
    )
    weights = plan_weights(
        built.sources,
        lambda tensor: _backend(used, placement, built, tensor),
        built.owners.__getitem__,
        graphs.tiled,
    )
    caches = _caches(built, used, placement)
    types = _types(host, (*weights, *caches), mapped)
    worst = graphs.worst
    assert all(t.role is Role.INPUT or t in types for graph in worst for t in graph.leaves)
    pins = _pins(built, used, placement, worst[0])
    mapped_too = built.sources.keys()
    outlines = [
        outline(g, used, types, pins=pins, mapped=mapped_too, lowerings=graphs.lowerings)
        for g in worst
    ]
    names = tuple(b.name for b in backends)
    return DryRun(
        graphs,
        placement,
        used,
        names,
        tuple(weights),
        caches,
        mapped,
        pins,
        tuple(_arenas(outlines, used)),
        tuple((b, max((one.peak(b) for one in outlines), key=lambda p: p.size)) for b in used),
    )


def _pins(
    built: BuiltModel, backends: Sequence[Backend], placement: Placement, graph: Graph
) -> dict[Tensor | str, Backend]:
    """Nodes named by patterns that match no weight. Raises `BadSetting` if one matches nothing."""
    weights = [t.name for t, owner in built.owners.items() if owner.layer is not None]
    by_name = {b.name: b for b in backends}
    pins: dict[Tensor | str, Backend] = {}
    for pattern, device in placement.overrides:
        if any(placing(pattern).is_in(name) for name in weights):
            continue
        names = [node.name for node in graph.nodes if not is_numbered(node.name)]
        named = [name for name in names if placing(pattern).is_in(name)]
        if not named:
            expected = "layers, out, or a pattern that matches a layer's weight or a node"
            raise BadSetting("--place", pattern, expected)
        pins |= {name: by_name[device] for name in named if name not in pins}
    return pins


def _arenas(outlines: Sequence[Outline], backends: Sequence[Backend]) -> Iterator[WantedBuffer]:
    """Yield the buffers that a planner allocates for graphs that share their arenas."""
    for backend in backends:
        for size, name in _chunks([one.layouts[backend.name] for one in outlines]):
            owner = Owner(Component.GRAPH, name=name)
            yield WantedBuffer(backend, arena_type(backend), size, owner)
    host = backends[-1]
    for size, _ in _chunks([one.staging for one in outlines]):
        yield WantedBuffer(host, arena_type(host), size, Owner(Component.STAGING))


def _chunks(layouts: Sequence[ArenaLayout]) -> list[tuple[int, str]]:
    """Size and name of each chunk: the largest over all layouts that have it."""
    pairs = (zip(layout.chunks, layout.names, strict=True) for layout in layouts)
    return [max(same) for same in zip_longest(*pairs, fillvalue=(0, ""))]


def _backend(
    backends: tuple[Backend, ...], placement: Placement, built: BuiltModel, tensor: Tensor
) -> Backend:
    device = placement.device_of(tensor.name, built.owners[tensor].layer)
    return next((b for b in backends if b.name == device), backends[-1])


def _caches(
    built: BuiltModel, backends: tuple[Backend, ...], placement: Placement
) -> tuple[Allocation, ...]:
    """Each layer's cache is on the layer's device."""
    by_name = {b.name: b for b in backends}
    return tuple(
        Allocation(home, kind, owner, ((tensor, size),))
        for i in range(built.n_layer + 1)
        for home in (by_name[placement.layers[i]],)
        for tensor, owner in built.kept_by(i)
        for kind in (home.buffer_type(tensor.fmt, tensor.shape),)
        for size in (home.allocation_size(kind, tensor.fmt, tensor.shape),)
    )


def _types(
    host: Backend, allocations: tuple[Allocation, ...], mapped: tuple[tuple[Tensor, Owner], ...]
) -> Types:
    types = {t: a.type for a in allocations for t, _ in a.tensors}
    return types | {t: host.buffer_type(t.fmt, t.shape) for t, _ in mapped}
