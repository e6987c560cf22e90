"""The host: every operation in NumPy, in plain code. The reference for all other devices."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from time import perf_counter_ns

import numpy as np

from engine.backends.host.operand import Operand
from engine.backends.host.operations import OPERATIONS
from engine.device.backend import (
    PLAIN,
    Backend,
    Buffer,
    BufferType,
    Bytes,
    Commands,
    Component,
    Computes,
    Done,
    KernelCall,
    Location,
    MemoryPool,
    Owner,
    Spans,
    TypeOf,
    Upload,
    Where,
)
from engine.errors import DeviceError, NoMem
from engine.gguf.formats import Format
from engine.graph.arrays import raw_array
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Shape, Tensor
from engine.memory.pools import system_pool

IN_PLACE = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.MUL, Op.DIV),
        *(Op.SCALE, Op.CLAMP, Op.SQR, Op.SQRT, Op.SIN, Op.COS, Op.SOFTCAP),
        *(Op.EXP, Op.SOFTPLUS),
        *(Op.SILU, Op.GELU, Op.GELU_ERF, Op.QUICK_GELU, Op.RELU),
        *(Op.TANH, Op.SIGMOID, Op.SWIGLU_LIMIT, Op.XIELU),
        *(Op.RMS_NORM, Op.LAYER_NORM, Op.L2_NORM, Op.SOFTMAX),
    }
)


class _InMemory(Buffer):
    """Bytes that the process can touch."""

    bytes: Bytes

    def write(self, offset: int, data: Bytes) -> None:
        self.bytes[offset : offset + data.size] = data.reshape(-1)

    def read(self, offset: int, size: int) -> Bytes:
        return self.view(offset, size).copy()

    def start_write(self, offset: int, data: Bytes) -> Done:
        start = perf_counter_ns()
        self.write(offset, data)
        return Done(start, perf_counter_ns())

    def start_read(self, offset: int, into: Bytes) -> Done:
        start = perf_counter_ns()
        into[...] = self.view(offset, into.size)
        return Done(start, perf_counter_ns())

    def view(self, offset: int, size: int) -> Bytes:
        return self.bytes[offset : offset + size]


class HostBuffer(_InMemory):
    """Zeroed bytes, claimed from a pool and counted there until freed."""

    def __init__(self, kind: BufferType, size: int, owner: Owner, pool: MemoryPool) -> None:
        try:
            self.bytes = np.empty(size, np.uint8)
        except MemoryError:
            refused = "the system refused"
            raise NoMem(kind.device, owner.component, size, 0, refused, owner.layer) from None
        self.bytes.fill(0)  # Touched now: a promise of memory is not memory.
        self.type, self.size = kind, size
        self.owner, self._pool = owner, pool

    def free(self) -> None:
        if self.bytes.size:
            self._pool.give_back(self.type.device, self.owner, self.size)
            self.bytes = self.bytes[:0].copy()


class MappedBuffer(_InMemory):
    """Bytes of a file, where the system mapped them: nothing is allocated and nothing counted."""

    def __init__(self, kind: BufferType, data: Bytes) -> None:
        self.bytes = data.reshape(-1)
        self.type, self.size = kind, self.bytes.size
        self.owner = Owner(Component.WEIGHTS)

    def write(self, offset: int, data: Bytes) -> None:
        raise DeviceError(self.type.device, "a mapped file cannot be written")

    def free(self) -> None:
        self.bytes = np.empty(0, np.uint8)


ALIGNMENT = 64
UNLIMITED = 1 << 62
"""Bytes of a buffer: only the pool bounds it."""


class HostCommands(Commands):
    """One call an operation, over arrays that were laid over the buffers beforehand."""

    def __init__(self, calls: Sequence[tuple[Tensor, Callable[[], None]]]) -> None:
        self._calls = tuple(calls)
        self.launched = tuple((node, str(node.op)) for node, _ in calls)

    def run(self) -> None:
        """Compute everything; done when it returns."""
        with np.errstate(all="ignore"):  # Infinities and NaNs are values here, as on devices.
            for _, call in self._calls:
                call()

    def run_recorded(self) -> Callable[[], Spans]:
        spans = np.empty((2, len(self._calls)), np.int64)
        with np.errstate(all="ignore"):
            for i, (_, call) in enumerate(self._calls):
                start = perf_counter_ns()
                call()
                spans[:, i] = start, perf_counter_ns()
        return lambda: spans


class HostBackend(Backend):
    """NumPy. Weights are the mapped file and are dequantised anew at each use."""

    name = "host"
    is_host = True

    def __init__(self, pool: MemoryPool | None = None, budget: int | None = None) -> None:
        self.pool = pool or system_pool()
        self.budget = budget

    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        return BufferType(self.name, PLAIN, ALIGNMENT, UNLIMITED, self.is_host)

    def allocation_size(self, buffer_type: BufferType, fmt: Format, shape: Shape) -> int:
        size = fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]
        return buffer_type.padded(size)

    def allocate(
        self, buffer_type: BufferType, size: int, owner: Owner, zeros: bool = True
    ) -> Buffer:
        made = partial(HostBuffer, buffer_type, size, owner, self.pool)
        return self.claimed(buffer_type, size, owner, made)

    def map(self, data: Bytes) -> Location:
        kind = BufferType(self.name, PLAIN, ALIGNMENT, UNLIMITED, self.is_host)
        return Location(MappedBuffer(kind, data), 0)

    def upload(self, weights: Iterable[Upload]) -> Generator[int, None, None]:
        for weight in weights:
            weight.to.buffer.write(weight.to.offset, weight.blocks)
            yield weight.blocks.size

    def supports(self, node: Tensor, type_of: TypeOf) -> bool:
        return node.op in OPERATIONS or node.op in VIEW_OPS

    def lower(
        self,
        nodes: Sequence[Tensor],
        type_of: TypeOf,
        computes: Computes | None = None,
    ) -> tuple[Tensor, ...]:
        if computes is not None:
            computes.update((node, (node,)) for node in nodes)
        return tuple(nodes)

    def fuse(
        self, lowered: Sequence[Tensor], kept: frozenset[Tensor], computes: Computes | None = None
    ) -> tuple[Tensor, ...]:
        return tuple(lowered)

    def calls(self, node: Tensor, type_of: TypeOf) -> Sequence[KernelCall]:
        return (KernelCall(node.op),)

    def in_place(self, node: Tensor) -> Collection[int]:
        return range(len(node.src)) if node.op in IN_PLACE else ()

    def compile(self, nodes: Sequence[Tensor], where: Where) -> Commands:
        calls = []
        for node in nodes:
            if node.op not in VIEW_OPS:
                sources = [None if s is None else _operand(s, where) for s in node.src]
                call = partial(OPERATIONS[node.op], node, _operand(node, where), *sources)
                calls.append((node, call))
        return HostCommands(calls)

    def watch_builds(self, progress: Callable[[int, int], None]) -> None:
        """Nothing is built here."""

    def synchronize(self) -> None:
        pass  # Every command is done when it returns.

    def close(self) -> None:
        pass


def _operand(tensor: Tensor, where: Where) -> Operand:
    at = where(tensor.storage)
    assert isinstance(at.buffer, HostBuffer | MappedBuffer)
    start = at.offset + tensor.offset
    return Operand(tensor.fmt, raw_array(at.buffer.bytes[start : start + tensor.nbytes], tensor))
