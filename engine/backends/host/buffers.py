"""Host memory: allocated, or a model file mapped read-only."""

import numpy as np

from engine.backends.base import Buffer, BufferType, Bytes, MemoryPool, Owner
from engine.errors import DeviceError, NoMem


class HostBuffer(Buffer):
    """Zeroed bytes, counted in a pool until freed."""

    def __init__(self, kind: BufferType, size: int, owner: Owner, pool: MemoryPool) -> None:
        pool.take(kind.device, owner, size)
        try:
            self.bytes: Bytes = np.empty(size, np.uint8)
        except MemoryError:
            pool.give_back(kind.device, owner, size)
            raise NoMem(kind.device, str(owner.component), size, 0, "the system refused") from None
        self.bytes.fill(0)  # Touched now: a promise of memory is not memory.
        self.type, self.size = kind, size
        self._owner, self._pool = owner, pool

    def write(self, offset: int, data: Bytes) -> None:
        self.bytes[offset : offset + data.size] = data.reshape(-1)

    def read(self, offset: int, size: int) -> Bytes:
        return self.bytes[offset : offset + size].copy()

    def free(self) -> None:
        if self.bytes.size:
            self._pool.give_back(self.type.device, self._owner, self.size)
            self.bytes = self.bytes[:0].copy()


class MappedBuffer(Buffer):
    """Bytes of a file, where the system mapped them: nothing is allocated and nothing counted."""

    def __init__(self, kind: BufferType, data: Bytes) -> None:
        self.bytes: Bytes = data.reshape(-1)
        self.type, self.size = kind, self.bytes.size

    def write(self, offset: int, data: Bytes) -> None:
        raise DeviceError(self.type.device, "a mapped file cannot be written")

    def read(self, offset: int, size: int) -> Bytes:
        return self.bytes[offset : offset + size].copy()

    def free(self) -> None:
        self.bytes = np.empty(0, np.uint8)
