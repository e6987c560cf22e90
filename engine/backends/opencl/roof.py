"""The most a device reads and computes: two plain kernels, the best of a few runs."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import floats, ints
from engine.device.backend import Backend, Commands, Component, Location, Owner, Roof, Where
from engine.gguf.formats import F32, I8
from engine.graph.tensor import Role, Tensor, leaf

BYTES = 320 << 20
"""More than any cache holds."""

BLOCK = 64
RUNS = 5
LONG_ENOUGH = 5_000_000
"""Nanoseconds that a run must take to be worth timing."""

CHAINS = 8

Prepare = Callable[[Sequence[tuple[Tensor, Launch]], Where], Commands]


def measure(backend: Backend, traits: DeviceTraits, most: int, prepare: Prepare) -> Roof:
    """Allocates up to BYTES (at most `most`) and frees them. Raises `NoMem`."""
    n_items = items(traits)
    x = leaf("roof", I8, (min(BYTES, most) // (BLOCK * n_items) * BLOCK * n_items,), Role.INPUT)
    y = leaf("roof_sums", F32, (n_items,), Role.INPUT)
    kind = backend.buffer_type(F32, (1, 1, 1, 1))
    places = {}
    with ExitStack() as stack:
        for tensor in (x, y):
            owner = Owner(Component.STAGING, name="for measuring")
            places[tensor] = Location(backend.allocate(kind, tensor.nbytes, owner), 0)
            stack.callback(places[tensor].buffer.free)

        def seconds(launch: Launch) -> float:
            commands = prepare([(y, launch)], places.__getitem__)
            return min(_run(backend, commands) for _ in range(RUNS)) / 1e9

        reading = seconds(read_all(y, x, traits))
        rounds = 1000
        while True:
            computing = seconds(multiply_add(y, rounds, traits))
            if computing * 1e9 >= LONG_ENOUGH:
                break
            rounds *= 4
    flops = 2.0 * rounds * CHAINS * width(traits) * n_items
    return Roof(x.nbytes / reading, flops / computing)


def items(traits: DeviceTraits) -> int:
    """Work-items that fill the device."""
    return traits.compute_units * (4 if traits.items_take_vectors else 2048)


def width(traits: DeviceTraits) -> int:
    """Lanes of an item."""
    return 16 if traits.items_take_vectors else 4


def read_all(y: Tensor, x: Tensor, traits: DeviceTraits) -> Launch:
    """y [items] = sums of parts of x."""
    n = y.shape[0]
    each = x.nbytes // BLOCK // n
    start, step = (each, 1) if traits.items_take_vectors else (1, n)
    args: Args = {"y": y, "x": x, **ints(each=each, start=start, step=step)}
    defines = {} if traits.items_take_vectors else {"SIDE_BY_SIDE": 1}
    return Launch("roof", "read_all", args, (n,), _local(traits), defines)


def multiply_add(y: Tensor, rounds: int, traits: DeviceTraits) -> Launch:
    """y [items] = what is left of many multiplications."""
    args: Args = {"y": y, **ints(rounds=rounds), **floats(factor=0.5)}
    defines = {"W": width(traits)}
    return Launch("roof", "multiply_add", args, (y.shape[0],), _local(traits), defines)


def _local(traits: DeviceTraits) -> tuple[int]:
    return (1 if traits.items_take_vectors else min(64, traits.max_work_group),)


def _run(backend: Backend, commands: Commands) -> int:
    backend.measure(True)
    spans = commands.run_recorded()
    backend.measure(False)
    ((start,), (end,)) = spans().tolist()
    return int(end - start)
