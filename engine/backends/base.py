"""The interface between the scheduler and the devices: buffers, backends, memory pools.

A backend runs nodes on one device. It owns no policy: who computes what, and where bytes lie, is
decided by the scheduler and told to it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from engine.errors import NoMem, NotSupported
from engine.gguf.formats import Format
from engine.graph.tensor import Shape, Tensor

Bytes = NDArray[np.uint8]
PLAIN = "plain"


class Component(StrEnum):
    """What an allocation is for; the columns of the memory records."""

    WEIGHTS = "weights"
    CACHE = "cache"
    GRAPH = "graph"
    INPUT = "input"
    VISION = "vision"
    STAGING = "staging"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose bytes these are. `layer` counts from 0, the output block is `block_count`."""

    component: Component
    layer: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class BufferType:
    """How one device lays bytes out: `plain` as in the file, others only for matmul weights."""

    device: str
    layout: str
    alignment: int
    max_size: int
    is_host: bool = False


@dataclass
class MemoryPool:
    """RAM that devices share. Refuses by its own limit: a driver's yes proves nothing."""

    name: str
    limit: int
    taken: dict[tuple[str, Owner], int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """Bytes that live allocations hold."""
        return sum(self.taken.values())

    def take(self, device: str, owner: Owner, size: int) -> None:
        """Record an allocation; `NoMem` when it would pass the limit."""
        left = self.limit - self.used
        if size > left:
            raise NoMem(device, _describe(owner), size, left)
        key = (device, owner)
        self.taken[key] = self.taken.get(key, 0) + size

    def give_back(self, device: str, owner: Owner, size: int) -> None:
        """Forget an allocation that was freed."""
        key = (device, owner)
        rest = self.taken.get(key, 0) - size
        if rest > 0:
            self.taken[key] = rest
        else:
            self.taken.pop(key, None)


def _describe(owner: Owner) -> str:
    where = "" if owner.layer is None else f" of layer {owner.layer}"
    return f"{owner.component}{where}{' ' + owner.name if owner.name else ''}"


class Buffer(ABC):
    """A run of bytes on a device."""

    type: BufferType
    size: int

    @abstractmethod
    def write(self, offset: int, data: Bytes) -> None:
        """Copy `data` to byte `offset`; done when it returns."""

    @abstractmethod
    def read(self, offset: int, size: int) -> Bytes:
        """A copy of `size` bytes from `offset`, after everything queued before."""

    @abstractmethod
    def free(self) -> None:
        """Give the memory back; harmless when done twice."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a tensor's storage starts."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class Ran:
    """One launch of `kernel` for `node`, from `start` to `end` in time.perf_counter_ns()."""

    node: Tensor
    kernel: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Roof:
    """The most a device does: bytes read and 32-bit float operations (FMA is two) a second."""

    bytes_per_s: float
    flops_per_s: float


class Commands(ABC):
    """Compiled nodes, ready to be run any number of times. Owns every buffer it names."""

    @abstractmethod
    def run(self) -> None:
        """Queue everything in order; may return before it is done."""

    @abstractmethod
    def run_recorded(self) -> Callable[[], list[Ran]]:
        """As `run`; what is returned tells what ran and when, once the device is done with it."""


Where = Callable[[Tensor], Location]
TypeOf = Callable[[Tensor], BufferType | None]


class Backend(ABC):
    """Runs nodes on one device. `name` is its spelling for people: `intel:0`, `pocl:1`, `host`."""

    name: str
    pool: MemoryPool
    is_host: bool = False

    @abstractmethod
    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        """The layout this device stores such a tensor in.

        `matmul_only` says that every use is the unviewed first operand of a mulmat, so that a
        layout which only mulmat can read is allowed.
        """

    @abstractmethod
    def allocation_size(self, buffer_type: BufferType, fmt: Format, shape: Shape) -> int:
        """Bytes a tensor takes in that layout, padding included, a multiple of the alignment."""

    @abstractmethod
    def allocate(self, buffer_type: BufferType, size: int, owner: Owner) -> Buffer:
        """New memory; raises `NoMem` by the pool's limit or the driver's word."""

    def map(self, data: Bytes) -> Location:
        """Use mapped file bytes in place, nothing allocated; only where `is_host`."""
        raise NotSupported(f"mapping a file on {self.name}")

    @abstractmethod
    def upload(self, to: Location, fmt: Format, shape: Shape, blocks: Bytes) -> None:
        """Write GGUF blocks [rows, row_bytes], converting to the buffer type's layout."""

    @abstractmethod
    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        """Whether the device can run this node; `type_of` tells where placed leaves lie."""

    @abstractmethod
    def lower(
        self, nodes: Sequence[Tensor], type_of: TypeOf, kept: frozenset[Tensor] | None = None
    ) -> tuple[Tensor, ...]:
        """The nodes as this device runs them: fused, helpers inserted. Pure data, no memory.

        `kept` are the storages that are read outside of these nodes: each is still produced under
        its own tensor. What only these nodes read may vanish into a fused one; with None nothing
        may.
        """

    @abstractmethod
    def compile(self, nodes: Sequence[Tensor], where: Where) -> Commands:
        """Commands for lowered nodes whose storages lie where `where` says."""

    @abstractmethod
    def watch_builds(self, progress: Callable[[int, int], None]) -> None:
        """Tell `progress` (built, wanted) while kernels are built, from now on."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything queued is done; raises `DeviceError` if something failed."""

    def roof(self) -> Roof | None:
        """Measured now, with a large buffer of its own; None where there is nothing to measure.

        Raises `NoMem`.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Release the device."""
