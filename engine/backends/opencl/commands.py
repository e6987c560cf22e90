"""Launches made ready: kernel objects with every argument set, enqueued in one tight loop."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from engine.backends.opencl.buffers import OpenCLBuffer, Queue, driver_error, moment
from engine.backends.opencl.drivers.loader import cl, launcher, set_bytes
from engine.backends.opencl.launch import Launch, Shared
from engine.backends.opencl.program import ProgramKey, Programs
from engine.device.backend import Commands, Spans, Where
from engine.errors import CutawayError, DeviceError
from engine.graph.tensor import Tensor

# The device starts on these while the rest is still being enqueued.
FIRST_BATCH = 32
# From as many launches it is known when a device's clock was the host's.
CLOCKED = 32

Number = np.int32 | np.int64 | np.float32
Value = cl.Buffer | Number | bytes | None
What = tuple[Tensor, str]
CODES = {np.int32: "i", np.int64: "q", np.float32: "f"}
"""Codes of `struct` by type of number."""


class Step(NamedTuple):
    """A launch with its arguments set; `queued` queues it without an event."""

    kernel: cl.Kernel
    size: tuple[int, ...]
    local: tuple[int, ...] | None
    queued: Callable[[cl.CommandQueue], bool]

    def recorded(self, queue: cl.CommandQueue) -> cl.Event:
        """Queue it, for an event. Raises `cl.Error`."""
        return cl.enqueue_nd_range_kernel(queue, self.kernel, self.size, self.local)


class OpenCLCommands(Commands):
    """Kernels hold no reference to their buffers, so this does."""

    def __init__(
        self,
        device: str,
        queue: Queue,
        steps: Sequence[Step],
        memory: Iterable[cl.Buffer],
        what: Sequence[What],
    ) -> None:
        """`what` names each step's node and kernel."""
        self._device = device
        self._queue = queue
        self._batches = tuple(b for b in (steps[:FIRST_BATCH], steps[FIRST_BATCH:]) if b)
        self._memory = tuple(memory)
        self.launched = tuple(what)

    def run(self) -> None:
        queue = self._queue.now
        try:
            for batch in self._batches:
                for step in batch:
                    if not step.queued(queue):
                        step.recorded(queue)
                queue.flush()
        except cl.Error as error:
            raise self._failed(step.kernel, error) from None

    def run_recorded(self) -> Callable[[], Spans]:
        queue, now = self._queue.now, perf_counter_ns
        events: list[cl.Event] = []
        looks = [now()]
        try:
            for batch in self._batches:
                for step in batch:
                    events.append(step.recorded(queue))
                    looks.append(now())
                queue.flush()
        except cl.Error as error:
            raise self._failed(step.kernel, error) from None
        return lambda: _spans(events, looks)

    def _failed(self, kernel: cl.Kernel, error: cl.Error) -> CutawayError:
        size = sum(memory.size for memory in self._memory)
        doing = f"starting kernel {kernel.function_name}"
        return driver_error(self._device, doing, size, 0, error)


def _spans(events: Sequence[cl.Event], looks: Sequence[int]) -> Spans:
    """Times of events on the host's clock: each was enqueued between two readings of it.

    Some of them show the clock as well as all do, and each question takes a driver its time.
    """
    if not events:
        return np.empty((2, 0), np.int64)
    info = cl.profiling_info
    some = range(0, len(events), max(1, len(events) // CLOCKED))
    queued = [(i, moment(events[i], info.QUEUED)) for i in some]
    earliest = max(looks[i] - time for i, time in queued)
    latest = min(looks[i + 1] - time for i, time in queued)
    starts = [moment(event, info.START) for event in events]
    ends = [moment(event, info.END) for event in events]
    return np.array((starts, ends), np.int64) + (earliest + latest) // 2


class StructRefused(Exception):
    """A driver takes no struct by value, as rusticl of Mesa 22.3."""


def prepare(
    device: str,
    queue: Queue,
    programs: Programs,
    launches: Sequence[tuple[Tensor, Launch]],
    where: Where,
    memory_of: Mapping[Shared, cl.Buffer],
) -> OpenCLCommands:
    """Build what is missing and set every argument. Raises `KernelBuildFailed`, `DeviceError`.

    Each launch stands behind the node that it computes. `memory_of` the queue is for it alone. A
    driver that refuses a struct by value gets its bytes in memory from then on.
    """
    keys = [ProgramKey.of(launch.family, launch.defines) for _, launch in launches]
    programs.build_all(keys)
    memory: dict[int, cl.Buffer] = {}
    steps, what = [], []
    for (node, launch), key in zip(launches, keys, strict=True):
        try:
            kernel = cl.Kernel(programs.get(key), launch.kernel)
            values = _values_of(launch, where, memory, memory_of)
            if launch.packs and programs.numbers_in_memory:
                values[-1] = _buffer_of(values[-1], queue, memory)
            _set_arguments(kernel, launch, values)
        except StructRefused:  # not again, as no struct is by value then
            programs.read_numbers_from_memory()
            return prepare(device, queue, programs, launches, where, memory_of)
        except cl.Error as error:
            raise DeviceError(device, f"kernel {launch.kernel}: {error}") from None
        sizes = launch.global_size, launch.local_size
        steps.append(Step(kernel, *sizes, launcher(kernel, *sizes)))
        what.append((node, launch.name))
    return OpenCLCommands(device, queue, steps, (*memory.values(), *memory_of.values()), what)


def _values_of(
    launch: Launch,
    where: Where,
    memory: dict[int, cl.Buffer],
    memory_of: Mapping[Shared, cl.Buffer],
) -> list[Value]:
    """A value for each of a kernel's parameters; `memory` gets the buffers among them."""
    values: list[Value] = []
    for arg in launch.args.values():
        if isinstance(arg, Shared):
            values.extend((memory_of[arg], np.int64(0)))
        else:
            values.extend(_values(arg, where, memory))
    return _packed(values) if launch.packs else values


def _buffer_of(numbers: Value, queue: Queue, memory: dict[int, cl.Buffer]) -> cl.Buffer:
    assert isinstance(numbers, bytes)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    made = cl.Buffer(queue.now.context, flags, hostbuf=numbers)
    memory[id(made)] = made
    return made


def _set_arguments(kernel: cl.Kernel, launch: Launch, values: Sequence[Value]) -> None:
    """Raises `StructRefused`, `cl.Error`."""
    if len(values) != kernel.num_args:
        raise AssertionError(
            f"{launch.family}.cl: {launch.kernel} takes {kernel.num_args} arguments, "
            f"the launch gives {len(values)}"
        )
    local = launch.local_size
    if local and any(g % n for g, n in zip(launch.global_size, local, strict=True)):
        raise AssertionError(
            f"{launch.kernel}: global size {launch.global_size} is not a multiple of {local}"
        )
    for i, value in enumerate(values):
        if isinstance(value, np.generic):
            set_bytes(kernel, i, value.tobytes())
        elif isinstance(value, bytes):
            _set_struct(kernel, i, value)
        else:
            kernel.set_arg(i, value)


def _set_struct(kernel: cl.Kernel, i: int, value: bytes) -> None:
    try:
        set_bytes(kernel, i, value)
    except cl.Error as error:
        if error.code == cl.status_code.INVALID_ARG_SIZE:
            raise StructRefused from None
        raise


def _packed(values: Sequence[Value]) -> list[Value]:
    """Buffers, and behind them the numbers as C lays out a struct that begins with a long."""
    numbers = [value for value in values if isinstance(value, np.generic)]
    layout = "".join([CODES[type(number)] for number in numbers])
    packed = struct.pack(f"@{layout}0q", *numbers)
    return [*(v for v in values if not isinstance(v, np.generic)), packed]


def _values(
    arg: Tensor | Number | None, where: Where, memory: dict[int, cl.Buffer]
) -> tuple[Value, ...]:
    if arg is None:
        return None, np.int64(0)
    if not isinstance(arg, Tensor):
        return (arg,)
    at = where(arg.storage)
    assert isinstance(at.buffer, OpenCLBuffer), at.buffer
    memory[id(at.buffer.memory)] = at.buffer.memory
    return at.buffer.memory, np.int64(at.offset + arg.offset)
