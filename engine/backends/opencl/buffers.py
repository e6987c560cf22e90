"""Memory on an OpenCL device, accounted in its pool."""

import numpy as np

from engine.backends.base import Buffer, BufferType, Bytes, MemoryPool, Owner
from engine.backends.opencl.loader import cl
from engine.errors import DeviceError, NoMem

# One write is at most this long: drivers stage what they copy, and some copy all of it first.
PIECE = 64 << 20
OUT_OF_MEMORY = frozenset(
    (
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.OUT_OF_RESOURCES,
        cl.status_code.OUT_OF_HOST_MEMORY,
    )
)


def driver_error(
    device: str, doing: str, size: int, left: int, error: cl.Error
) -> NoMem | DeviceError:
    """What a driver's error means: drivers may run out of memory long after they granted it."""
    if error.code in OUT_OF_MEMORY:
        return NoMem(device, doing, size, left, f"the driver ran out ({error})")
    return DeviceError(device, f"{doing} failed: {error}")


class OpenCLBuffer(Buffer):
    """A driver's buffer object. Commands keep `memory`, so `free` pulls nothing away from them."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        pool: MemoryPool,
        buffer_type: BufferType,
        size: int,
        owner: Owner,
    ) -> None:
        """Allocate and touch every byte (zeros). Raises `NoMem` by the pool or the driver."""
        self.type, self.size = buffer_type, size
        self._queue, self._pool, self._owner = queue, pool, owner
        pool.take(buffer_type.device, owner, size)
        try:
            memory = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, max(size, 1))
            # Drivers hand out memory they do not have; only using it tells.
            cl.enqueue_fill_buffer(queue, memory, np.zeros(1, np.uint8), 0, max(size, 1))
            queue.finish()
        except cl.Error as error:
            pool.give_back(buffer_type.device, owner, size)
            raise self._failed("allocating", size, error) from None
        self._memory: cl.Buffer | None = memory

    def write(self, offset: int, data: Bytes) -> None:
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._check(offset, flat.size)
        try:
            for start in range(0, flat.size, PIECE):
                piece = flat[start : start + PIECE]
                cl.enqueue_copy(self._queue, self.memory, piece, dst_offset=offset + start)
        except cl.Error as error:
            raise self._failed("writing", flat.size, error) from None

    def read(self, offset: int, size: int) -> Bytes:
        self._check(offset, size)
        data = np.empty(size, np.uint8)
        if size:
            try:
                cl.enqueue_copy(self._queue, data, self.memory, src_offset=offset)
            except cl.Error as error:
                raise self._failed("reading", size, error) from None
        return data

    def free(self) -> None:
        if self._memory is not None:
            self._memory = None
            self._pool.give_back(self.type.device, self._owner, self.size)

    @property
    def memory(self) -> cl.Buffer:
        """The driver's object. Whoever keeps it keeps the bytes, also after `free`."""
        assert self._memory is not None, "the buffer was freed"
        return self._memory

    def _check(self, offset: int, size: int) -> None:
        assert 0 <= offset <= self.size - size, (offset, size, self.size)

    def _failed(self, doing: str, size: int, error: cl.Error) -> NoMem | DeviceError:
        left = self._pool.limit - self._pool.used
        return driver_error(self.type.device, f"{doing} {self._owner.component}", size, left, error)
