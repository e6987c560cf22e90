"""The host's memory as a device of the same RAM uses it: in place, nothing is copied."""

from ctypes import c_uint8

import numpy as np

from engine.backends.opencl.buffers import OpenCLBuffer, Queue
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.pages import FilledPages
from engine.device.backend import BufferType, Bytes, Component, Location, MemoryPool, Owner
from engine.errors import DeviceError

# Drivers copy what does not start on a page, and kernels may expect their buffers aligned.
PAGE = 4096


class FilledBuffer(OpenCLBuffer):
    """Memory of this process that somebody else has filled, counted as any buffer; only read."""

    def __init__(
        self,
        queue: Queue,
        pool: MemoryPool,
        kind: BufferType,
        data: Bytes,
        owner: Owner,
    ) -> None:
        """Raises `NoMem`, `DeviceError`."""
        self.type, self.size = kind, data.size
        self.queue, self._pool, self.owner = queue, pool, owner
        self._pages = FilledPages(data)
        try:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
            self._memory = cl.Buffer(queue.context, flags, 0, data)
        except cl.Error as error:
            raise self._failed("mapping", data.size, error) from None
        pool.in_files += data.size

    def free(self) -> None:
        if self._memory is not None:
            self._pool.in_files -= self.size
        super().free()

    def write(self, offset: int, data: Bytes) -> None:
        raise DeviceError(self.type.device, "weights of a file are not written")


class UncountedBuffer(OpenCLBuffer):
    """Memory of a driver that no pool counts, and that kernels only read."""

    def __init__(
        self,
        queue: Queue,
        kind: BufferType,
        size: int,
        flags: int,
        data: Bytes | None = None,
    ) -> None:
        """Raises `NoMem`, `DeviceError`."""
        self.type, self.size = kind, size
        self.queue, self.owner = queue, Owner(Component.WEIGHTS)
        self._pool, self._pages = MemoryPool("", 0), None
        try:
            flags |= cl.mem_flags.READ_ONLY
            self._memory = cl.Buffer(queue.context, flags, 0 if data is not None else size, data)
        except cl.Error as error:
            raise self._failed("sharing", size, error) from None

    def free(self) -> None:
        self._memory = None


class SharedBuffer(UncountedBuffer):
    """Bytes of `owner`, which is kept alive."""

    def __init__(self, queue: Queue, kind: BufferType, data: Bytes, owner: object) -> None:
        super().__init__(queue, kind, data.size, cl.mem_flags.USE_HOST_PTR, data)
        self._kept = owner

    def write(self, offset: int, data: Bytes) -> None:
        raise DeviceError(self.type.device, "the host's memory is not written from here")


def shared(queue: Queue, kind: BufferType, at: Location) -> Location:
    """A location in the host's memory, for a device of type `kind` whose kernels read it there."""
    return in_place(queue, kind, at.buffer.view(at.offset, at.buffer.size - at.offset), at.buffer)


def in_place(queue: Queue, kind: BufferType, data: Bytes, owner: object) -> Location:
    """The bytes of `data`, which `owner` keeps, for such a device. Raises what drivers refuse."""
    start = data.ctypes.data
    skipped = start % PAGE
    # The page that holds the first byte is mapped as a whole, and so is the last one.
    whole = (c_uint8 * (skipped + data.size)).from_address(start - skipped)
    return Location(
        SharedBuffer(queue, kind, np.frombuffer(memoryview(whole), np.uint8), owner), skipped
    )
