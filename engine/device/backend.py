"""The interface between the scheduler and the devices: buffers, backends, memory pools (pool.py).

A backend runs nodes on one device. It owns no policy: who computes what, and where bytes lie, is
decided by the scheduler.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.device.pool import KEPT as KEPT
from engine.device.pool import Component as Component
from engine.device.pool import MemoryPool as MemoryPool
from engine.device.pool import Owner as Owner
from engine.errors import NotSupported
from engine.gguf.formats import Format
from engine.graph.tensor import Shape, Tensor

Bytes = NDArray[np.uint8]
Made = TypeVar("Made", bound="Buffer")
PLAIN = "plain"
REPACKED = "repacked"
"""Layouts: as in the file; and with more bits an element. Others are for backends to name."""


@dataclass(frozen=True, slots=True)
class BufferType:
    """How one device lays bytes out: `plain` as in the file, others only for matmul weights."""

    device: str
    layout: str
    alignment: int
    max_size: int
    is_host: bool = False

    def padded(self, size: int) -> int:
        """`size` bytes rounded up to the alignment."""
        return -(-size // self.alignment) * self.alignment


class Upload(NamedTuple):
    """A weight to be filled: where, and its GGUF blocks [rows, row bytes]."""

    to: "Location"
    fmt: Format
    shape: Shape
    blocks: Bytes


class Event(ABC):
    """Something that was queued on a device."""

    @abstractmethod
    def wait(self) -> None:
        """Until it is done. Raises `NoMem`, `DeviceError`."""

    @abstractmethod
    def span(self) -> tuple[int, int]:
        """From when to when it ran, in time.perf_counter_ns(); requested once it is done."""


@dataclass(frozen=True, slots=True)
class Done(Event):
    """An event of work that was over when the call returned."""

    start: int
    end: int

    def wait(self) -> None:
        pass

    def span(self) -> tuple[int, int]:
        return self.start, self.end


class Buffer(ABC):
    """A run of bytes on a device."""

    type: BufferType
    size: int
    owner: Owner

    @abstractmethod
    def write(self, offset: int, data: Bytes) -> None:
        """Copy `data` to byte `offset`; done when it returns."""

    @abstractmethod
    def read(self, offset: int, size: int) -> Bytes:
        """A copy of `size` bytes from `offset`, after everything queued before."""

    @abstractmethod
    def start_write(self, offset: int, data: Bytes) -> Event:
        """Like `write`, but `data` must stay unchanged until the event is done."""

    @abstractmethod
    def start_read(self, offset: int, into: Bytes) -> Event:
        """Fill `into` from byte `offset`, after everything queued before; done with the event."""

    def mark(self) -> Event:
        """The end of everything queued before on this buffer's device."""
        raise NotSupported(f"marking the queue of {self.type.device}")

    def start_copy(self, offset: int, source: "Location", size: int, after: Event) -> Event:
        """Copy straight from a buffer of a device that this one's backend reaches, `after` a mark
        there. That device's next command waits for the copy.
        """
        raise NotSupported(f"a copy on {self.type.device} without the host")

    def view(self, offset: int, size: int) -> Bytes:
        """The bytes themselves; only of this process's memory."""
        raise NotSupported(f"touching the memory of {self.type.device}")

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
    """The most a device does: bytes read and 32-bit float operations (FMA is two) per second."""

    bytes_per_s: float
    flops_per_s: float


Spans = NDArray[np.int64]
"""[2, launches]: when each began and when it ended, in time.perf_counter_ns()."""


class Commands(ABC):
    """Compiled nodes, ready to be run any number of times. Owns every buffer it names."""

    launched: tuple[tuple[Tensor, str], ...]
    """The node and the kernel of each launch, in the order they are queued."""

    @abstractmethod
    def run(self) -> None:
        """Queue everything in order; may return before it is done."""

    @abstractmethod
    def run_recorded(self) -> Callable[[], Spans]:
        """Like `run`; the result gives the times of each of `launched` once the device is done."""


Where = Callable[[Tensor], Location]
TypeOf = Callable[[Tensor], BufferType | None]
Computes = dict[Tensor, tuple[Tensor, ...]]
"""For a lowered node the nodes of the graph that it computes, or helps to."""


class KernelCall(NamedTuple):
    """One launch of a lowered node: `kernel` as in `Ran`, and what its program is built with."""

    kernel: str
    defines: str = ""


class Backend(ABC):
    """Runs nodes on one device. `name` is its spelling for people: `intel:0`, `pocl:1`, `host`.

    One that `chooses` finds the best of a row before the host reads it, so that little is read.
    `budget` is the most bytes that it may hold, within what its pool allows; None is all of that.
    `is_integrated` says that it is a GPU in the system's RAM, `compiles_late` that its driver may
    compile or allocate when a kernel is first run. `packing` names the bytes that this version of
    the program makes of weights, where buffers of them are this process's memory: such may be kept
    from one run to the next.
    """

    name: str
    pool: MemoryPool
    is_host: bool = False
    is_integrated: bool = False
    chooses: bool = False
    compiles_late: bool = False
    budget: int | None = None
    packing: str = ""

    @property
    def used(self) -> int:
        """Bytes that this device's live buffers hold."""
        return self.pool.used_by(self.name)

    def claim(
        self, kind: BufferType, size: int, owner: Owner, pool: MemoryPool | None = None
    ) -> None:
        """Record an allocation in the pool, or for a dry run in another one.

        Raises `NoMem` where it passes the pool's limit, the budget, or what one buffer holds.
        """
        pool = pool or self.pool
        budget = None if self.budget is None else self.budget - pool.used_by(self.name)
        for left, detail in (
            (pool.left, ""),
            (budget, f"by the budget of {self.name}"),
            (kind.max_size, "one buffer holds no more"),
        ):
            if left is not None and size > left:
                pool.refuse(self.name, owner, size, left, detail)
        pool.take(self.name, owner, size)

    def claimed(self, kind: BufferType, size: int, owner: Owner, make: Callable[[], Made]) -> Made:
        """Claim memory and return what `make` allocates in it; if that fails, the pool has the
        claim back. Raises `NoMem` as `claim`, and what `make` raises.
        """
        self.claim(kind, size, owner)
        try:
            return make()
        except BaseException:
            self.pool.give_back(self.name, owner, size)
            raise

    @abstractmethod
    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        """The layout this device stores such a tensor in.

        `matmul_only` says that every use is the unviewed first operand of a matmul, so that a
        layout which only matmul can read is allowed.
        """

    @abstractmethod
    def allocation_size(self, buffer_type: BufferType, fmt: Format, shape: Shape) -> int:
        """Bytes a tensor takes in that layout, padding included, a multiple of the alignment."""

    @abstractmethod
    def allocate(
        self, buffer_type: BufferType, size: int, owner: Owner, zeros: bool = True
    ) -> Buffer:
        """New memory; raises `NoMem` by the pool's limit or the driver's word. Without `zeros` it
        holds anything, and may not be touched yet: a caller of that fills it at once.
        """

    def adopt(self, buffer: Buffer) -> bool:
        """Take over a buffer of an earlier backend of this device, with its claim; or say that it
        is of no use here.
        """
        return False

    def hold(self, kind: BufferType, data: Bytes, owner: Owner) -> Buffer:
        """A buffer of memory that holds already what it is to hold, claimed as by `allocate`; it is
        only read from here on. Raises `NoMem`, `DeviceError`.
        """
        raise NotSupported(f"buffers of given memory on {self.name}")

    def map(self, data: Bytes) -> Location:
        """Use mapped file bytes in place, nothing allocated; only where `is_host`."""
        raise NotSupported(f"mapping a file on {self.name}")

    def reads(self, kind: BufferType, size: int) -> bool:
        """True if nodes here can read so many bytes of that type where they lie, without a copy."""
        return kind.device == self.name

    def share(self, at: Location) -> Location:
        """A view of memory that this device `reads`, under its own handle; no copy."""
        return at

    def reaches(self, other: "Backend") -> bool:
        """True if this device copies from the other's buffers without the host."""
        return False

    @abstractmethod
    def upload(self, weights: Iterable[Upload]) -> Generator[int, None, None]:
        """Fill weights, converting to their buffers' layouts. Yields, in order, how many bytes of
        blocks went through; nobody reads those any more. A pass that is closed early leaves
        nothing under way. Raises `NoMem`, `DeviceError`, `KernelBuildFailed`.
        """

    @abstractmethod
    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        """True if the device can run this node; `type_of` shows where placed leaves lie."""

    @abstractmethod
    def lower(
        self,
        nodes: Sequence[Tensor],
        type_of: TypeOf,
        computes: Computes | None = None,
    ) -> tuple[Tensor, ...]:
        """The nodes as this device runs them, helpers inserted. Pure data, no memory.

        What became of which node is put into `computes`; a helper computes none.
        """

    @abstractmethod
    def fuse(
        self, lowered: Sequence[Tensor], kept: frozenset[Tensor], computes: Computes | None = None
    ) -> tuple[Tensor, ...]:
        """Lowered nodes, several made into one where a launch can compute them together.

        `kept` are the storages that are read outside of these nodes: each is still produced under
        its own tensor. What only these nodes read may vanish into a fused one, which takes over
        what they have in `computes`.
        """

    @abstractmethod
    def calls(self, node: Tensor, type_of: TypeOf) -> Sequence[KernelCall]:
        """The launches of a lowered node, in order, as data."""

    def in_place(self, node: Tensor) -> Collection[int]:
        """Positions of the sources in whose place a lowered node may write its result.

        That is, when each element of one would lie where the other's does: nothing is read any
        more that was written. Several sources may lie there together.
        """
        return ()

    @abstractmethod
    def compile(self, nodes: Sequence[Tensor], where: Where) -> Commands:
        """Commands for lowered nodes whose storages lie where `where` says."""

    @abstractmethod
    def watch_builds(self, progress: Callable[[int, int], None]) -> None:
        """Call `progress` with (built, wanted) while kernels are built, from now on."""

    def measure(self, wanted: bool) -> None:  # noqa: B027  nothing to do where it is no slower
        """Keep the times of what is queued from now on, which `run_recorded` and the spans of
        events need, or no longer; what was queued before has ended.
        """

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
