"""Host memory: allocated, or a model file mapped read-only."""

from time import perf_counter_ns

import numpy as np

from engine.device.backend import Buffer, BufferType, Bytes, Component, Done, MemoryPool, Owner
from engine.errors import DeviceError, NoMem


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
            pool.give_back(kind.device, owner, size)
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
