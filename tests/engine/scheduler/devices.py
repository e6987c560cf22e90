"""Devices to schedule on: the host's code under other names, each refusing some operations."""

from collections.abc import Collection

from engine.backends.base import (
    Backend,
    Component,
    Location,
    MemoryPool,
    Owner,
    TypeOf,
)
from engine.backends.host.backend import HostBackend
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Tensor
from engine.scheduler.assign import Assignment, assign


class Device(HostBackend):
    """A device that computes as the host does, in memory of its own, but not every operation."""

    is_host = False

    def __init__(self, name: str, refuses: Collection[Op] = (), room: int = 64 << 20) -> None:
        super().__init__(MemoryPool(name, room))
        self.name = name
        self.refuses = frozenset(refuses)

    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        return node.op not in self.refuses and super().supports(node, type_of)


def host() -> HostBackend:
    """The host, with a pool of its own."""
    return HostBackend(MemoryPool("host", 64 << 20))


def place(tensor: Tensor, backend: Backend) -> Location:
    """Room for a leaf on a backend."""
    kind = backend.buffer_type(tensor.fmt, tensor.shape)
    size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
    return Location(backend.allocate(kind, size, Owner(Component.WEIGHTS)), 0)


def placements(graph: Graph, backends: list[Backend], where: dict[Tensor, Backend]) -> dict:
    """The assignment of each node, by the node's name: (backend's name, cause)."""
    types = {t: b.buffer_type(t.fmt, t.shape) for t, b in where.items()}
    made: dict[Tensor, Assignment] = assign(graph, backends, types)
    return {node.name: (a.backend.name, a.cause) for node, a in made.items()}
