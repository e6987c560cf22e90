"""Where a model's bytes go: decided and priced before anything is allocated."""

from dataclasses import dataclass

from engine.backends.base import Backend, BufferType, Component, Owner
from engine.graph.tensor import Role, Tensor
from engine.models.build import BuiltModel
from engine.protocol import MemoryRow
from engine.runner.stepper import MAX_BATCH
from engine.scheduler.outline import outline
from engine.weights.load import Allocation, matmul_only, plan_weights


@dataclass(frozen=True)
class Placement:
    """Every buffer a model will ask for. `mapped` weights stay in the file, on the host."""

    backends: tuple[Backend, ...]
    weights: tuple[Allocation, ...]
    caches: tuple[Allocation, ...]
    mapped: tuple[Tensor, ...]
    arenas: dict[str, int]

    def backend_of(self, tensor: Tensor) -> Backend:
        """Mapped weights lie on the host, all else on the device."""
        return self.backends[-1] if tensor in self.mapped else self.backends[0]

    def rows(self) -> list[MemoryRow]:
        """What is planned, in the shape of the memory records."""
        rows = [
            MemoryRow(a.backend.name, a.owner.component, a.owner.layer, a.size, "planned")
            for a in (*self.weights, *self.caches)
        ]
        rows += [
            MemoryRow(name, Component.GRAPH, None, size, "planned")
            for name, size in self.arenas.items()
            if size
        ]
        return rows + self.mapped_rows()

    def mapped_rows(self) -> list[MemoryRow]:
        """The file's pages that the host reads in place."""
        size = sum(t.nbytes for t in self.mapped)
        host = self.backends[-1].name
        return [MemoryRow(host, Component.INPUT, None, size, "mapped")] if size else []


def place(built: BuiltModel, backends: tuple[Backend, ...]) -> Placement:
    """The embedding on the host, everything else on the first backend. Allocates nothing."""
    device, host = backends[0], backends[-1]
    embedding = built.model.weights.embedding.weight
    mapped = tuple(t for t in built.sources if device.is_host or t is embedding)
    _, graph = built.build(1, 1, built.buckets([0] * len(built.caches.caches)))
    tiled = matmul_only(graph)
    on_device = [t for t in built.sources if t not in mapped]
    weights = plan_weights(on_device, lambda _: device, built.layer_of, tiled)
    caches = tuple(
        Allocation(device, kind, Owner(Component.CACHE, i), ((tensor, size),))
        for i, layer in enumerate(built.layers)
        for tensor in (layer.k, layer.v)
        for kind in (device.buffer_type(tensor.fmt, tensor.shape),)
        for size in (device.allocation_size(kind, tensor.fmt, tensor.shape),)
    )
    types = {t: a.type for a in (*weights, *caches) for t, _ in a.tensors}
    types |= {t: host.buffer_type(t.fmt, t.shape) for t in mapped}
    arenas = _arenas(built, backends, types)
    return Placement(backends, tuple(weights), caches, mapped, arenas)


def _arenas(
    built: BuiltModel, backends: tuple[Backend, ...], types: dict[Tensor, BufferType]
) -> dict[str, int]:
    _, graph = built.build(MAX_BATCH, 1, tuple(c.n_cells for c in built.caches.caches))
    assert all(t.role is Role.INPUT or t in types for t in graph.leaves)
    made = outline(graph, backends, types)
    return {b.name: made.arena_size(b) for b in backends}
