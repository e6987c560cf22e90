"""Copies between real devices: straight, through the host, to it and from it; and their times."""

import contextlib
from collections.abc import Iterator
from time import perf_counter_ns

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.opencl import buffers
from engine.backends.opencl.backend import OpenCLBackend, open_together
from engine.backends.opencl.drivers.device import find_devices
from engine.device.backend import Backend, Buffer, Commands, Component, Location, Owner, Ran
from engine.errors import NotSupported
from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.scheduler.assign import Pins
from engine.scheduler.plan import Planner
from engine.scheduler.record import Recorder, Recording
from tests.bounds import holds_once

N = 64
pytestmark = pytest.mark.device


def each_driver() -> list[str]:
    """The first device of every driver."""
    firsts: dict[str, str] = {}
    for device in find_devices():
        if not device.info.problem:
            firsts.setdefault(device.info.platform, device.info.name)
    return list(firsts.values())


@pytest.fixture(params=each_driver())
def one(request: pytest.FixtureRequest) -> Iterator[OpenCLBackend]:
    """A device of every driver in turn."""
    with opened(request.param) as (backend,):
        yield backend


@pytest.fixture
def two() -> Iterator[list[OpenCLBackend]]:
    """Devices of two drivers."""
    names = each_driver()
    if len(names) < 2:
        pytest.skip("needs two drivers: the extras cpu and pocl")
    with opened(*names[:2]) as backends:
        yield backends


@contextlib.contextmanager
def opened(*names: str) -> Iterator[list[OpenCLBackend]]:
    """Devices, opened together."""
    backends = open_together([d for d in find_devices() if d.info.name in names])
    yield backends
    for backend in backends:
        backend.close()


def twin(backend: OpenCLBackend) -> OpenCLBackend:
    """Another queue of the same device in the same context: a second device of its driver."""
    device = next(d for d in find_devices() if d.info.name == backend.name)
    made = OpenCLBackend(device, context=backend.context)
    made.name = f"{backend.name}-twin"
    return made


def put(tensor: Tensor, backend: Backend, values: np.ndarray) -> Location:
    kind = backend.buffer_type(tensor.fmt, tensor.shape)
    size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
    at = Location(backend.allocate(kind, size, Owner(Component.WEIGHTS)), 0)
    at.buffer.write(0, np.ascontiguousarray(values).reshape(-1).view(np.uint8))
    return at


def room(backend: Backend, size: int) -> Buffer:
    kind = backend.buffer_type(F32, (1, 1, 1, 1))
    return backend.allocate(kind, size, Owner(Component.STAGING))


def test_writes_and_reads_that_are_waited_for_later(
    one: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces too; an event knows when it was, on the host's clock."""
    monkeypatch.setattr(buffers, "PIECE", 1000)
    for backend in (one, HostBackend()):
        start = perf_counter_ns()
        backend.measure(True)
        buffer = room(backend, 8192)
        sent = np.random.default_rng(4).integers(0, 256, 5003).astype(np.uint8)
        got = np.zeros(5003, np.uint8)
        events = [buffer.start_write(77, sent), buffer.start_read(77, got)]
        for event in events:
            event.wait()
        assert np.array_equal(got, sent)
        assert not buffer.read(0, 77).any()
        assert not buffer.read(77 + 5003, 8192 - 77 - 5003).any()
        buffer.free()
        unsure = 10**9  # when exactly something was queued, on a machine that is busy
        for begin, end in (event.span() for event in events):
            assert start - unsure < begin <= end < perf_counter_ns() + unsure
        backend.measure(False)


def test_what_a_device_cannot_do_is_refused(one: OpenCLBackend) -> None:
    here, host_bytes = room(one, 64), room(HostBackend(), 64)
    with pytest.raises(NotSupported, match=f"touching the memory of {one.name}"):
        here.view(0, 64)
    with pytest.raises(NotSupported, match="marking the queue"):
        host_bytes.mark()
    for buffer in (here, host_bytes):
        buffer.free()


def there_and_back(backends: list[Backend], hops: int) -> tuple[Graph, Pins, Tensor]:
    """A sum that goes round the backends, each adding what the one before made and the start."""
    x = leaf("x", F32, (N, N), Role.INPUT)
    made = start = ops.scale(x, 1).named("start")
    pins: dict[Tensor | str, Backend] = {"start": backends[0]}
    for i in range(hops):
        made = ops.add(ops.scale(made, 0.5).named(f"half{i}"), start).named(f"sum{i}")
        pins[f"half{i}"] = pins[f"sum{i}"] = backends[(i + 1) % len(backends)]
    return Graph.of([made]), pins, x


def check_round(backends: list[Backend]) -> None:
    graph, pins, x = there_and_back(backends, 40)
    pool = backends[-1].pool
    planner = Planner(backends, {}, pins=pins)
    plan = planner.plan(0, lambda: graph)
    for seed in range(20):
        values = np.random.default_rng(seed).standard_normal((1, 1, N, N)).astype(np.float32)
        want = values
        for _ in range(40):
            want = want / 2 + values
        (got,) = plan.run({x: values})
        np.testing.assert_allclose(got, want, rtol=1e-6)
    staged = {o.component: n for (name, o), n in pool.taken.items() if name == backends[-1].name}
    assert staged[Component.STAGING] == plan.outline.staging.peak
    planner.close()


def test_between_devices_of_one_context_nothing_passes_the_host(one: OpenCLBackend) -> None:
    other = twin(one)
    graph, pins, _ = there_and_back([one, other], 5)
    planner = Planner([one, other, HostBackend()], {}, pins=pins)
    made = planner.outline(graph)
    assert not any(copy.staged for part in made.splits for copy in part.split.copies)
    assert made.staging.peak == made.staging.reserved
    check_round([one, other, HostBackend()])


def test_between_vendors_and_the_host(two: list[OpenCLBackend]) -> None:
    graph, pins, _ = there_and_back([*two], 5)
    made = Planner([*two, HostBackend()], {}, pins=pins).outline(graph)
    copies = [copy for part in made.splits for copy in part.split.copies if copy.origin]
    assert copies
    assert all(copy.staged for copy in copies)
    assert made.staging.peak > made.staging.reserved
    check_round([*two, HostBackend()])


def test_a_cache_written_again_is_copied_again(two: list[OpenCLBackend]) -> None:
    a, b = two
    cache = leaf("cache", F32, (N, 4), Role.CACHE)
    x, row = leaf("x", F32, (N, 1), Role.INPUT), leaf("row", I32, (1,), Role.INPUT)
    first = ops.set_rows(cache, x, row).named("first")
    seen = ops.scale(first.view(0, (N, 4)), 1).named("seen")
    second = ops.set_rows(cache, ops.scale(seen.view(0, (N, 1)), 10).named("ten"), row)
    again = ops.scale(second.named("second").view(0, (N, 4)), 1).named("again")
    placed = {cache: put(cache, a, np.zeros((4, N), np.float32))}
    pins: Pins = {"seen": b, "ten": b, "again": b}
    planner = Planner([a, b, HostBackend()], placed, pins=pins)
    plan = planner.plan(0, lambda: Graph.of([again, seen]))
    for value in (1, 2):
        ones = np.full((1, 1, 1, N), value, np.float32)
        got, before = plan.run({x: ones, row: np.zeros((1, 1, 1, 1), np.int32)})
        assert np.unique(before[0, 0, 0]).tolist() == [value]
        assert np.unique(got[0, 0, 0]).tolist() == [10 * value]
    planner.close()
    placed[cache].buffer.free()


def test_a_mapped_table_is_read_where_it_lies(one: OpenCLBackend, tmp_path: object) -> None:
    """At any offset in the file, and nothing is allocated for it."""
    if not one.info.traits.is_cpu:
        pytest.skip("the device has memory of its own")
    h = HostBackend()
    values = np.arange(3 * N * 40, dtype=np.float32)
    file = np.memmap(f"{tmp_path}/file", np.uint8, "w+", shape=(32 + values.nbytes,))
    file[32:] = values.view(np.uint8)
    table, ids = leaf("table", F32, (N, 3 * 40), Role.WEIGHT), leaf("ids", I32, (2,), Role.INPUT)
    out = ops.scale(ops.rows(table, ids).named("rows"), 2).named("out")
    planner = Planner([one, h], {table: h.map(file[32:])}, pins={"out": one})
    plan = planner.plan(0, lambda: Graph.of([out]))
    assert plan.outline.assignments[out.src[0]].cause == "3.upg"
    assert one.used == plan.outline.layouts[one.name].peak
    (got,) = plan.run({ids: np.int32([[[[1, 119]]]])})
    np.testing.assert_array_equal(got[0, 0], 2 * values.reshape(120, N)[[1, 119]])
    planner.close()


def heavy(name: str, pins: dict[Tensor | str, Backend], on: Backend, x: Tensor) -> Tensor:
    """Products that take a device some ten milliseconds."""
    made = x
    for i in range(8):
        made = ops.softcap(ops.matmul(x, made).named(f"{name}{i}"), 1).named(f"{name}{i}c")
        pins[f"{name}{i}"] = pins[f"{name}{i}c"] = on
    return made


def times_are_the_devices_own(backend: OpenCLBackend, other: OpenCLBackend) -> None:
    """A split's compute time is what it takes when somebody waits for it, nearly."""
    x = leaf("x", F32, (512, 512), Role.INPUT)
    pins: dict[Tensor | str, Backend] = {}
    out = ops.scale(heavy("n", pins, backend, x), 1).named("out")
    pins["out"] = other
    with contextlib.closing(Planner([backend, other, HostBackend()], {}, pins=pins)) as planner:
        plan = planner.plan(0, lambda: Graph.of([out]))
        fed = {x: np.full((1, 1, 512, 512), 1e-3, np.float32)}
        plan.run(fed)
        started = perf_counter_ns()
        recording = Recording()
        plan.run(fed, recording)
        took = perf_counter_ns() - started
        computing, last = recording.splits()
        assert (computing.device, last.device) == (backend.name, other.name)
        assert took / 2 < computing.compute_ns < took
        assert (computing.copies, computing.copied) == (1, plan.outline.input_block)
        assert (last.copies, last.copied) == (1, 512 * 512 * 4)
        assert 0 < last.copy_ns < took
        for moved in recording.copies():
            assert all(0 <= end - begin < took for begin, end in moved.parts)
            assert all(abs(end - started - took / 2) < took for _, end in moved.parts)


def work_overlaps(a: OpenCLBackend, b: OpenCLBackend) -> None:
    """Two halves of a graph that do not need each other run at once."""
    x = leaf("x", F32, (512, 512), Role.INPUT)
    pins: dict[Tensor | str, Backend] = {}
    out = ops.add(heavy("a", pins, a, x), heavy("b", pins, b, x)).named("out")
    with contextlib.closing(Planner([a, b, HostBackend()], {}, pins=pins | {"out": b})) as planner:
        plan = planner.plan(0, lambda: Graph.of([out]))
        fed = {x: np.full((1, 1, 512, 512), 1e-3, np.float32)}
        plan.run(fed)
        recording = Recording()
        plan.run(fed, recording)
        spans: dict[str, list[Ran]] = {}
        for _, device, ran in recording.launches():
            spans.setdefault(device, []).append(ran)
        first, second = spans[a.name], spans[b.name]
        assert second[0].start < first[-1].end


@pytest.mark.alone
def test_a_copy_does_not_hold_up_the_clock(two: list[OpenCLBackend]) -> None:
    holds_once(lambda: times_are_the_devices_own(*two))


@pytest.mark.alone
def test_devices_compute_at_once(two: list[OpenCLBackend]) -> None:
    holds_once(lambda: work_overlaps(*two))


@pytest.mark.alone
def test_a_clock_of_the_host_is_found_out(
    two: list[OpenCLBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 15: what the first scheduler measured, the time to queue."""

    def queueing(self: Recording, split: int, device: str, commands: Commands) -> None:
        start = perf_counter_ns()
        commands.run_recorded()
        end = perf_counter_ns()
        n = len(commands.launched)
        spans = np.array([[start] * n, [start] * (n - 1) + [end]])
        self._running.append((split, device, commands, lambda: spans))

    monkeypatch.setattr(Recording, "run", queueing)
    with pytest.raises(AssertionError):
        times_are_the_devices_own(*two)


@pytest.mark.alone
def test_waiting_after_every_split_is_found_out(
    two: list[OpenCLBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 15: everything effectively synchronous."""
    real = Recording.run

    def waiting(self: Recorder, split: int, device: str, commands: Commands) -> None:
        real(self, split, device, commands)
        for backend in two:
            backend.synchronize()

    monkeypatch.setattr(Recording, "run", waiting)
    with pytest.raises(AssertionError):
        work_overlaps(*two)
