"""An OpenCL device as a backend: one context, one in-order queue, programs built when needed."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from threading import Lock
from types import MappingProxyType

import numpy as np

from engine.backends.opencl.buffers import OpenCLBuffer, Queue, driver_error
from engine.backends.opencl.commands import OpenCLCommands, prepare
from engine.backends.opencl.drivers.device import Device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.launch import COUNTERS, Launch, Shared
from engine.backends.opencl.launches import KERNEL_FAMILIES, launches_of
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import IN_PLACE, lower
from engine.backends.opencl.packing import BlockSource, InPlace, Packer, Staged, packing
from engine.backends.opencl.pages import LargePages, has_fresh_pages
from engine.backends.opencl.program import ProgramKey, Programs
from engine.backends.opencl.roof import measure
from engine.backends.opencl.shared import PAGE, FilledBuffer, shared
from engine.backends.opencl.tiles import layouts
from engine.device.backend import (
    PLAIN,
    Backend,
    Buffer,
    BufferType,
    Bytes,
    Computes,
    KernelCall,
    Location,
    Owner,
    Roof,
    TypeOf,
    Upload,
    Where,
)
from engine.errors import DeviceError
from engine.gguf.formats import F32, Format
from engine.graph.tensor import Shape, Tensor
from engine.memory.pools import SYSTEM

COMPILES_EARLY = "intel:"
"""The family of drivers for whose built programs the first run is as any other."""


class OpenCLBackend(Backend):
    """A device with its queue."""

    def __init__(
        self,
        device: Device,
        budget: int | None = None,
        context: cl.Context | None = None,
        programs: Programs | None = None,
    ) -> None:
        """In a context of its own unless one is given, with its programs. Raises `DeviceError`."""
        self.info = device.info
        self.name, self.title = device.info.name, device.info.title
        self.pool = device.memory_pool()
        self.budget = budget
        self._traits = device.info.traits
        self._progress: Callable[[int, int], None] | None = None
        self._large_pages = LargePages() if self._traits.is_cpu and has_fresh_pages() else None
        self.packing = packing() if self._large_pages is not None else ""
        self.compiles_late = not (self._traits.is_cpu and self.name.startswith(COMPILES_EARLY))
        self.chooses = not self._traits.is_cpu
        self.is_integrated = self.pool.name == SYSTEM and not self._traits.is_cpu
        try:
            self.context = context or cl.Context([device.handle])
            self.queue = Queue(self.context, device.handle, pins=not self._traits.is_cpu)
            self._memory_of = {Shared.COUNTERS: _zeros(self.context, 4 * COUNTERS)}
        except cl.Error as error:
            raise cannot_open(self.name, error) from None
        self.programs = programs or Programs(self.context, self.name, device.handle)

    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        layout = layouts.layout_for(fmt, shape, self._traits) if matmul_only else PLAIN
        return BufferType(self.name, layout, self.info.alignment, self.info.max_allocation)

    def allocation_size(self, buffer_type: BufferType, fmt: Format, shape: Shape) -> int:
        if buffer_type.layout == PLAIN:
            size = fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]
        else:
            size = layouts.nbytes(buffer_type.layout, fmt, shape)
        return buffer_type.padded(size)

    def allocate(
        self, buffer_type: BufferType, size: int, owner: Owner, zeros: bool = True
    ) -> OpenCLBuffer:
        # Memory of its own is only there once it is used, and a fit may still look elsewhere.
        touched = zeros or self.pool.name != SYSTEM
        arguments = (self.queue, self.pool, buffer_type, size, owner, touched, self._large_pages)
        return self.claimed(buffer_type, size, owner, partial(OpenCLBuffer, *arguments))

    def hold(self, kind: BufferType, data: Bytes, owner: Owner) -> FilledBuffer:
        assert self.packing
        made = partial(FilledBuffer, self.queue, self.pool, kind, data, owner)
        return self.claimed(kind, data.size, owner, made)

    def adopt(self, buffer: Buffer) -> bool:
        ours = isinstance(buffer, OpenCLBuffer) and buffer.memory.context == self.context
        if isinstance(buffer, OpenCLBuffer) and ours:
            buffer.queue = self.queue
        return ours

    def reads(self, kind: BufferType, size: int) -> bool:
        in_our_ram = kind.is_host and kind.layout == PLAIN and self._traits.is_cpu
        return kind.device == self.name or (in_our_ram and size + PAGE <= self.info.max_allocation)

    def share(self, at: Location) -> Location:
        return shared(self.queue, self.buffer_type(F32, (1, 1, 1, 1)), at)

    def reaches(self, other: Backend) -> bool:
        return isinstance(other, OpenCLBackend) and other.context == self.context

    def upload(self, weights: Iterable[Upload]) -> Generator[int, None, None]:
        kind = self.buffer_type(F32, (1, 1, 1, 1))
        in_our_ram = self.pool.name == SYSTEM
        source: BlockSource = (InPlace if in_our_ram else Staged)(self.queue, kind)
        return Packer(source, self.prepare, self._traits).upload(weights)

    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        family = KERNEL_FAMILIES.get(node.op)
        return family is not None and family.supports(node, type_of)

    def lower(
        self,
        nodes: Sequence[Tensor],
        type_of: TypeOf,
        computes: Computes | None = None,
    ) -> tuple[Tensor, ...]:
        return lower(nodes, type_of, self._traits, computes)

    def fuse(
        self, lowered: Sequence[Tensor], kept: frozenset[Tensor], computes: Computes | None = None
    ) -> tuple[Tensor, ...]:
        return fuse(lowered, kept, self._traits, computes)

    def calls(self, node: Tensor, type_of: TypeOf) -> Sequence[KernelCall]:
        return [
            KernelCall(launch.name, " ".join(f"{k}={v}" for k, v in launch.defines.items()))
            for launch in launches_of(node, type_of, self._traits)
        ]

    def in_place(self, node: Tensor) -> Collection[int]:
        return IN_PLACE.get(node.op, ())

    def compile(self, nodes: Sequence[Tensor], where: Where) -> OpenCLCommands:
        """Raises `KernelBuildFailed`, `DeviceError`."""

        def type_of(tensor: Tensor) -> BufferType:
            return where(tensor.storage).buffer.type

        made = [(node, launches_of(node, type_of, self._traits)) for node in nodes]
        self.programs.build_all(
            ProgramKey.of(launch.family, launch.defines) for _, some in made for launch in some
        )
        launches = [
            (node, launch) for node, some in made for launch in self._fitting(node, some, type_of)
        ]
        return self.prepare(launches, where)

    def _fitting(
        self, node: Tensor, launches: Sequence[Launch], type_of: TypeOf
    ) -> Sequence[Launch]:
        """The launches of a node, with groups that their kernels take."""
        most = self._traits.max_work_group
        while True:
            refused = [limit for one in launches if (limit := self._limit(one)) is not None]
            if not refused or most == 1:
                return launches
            most = min(most // 2, *refused)
            launches = launches_of(node, type_of, replace(self._traits, max_work_group=most))

    def _limit(self, launch: Launch) -> int | None:
        """The largest group that a launch's kernel takes, where the launch has a larger one."""
        group = prod(launch.local_size or (1,))
        if group == 1:
            return None
        key = ProgramKey.of(launch.family, launch.defines)
        limit = self.programs.group_limit(key, launch.kernel)
        return limit if limit < group else None

    def prepare(self, launches: Sequence[tuple[Tensor, Launch]], where: Where) -> OpenCLCommands:
        """Commands for launches, each behind the node that it computes.

        Raises `KernelBuildFailed`, `DeviceError`.
        """
        return prepare(self.name, self.queue, self.programs, launches, where, self._memory_of)

    def watch_builds(self, progress: Callable[[int, int], None]) -> None:
        self.programs.progress = self._progress = progress

    def measure(self, wanted: bool) -> None:
        try:
            self.queue.measure(wanted)
        except cl.Error as error:
            left = self.pool.limit - self.pool.used
            raise driver_error(self.name, "measuring", self.used, left, error) from None

    def synchronize(self) -> None:
        try:
            self.queue.now.finish()
        except cl.Error as error:
            left = self.pool.limit - self.pool.used
            raise driver_error(self.name, "computing", self.used, left, error) from None

    def roof(self) -> Roof:
        return measure(self, self._traits, self.info.max_allocation, self.prepare)

    def close(self) -> None:
        if self.programs.progress is self._progress:  # else another backend of the device gets it
            self.watch_builds(_untold)
        try:
            self.synchronize()
        except DeviceError:
            _kept.clear()  # What failed in a context may keep it from working again.
            raise


def _zeros(context: cl.Context, size: int) -> cl.Buffer:
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=np.zeros(size, np.uint8))


def _untold(built: int, wanted: int) -> None:
    """For builds that nobody watches."""


@dataclass(frozen=True)
class _Together:
    """A context of some devices, and what was built in it for each."""

    context: cl.Context
    programs: dict[cl.Device, Programs] = field(default_factory=dict)


# Drivers do not give back all that a program took: built again with every model, it would add up.
_kept: dict[tuple[cl.Device, ...], _Together] = {}
_opening = Lock()


def open_together(
    devices: Sequence[Device], budgets: Mapping[str, int] = MappingProxyType({})
) -> list[OpenCLBackend]:
    """Devices of one driver in one context, where it copies from one to the other by itself.

    Contexts and programs are kept for the next time. Raises `DeviceError`.
    """
    handles: dict[int, tuple[cl.Device, ...]] = {}
    for device in devices:
        platform = device.handle.platform.int_ptr
        handles[platform] = (*handles.get(platform, ()), device.handle)
    with _opening:
        return [
            _open(device, handles[device.handle.platform.int_ptr], budgets.get(device.info.name))
            for device in devices
        ]


def _open(device: Device, together: tuple[cl.Device, ...], budget: int | None) -> OpenCLBackend:
    name = device.info.name
    try:
        if together not in _kept:
            _kept[together] = _Together(cl.Context(list(together)))
    except cl.Error as error:
        raise cannot_open(name, error) from None
    kept = _kept[together]
    programs = kept.programs.setdefault(device.handle, Programs(kept.context, name, device.handle))
    return OpenCLBackend(device, budget, kept.context, programs)


def cannot_open(name: str, error: cl.Error) -> DeviceError:
    """The error text when a driver refuses its own device."""
    return DeviceError(name, f"cannot be opened: {error}; see `cutaway doctor`")
