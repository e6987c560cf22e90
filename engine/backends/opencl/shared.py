"""The host's memory as a device of the same RAM uses it: in place, nothing is copied."""

from ctypes import c_uint8

import numpy as np

from engine.backends.base import Buffer, BufferType, Bytes, Component, Location, MemoryPool, Owner
from engine.backends.opencl.buffers import OpenCLBuffer
from engine.backends.opencl.drivers.loader import cl
from engine.errors import DeviceError

# Drivers copy what does not start on a page, and kernels may expect their buffers aligned.
PAGE = 4096


class SharedBuffer(OpenCLBuffer):
    """Bytes of `owner`, which is kept alive; nothing is counted, and they are only read."""

    def __init__(
        self, queue: cl.CommandQueue, kind: BufferType, data: Bytes, owner: Buffer
    ) -> None:
        self.type, self.size = kind, data.size
        self._queue, self.owner = queue, Owner(Component.WEIGHTS)
        self._pool = MemoryPool("", 0)
        self._kept = owner
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
        try:
            self._memory = cl.Buffer(queue.context, flags, hostbuf=data)
        except cl.Error as error:
            raise self._failed("sharing", data.size, error) from None

    def write(self, offset: int, data: Bytes) -> None:
        raise DeviceError(self.type.device, "the host's memory is not written from here")

    def free(self) -> None:
        self._memory = None


def shared(queue: cl.CommandQueue, kind: BufferType, at: Location) -> Location:
    """A location in the host's memory, for a device of type `kind` whose kernels read it there."""
    data = at.buffer.view(at.offset, at.buffer.size - at.offset)
    start = data.ctypes.data
    skipped = start % PAGE
    # The page that holds the first byte is mapped as a whole, and so is the last one.
    whole = (c_uint8 * (skipped + data.size)).from_address(start - skipped)
    return Location(
        SharedBuffer(queue, kind, np.frombuffer(memoryview(whole), np.uint8), at.buffer), skipped
    )
