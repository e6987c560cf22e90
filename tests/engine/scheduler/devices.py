"""Devices to schedule on: the host's code under other names, each refusing some operations."""

from collections.abc import Collection
from dataclasses import replace

from engine.backends.host.backend import HostBackend
from engine.device.backend import (
    Backend,
    BufferType,
    Component,
    Location,
    MemoryPool,
    Owner,
    TypeOf,
)
from engine.gguf.formats import Format
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Shape, Tensor
from engine.scheduler.assign import NO_PINS, Assignment, Pins, assign
from engine.scheduler.places import Places


class Device(HostBackend):
    """A device that computes as the host does, in memory of its own, but not every operation.

    A buffer of it holds `most` bytes. `sees_host`: it reads the host's memory in place, as a
    processor's driver does.
    """

    is_host = False

    def __init__(
        self,
        name: str,
        refuses: Collection[Op] = (),
        room: int = 64 << 20,
        sees_host: bool = False,
        most: int = 1 << 40,
    ) -> None:
        super().__init__(MemoryPool(name, room))
        self.name = name
        self.most = most
        self.refuses = frozenset(refuses)
        self.sees_host = sees_host

    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        kind = super().buffer_type(fmt, shape, matmul_only)
        return replace(kind, max_size=min(self.most, kind.max_size))

    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        return node.op not in self.refuses and super().supports(node, type_of)

    def reads(self, kind: BufferType, size: int) -> bool:
        return kind.device == self.name or (self.sees_host and kind.is_host)


def host() -> HostBackend:
    """The host, with a pool of its own."""
    return HostBackend(MemoryPool("host", 64 << 20))


def place(tensor: Tensor, backend: Backend) -> Location:
    """Room for a leaf on a backend."""
    kind = backend.buffer_type(tensor.fmt, tensor.shape)
    size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
    return Location(backend.allocate(kind, size, Owner(Component.WEIGHTS)), 0)


def types_of(where: dict[Tensor, Backend]) -> dict[Tensor, BufferType]:
    """The types of leaves that lie on these backends."""
    return {t: b.buffer_type(t.fmt, t.shape) for t, b in where.items()}


def placements(
    graph: Graph,
    backends: list[Backend],
    where: dict[Tensor, Backend],
    pins: Pins = NO_PINS,
    mapped: Collection[Tensor] = (),
) -> dict[str, tuple[str, str]]:
    """The assignment of each node, by the node's name: (backend's name, cause)."""
    places = Places(backends, types_of(where), mapped)
    made: dict[Tensor, Assignment] = assign(graph, places, pins)
    return {node.name: (a.backend.name, a.cause) for node, a in made.items()}
