"""Memory on an OpenCL device, accounted in its pool."""

from collections.abc import Sequence
from contextlib import suppress
from math import gcd
from threading import Lock
from time import perf_counter_ns

import numpy as np

from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.pages import LARGE, FilledPages, FreshPages, LargePages
from engine.device.backend import Buffer, BufferType, Bytes, Event, Location, MemoryPool, Owner
from engine.errors import DeviceError, NoMem
from engine.progress import part

SMALL_READ = 4096
"""Most bytes that are read by way of pinned memory: a token's best logits are an eighth of it."""


class Queue:
    """Commands run in order, also across a change from one of the two to the other."""

    def __init__(self, context: cl.Context, device: cl.Device, pins: bool = False) -> None:
        """Small reads go by way of pinned memory where it `pins`. Raises `cl.Error`."""
        self.context, self._device = context, device
        self._pins, self._reading = pins, Lock()
        self._pinned: Bytes | None = None
        self._plain = self.now = cl.CommandQueue(context, device)
        self._measured: cl.CommandQueue | None = None

    def measure(self, wanted: bool) -> None:
        """Keep the times of the commands that come, or no longer: on some drivers all commands are
        slower with it. Raises `cl.Error`.
        """
        if wanted == (self.now is self._measured):
            return
        self.now.finish()
        if wanted and self._measured is None:
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            self._measured = cl.CommandQueue(self.context, self._device, profiling)
        self.now = self._measured if wanted and self._measured is not None else self._plain

    def read(self, memory: cl.Buffer, offset: int, into: Bytes) -> None:
        """Wait for all commands, and copy bytes. A driver would pin the pages of a few bytes anew
        for each read, or copy them twice. Raises `cl.Error`.
        """
        if not self._pins or into.size > SMALL_READ:
            cl.enqueue_copy(self.now, into, memory, src_offset=offset)
            return
        with self._reading:
            if self._pinned is None:
                self._pinned = self._pinned_memory()
            few = self._pinned[: into.size]
            cl.enqueue_copy(self.now, few, memory, src_offset=offset)
            into[:] = few

    def _pinned_memory(self) -> Bytes:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        memory, write = cl.Buffer(self.context, flags, SMALL_READ), cl.map_flags.WRITE
        mapped: Bytes = cl.enqueue_map_buffer(
            self.now, memory, write, 0, (SMALL_READ,), np.dtype(np.uint8)
        )[0]
        return mapped


# One write is at most this long: drivers stage what they copy, and some copy all of it first.
PIECE = 64 << 20
WIDEST = 128
"""Bytes of the largest vector, which buffers are filled with."""

OUT_OF_MEMORY = frozenset(
    (
        cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
        cl.status_code.OUT_OF_RESOURCES,
        cl.status_code.OUT_OF_HOST_MEMORY,
    )
)


def driver_error(
    device: str, doing: str, size: int, left: int, error: cl.Error, owner: Owner | None = None
) -> NoMem | DeviceError:
    """Translate a driver's error: drivers may run out of memory long after they granted it."""
    if error.code in OUT_OF_MEMORY:
        ran_out = f"the driver ran out while {doing} ({error})"
        if owner is None:
            return NoMem(device, doing, size, left, ran_out)
        return NoMem(device, owner.component, size, left, ran_out, owner.layer)
    return DeviceError(device, f"{doing} failed: {error}")


def moment(event: cl.Event, what: cl.profiling_info) -> int:
    """When something became of a command, in nanoseconds of its device's clock."""
    moment_ns: int = event.get_profiling_info(what)  # type: ignore[assignment]
    return moment_ns


class OpenCLEvent(Event):
    """The driver's events of commands that follow each other in one queue; at least one."""

    def __init__(self, device: str, events: Sequence[cl.Event], queued: int, owner: Owner) -> None:
        """`queued` is when the last one was, in time.perf_counter_ns(), for bytes of `owner`."""
        self._device, self.queued, self._owner = device, queued, owner
        self.events = tuple(events)

    def wait(self) -> None:
        try:
            cl.wait_for_events(list(self.events))
        except cl.Error as error:
            doing = f"waiting for {self._owner.component}"
            raise driver_error(self._device, doing, 0, 0, error, self._owner) from None

    def span(self) -> tuple[int, int]:
        info, first, last = cl.profiling_info, self.events[0], self.events[-1]
        offset = self.queued - moment(last, info.QUEUED)
        return moment(first, info.START) + offset, moment(last, info.END) + offset


class OpenCLBuffer(Buffer):
    """A driver's buffer object. Commands keep `memory`, so `free` pulls nothing away from them."""

    def __init__(
        self,
        queue: Queue,
        pool: MemoryPool,
        buffer_type: BufferType,
        size: int,
        owner: Owner,
        zeros: bool = True,
        large: LargePages | None = None,
    ) -> None:
        """Allocate what was claimed from the pool, and with `zeros` touch every byte of it. Where
        there are `large` pages, for a device in this process's memory, that is what it uses.

        Raises `NoMem` by the driver's or the system's word.
        """
        self.type, self.size = buffer_type, size
        self.queue, self._pool, self.owner = queue, pool, owner
        self._pages: FreshPages | FilledPages | None = None
        try:
            if large is not None and size >= LARGE:
                self._memory: cl.Buffer | None = self._in_pages(large, zeros)
            else:
                self._memory = self._of_driver(zeros)
        except cl.Error as error:
            raise self._failed("allocating", size, error) from None
        except OSError as error:
            why = f"the system has no more memory ({error.strerror})"
            raise NoMem(
                buffer_type.device, owner.component, size, pool.left, why, owner.layer
            ) from None

    def _in_pages(self, large: LargePages, zeros: bool) -> cl.Buffer:
        self._pages = pages = FreshPages(self.size, large)
        if zeros:
            with part("touching"):
                pages.touch_all()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self.queue.context, flags, 0, pages.bytes)

    def _of_driver(self, zeros: bool) -> cl.Buffer:
        memory = cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, max(self.size, 1))
        if zeros:
            # Drivers hand out memory they do not have; only using it shows. They fill byte by
            # byte what is given as bytes.
            pattern = np.zeros(gcd(max(self.size, 1), WIDEST), np.uint8)
            cl.enqueue_fill_buffer(self.queue.now, memory, pattern, 0, max(self.size, 1))
            self.queue.now.finish()
        return memory

    def touch(self, end: int) -> None:
        """Before bytes up to `end` are filled, in order: have their pages as they come fastest."""
        if self._pages is not None:
            with part("touching"):
                self._pages.touch(end)

    def view(self, offset: int, size: int) -> Bytes:
        if self._pages is None:
            return super().view(offset, size)
        return self._pages.bytes[offset : offset + size]

    def write(self, offset: int, data: Bytes) -> None:
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._check(offset, flat.size)
        try:
            for start in range(0, flat.size, PIECE):
                piece = flat[start : start + PIECE]
                cl.enqueue_copy(self.queue.now, self.memory, piece, dst_offset=offset + start)
        except cl.Error as error:
            raise self._failed("writing", flat.size, error) from None

    def read(self, offset: int, size: int) -> Bytes:
        self._check(offset, size)
        data = np.empty(size, np.uint8)
        if size:
            try:
                self.queue.read(self.memory, offset, data)
            except cl.Error as error:
                raise self._failed("reading", size, error) from None
        return data

    def start_write(self, offset: int, data: Bytes) -> OpenCLEvent:
        self._check(offset, data.size)
        start = perf_counter_ns()
        try:
            events = [
                cl.enqueue_copy(
                    self.queue.now,
                    self.memory,
                    data[start : start + PIECE],
                    dst_offset=offset + start,
                    is_blocking=False,
                )
                for start in range(0, data.size, PIECE)
            ]
        except cl.Error as error:
            raise self._failed("writing", data.size, error) from None
        return self._event(events, start)

    def start_read(self, offset: int, into: Bytes) -> OpenCLEvent:
        self._check(offset, into.size)
        start = perf_counter_ns()
        try:
            event = cl.enqueue_copy(
                self.queue.now, into, self.memory, src_offset=offset, is_blocking=False
            )
            made = self._event([event], start)
            self.queue.now.flush()  # It starts now, not when somebody waits for it.
        except cl.Error as error:
            raise self._failed("reading", into.size, error) from None
        return made

    def mark(self) -> OpenCLEvent:
        start = perf_counter_ns()
        try:
            event = cl.enqueue_marker(self.queue.now)
            made = self._event([event], start)
            self.queue.now.flush()  # Other queues may wait for it.
        except cl.Error as error:
            raise self._failed("marking", 0, error) from None
        return made

    def start_copy(self, offset: int, source: Location, size: int, after: Event) -> OpenCLEvent:
        theirs = source.buffer
        assert isinstance(theirs, OpenCLBuffer)
        assert isinstance(after, OpenCLEvent)
        self._check(offset, size)
        start = perf_counter_ns()
        try:
            event = cl.enqueue_copy(
                self.queue.now,
                self.memory,
                theirs.memory,
                src_offset=source.offset,
                dst_offset=offset,
                byte_count=size,
                wait_for=list(after.events),
            )
            made = self._event([event], start)
            self.queue.now.flush()
            cl.enqueue_barrier(
                theirs.queue.now, wait_for=[event]
            )  # It may overwrite the source next.
        except cl.Error as error:
            raise self._failed("copying", size, error) from None
        return made

    def free(self) -> None:
        if self._memory is not None:
            try:
                if self._pages is not None:  # a driver keeps its own until nobody uses it
                    self._pages.settle()
                    with suppress(cl.Error):
                        self.queue.now.finish()
            finally:
                self._memory = self._pages = None
                self._pool.give_back(self.type.device, self.owner, self.size)

    @property
    def memory(self) -> cl.Buffer:
        """The driver's object. Whoever keeps it keeps the bytes, also after `free`."""
        assert self._memory is not None, "the buffer was freed"
        return self._memory

    def _event(self, events: Sequence[cl.Event], start: int) -> OpenCLEvent:
        queued = (start + perf_counter_ns()) // 2
        return OpenCLEvent(self.type.device, events, queued, self.owner)

    def _check(self, offset: int, size: int) -> None:
        assert 0 <= offset <= self.size - size, (offset, size, self.size)

    def _failed(self, doing: str, size: int, error: cl.Error) -> NoMem | DeviceError:
        doing = f"{doing} {self.owner.component}"
        return driver_error(self.type.device, doing, size, self._pool.left, error, self.owner)
