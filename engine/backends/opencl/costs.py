"""The cost of launches and copies, however small they are.

`python -m engine.backends.opencl.costs DEVICE` prints a line of JSON for each cost: `what`, and
`seconds` of one. A process of its own, so that a driver which crashes takes nobody with it.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl, launcher
from engine.units import MIB

EMPTY = "__kernel void empty(__global int *x) { if (x[0] == 1) x[1] = 2; }"
LAUNCHES, COPIES = 1000, 20
READ = (8, 1024, 513_024)
"""Bytes: a token, what a step may read, and the logits of 128,256 tokens."""

WRITTEN = 64 * MIB


class Cost(NamedTuple):
    """`seconds` of one launch, or of one copy of `nbytes`."""

    what: str
    seconds: float
    nbytes: int = 0


def costs(device: Device) -> Iterator[Cost]:
    """Measure each on an idle queue. Raises `cl.Error`."""
    context = cl.Context([device.handle])
    profiling = cl.command_queue_properties.PROFILING_ENABLE
    plain = cl.CommandQueue(context, device.handle)
    for name, queue in (
        ("plain queue", plain),
        ("profiling queue", cl.CommandQueue(context, device.handle, profiling)),
    ):
        for seconds, how in _launches(context, queue):
            yield Cost(f"launch, {name}, {how}", seconds)
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, WRITTEN)
    for kind, host in (("pageable", np.zeros(WRITTEN, np.uint8)), ("pinned", _pinned(plain))):
        for nbytes in READ:
            read = _median(partial(_copied, plain, host[:nbytes], memory))
            yield Cost(f"read, {kind}", read, nbytes)
        write = _median(partial(_copied, plain, memory, host), 5)
        yield Cost(f"write, {kind}", write, WRITTEN)


def _launches(context: cl.Context, queue: cl.CommandQueue) -> Iterator[tuple[float, str]]:
    kernel = cl.Kernel(cl.Program(context, EMPTY).build(), "empty")
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)  # a kernel holds no reference to it
    kernel.set_arg(0, memory)
    size, quick = (64,), launcher(kernel, (64,), (1,))

    def with_event() -> None:
        cl.enqueue_nd_range_kernel(queue, kernel, size, (1,))

    def without() -> None:
        quick(queue)

    for how, one in (("an event each", with_event), ("no event", without)):
        for _ in range(2):  # the first time is the driver's own start
            start = perf_counter()
            for _ in range(LAUNCHES):
                one()
            queue.finish()
            seconds = (perf_counter() - start) / LAUNCHES
        yield seconds, how


def _pinned(queue: cl.CommandQueue) -> Any:
    """Memory of the driver's own choice, mapped."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    memory = cl.Buffer(queue.context, flags, WRITTEN)
    both: Any = cl.map_flags.READ | cl.map_flags.WRITE
    return cl.enqueue_map_buffer(queue, memory, both, 0, (WRITTEN,), np.dtype(np.uint8))[0]


def _copied(queue: cl.CommandQueue, to: Any, source: Any) -> None:
    cl.enqueue_copy(queue, to, source)
    queue.finish()


def _median(work: Callable[[], object], times: int = COPIES) -> float:
    work()
    taken = []
    for _ in range(times):
        start = perf_counter()
        work()
        taken.append(perf_counter() - start)
    return median(taken)


def main(name: str) -> None:
    """Print each cost as soon as it is known."""
    for cost in costs(open_device(name)):
        print(msgspec.json.encode(cost._asdict()).decode(), flush=True)  # noqa: T201  the answer


if __name__ == "__main__":
    main(sys.argv[1])
