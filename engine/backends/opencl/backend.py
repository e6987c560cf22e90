"""An OpenCL device as a backend: one context, one in-order queue, programs built when needed."""

from collections.abc import Callable, Sequence

from engine.backends.base import (
    PLAIN,
    Backend,
    BufferType,
    Bytes,
    Location,
    Owner,
    Roof,
    TypeOf,
    Where,
)
from engine.backends.opencl import layouts
from engine.backends.opencl.buffers import OpenCLBuffer, driver_error
from engine.backends.opencl.commands import OpenCLCommands, prepare
from engine.backends.opencl.device import Device
from engine.backends.opencl.launch import Launch
from engine.backends.opencl.launches import FAMILIES
from engine.backends.opencl.loader import cl
from engine.backends.opencl.lower import lower
from engine.backends.opencl.program import Programs
from engine.backends.opencl.roof import measure
from engine.errors import DeviceError, NoMem
from engine.gguf.formats import Format
from engine.graph.op import Op
from engine.graph.tensor import Shape, Tensor


class OpenCLBackend(Backend):
    """`budget` is the most bytes this device may hold, within what its pool allows."""

    def __init__(self, device: Device, budget: int | None = None) -> None:
        self.info = device.info
        self.name, self.title = device.info.name, device.info.title
        self.pool = device.memory_pool()
        self.budget = budget
        self._traits = device.info.traits
        try:
            self._context = cl.Context([device.handle])
            self._queue = cl.CommandQueue(
                self._context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
        except cl.Error as error:
            raise DeviceError(
                self.name, f"cannot be opened: {error}; see `cutaway doctor`"
            ) from None
        self._programs = Programs(self._context, self.name)

    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        layout = layouts.layout_for(fmt, shape, self._traits) if matmul_only else PLAIN
        return BufferType(self.name, layout, self.info.alignment, self.info.max_allocation)

    def allocation_size(self, buffer_type: BufferType, fmt: Format, shape: Shape) -> int:
        if buffer_type.layout == PLAIN:
            size = fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]
        else:
            size = layouts.nbytes(buffer_type.layout, fmt, shape)
        return -(-size // buffer_type.alignment) * buffer_type.alignment

    def allocate(self, buffer_type: BufferType, size: int, owner: Owner) -> OpenCLBuffer:
        if size > buffer_type.max_size:
            limit = buffer_type.max_size
            raise NoMem(self.name, owner.component, size, limit, "one buffer holds no more")
        if self.budget is not None and size > self.budget - self.used:
            left = self.budget - self.used
            raise NoMem(self.name, owner.component, size, left, "by this device's --budget")
        return OpenCLBuffer(self._queue, self.pool, buffer_type, size, owner)

    @property
    def used(self) -> int:
        """Bytes that this device's live buffers hold."""
        return sum(n for (device, _), n in self.pool.taken.items() if device == self.name)

    def upload(self, to: Location, fmt: Format, shape: Shape, blocks: Bytes) -> None:
        # In pieces: the whole of a large weight in a second copy would be felt.
        for start, piece in layouts.pieces(to.buffer.type.layout, fmt, shape, blocks):
            to.buffer.write(to.offset + start, piece)

    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        family = FAMILIES.get(node.op)
        return family is not None and family.supports(node, type_of)

    def lower(
        self, nodes: Sequence[Tensor], type_of: TypeOf, kept: frozenset[Tensor] | None = None
    ) -> tuple[Tensor, ...]:
        return lower(nodes, type_of, self._traits, kept)

    def compile(self, nodes: Sequence[Tensor], where: Where) -> OpenCLCommands:
        """Raises `KernelBuildFailed`, `DeviceError`."""

        def type_of(tensor: Tensor) -> BufferType:
            return where(tensor.storage).buffer.type

        made = [
            (node, launch)
            for node in nodes
            if node.op is not Op.RESULT  # written by the launch before
            for launch in FAMILIES[node.op].make(node, type_of, self._traits)
        ]
        launches = [launch for _, launch in made]
        of = [node for node, _ in made]
        return prepare(self.name, self._queue, self._programs, launches, where, of)

    def watch_builds(self, progress: Callable[[int, int], None]) -> None:
        self._programs.progress = progress

    def synchronize(self) -> None:
        try:
            self._queue.finish()
        except cl.Error as error:
            left = self.pool.limit - self.pool.used
            raise driver_error(self.name, "computing", self.used, left, error) from None

    def roof(self) -> Roof:
        def prepared(launch: Launch, node: Tensor, where: Where) -> OpenCLCommands:
            return prepare(self.name, self._queue, self._programs, [launch], where, [node])

        return measure(self, self._traits, self.info.max_allocation, prepared)

    def close(self) -> None:
        self.synchronize()
