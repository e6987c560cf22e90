"""Buffers, programs and commands on every driver here."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from engine.backends.opencl import commands, program, source
from engine.backends.opencl.buffers import SMALL_READ, Queue
from engine.backends.opencl.commands import prepare
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.launch import Launch
from engine.backends.opencl.program import ProgramKey, Programs
from engine.device.backend import Component, Location, MemoryPool, Owner
from engine.errors import DeviceError, KernelBuildFailed, NoMem
from engine.gguf.formats import F32
from engine.graph.tensor import Role, leaf
from engine.weights import load
from engine.weights.load import Allocation
from tests.engine.runner.failing import fail, n_steps
from tests.kernels.harness import nmse

GRAPH = Owner(Component.GRAPH)
SHAPE = (1, 1, 1, 1)
X = leaf("x", F32, (1,), Role.CACHE)
SOURCE = """
__kernel void scaled(__global char *y, long y_off, __global const char *x, long x_off,
                     __global char *nothing, long nothing_off, int n, float f) {
  const int i = get_global_id(0);
  if (i < n && !nothing)
    ((__global float *)(y + y_off))[i] = f * ((__global const float *)(x + x_off))[i] + BIAS;
}
"""


PACKED = """
typedef struct { long y_off, x_off; int n; long step; float f; int c; } Numbers;
__kernel void scaled(__global char *y, __global const char *x, NUMBERS_GIVEN) {
  const __global float *from = (const __global float *)(x + given.x_off + given.step);
  if (given.n == 3) ((__global float *)(y + given.y_off))[0] = given.f * from[0] + given.c;
}
"""


@pytest.fixture
def pool(backend, monkeypatch):
    """A small pool of the backend's own."""
    own = MemoryPool("test", 8 << 20)
    monkeypatch.setattr(backend, "pool", own)
    return own


@pytest.fixture
def tiny(monkeypatch):
    """A family with one kernel: y = f x + BIAS."""
    monkeypatch.setattr(program, "source", lambda family: SOURCE)


def allocate(backend, size):
    return backend.allocate(backend.buffer_type(F32, SHAPE), size, GRAPH)


def test_write_and_read_at_offsets(backend, pool):
    buffer = allocate(backend, 1000)
    assert not buffer.read(0, 1000).any()  # touched
    data = np.arange(100, dtype=np.uint8)
    buffer.write(333, data)
    assert np.array_equal(buffer.read(333, 100), data)
    assert not buffer.read(0, 333).any()
    assert not buffer.read(433, 567).any()
    assert buffer.read(1000, 0).size == 0
    buffer.write(7, np.array([[1.5, 2.5]], np.float32))
    assert buffer.read(7, 8).view(np.float32).tolist() == [1.5, 2.5]
    with pytest.raises(AssertionError):
        buffer.write(950, data)
    buffer.free()


def test_few_bytes_are_read_by_way_of_pinned_memory(backend, pool, monkeypatch):
    """On GPUs: always the same page; more bytes, and a processor's, go where they are wanted."""
    into, copy = [], cl.enqueue_copy

    def copying(queue, to, *args, **more):
        into.append(to.ctypes.data if isinstance(to, np.ndarray) else None)
        return copy(queue, to, *args, **more)

    data = np.random.default_rng(1).integers(0, 256, 2 * SMALL_READ, np.uint8)
    for pins in (True, False):
        buffer = allocate(backend, data.size)
        buffer.write(0, data)
        buffer.queue = Queue(backend.context, backend.context.devices[0], pins)
        backend.synchronize()
        with monkeypatch.context() as patched:
            patched.setattr(cl, "enqueue_copy", copying)
            reads = [buffer.read(at, size) for at, size in ((8, 512), (99, SMALL_READ))]
            assert np.array_equal(reads[0], data[8:520])
            assert np.array_equal(reads[1], data[99 : 99 + SMALL_READ])
            assert np.array_equal(buffer.read(0, data.size), data)
        own = [read.ctypes.data for read in reads]
        assert (into[0] == into[1] and into[0] not in own) if pins else into[:2] == own
        assert len(into) == 3
        into.clear()
        buffer.free()


def test_pool_counts_and_refuses(backend, pool):
    first = allocate(backend, 5 << 20)
    assert pool.used == backend.used == 5 << 20
    with pytest.raises(NoMem) as refused:
        allocate(backend, 4 << 20)
    assert (refused.value.wanted, refused.value.left) == (4 << 20, 3 << 20)
    first.free()
    first.free()
    assert pool.used == 0
    allocate(backend, 8 << 20).free()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("size", [1 << 10, 3 << 20])  # memory of the driver's, and pages
def test_an_allocation_that_fails_in_any_step_claims_nothing(backend, pool, size):
    owner = Owner(Component.CACHE, 0, own=512, rest=Component.STATE)
    tensors = ((leaf("k", F32, (128,), Role.CACHE), 512), (leaf("s", F32, (128,), Role.CACHE), 512))
    plan = [Allocation(backend, backend.buffer_type(F32, SHAPE), owner, (*tensors, (X, size)))]
    placed = {}

    def work():
        load.allocate(plan, placed)

    n = n_steps(work)
    assert n > 10
    assert pool.taken
    load.free(placed.values())
    for nth in range(1, n + 1):
        placed.clear()
        fail(work, nth, DeviceError(backend.name, "x"))
        load.free(placed.values())
        assert not pool.taken, nth


def test_all_are_freed_where_one_cannot_be(backend, pool, monkeypatch):
    buffers = [allocate(backend, 1 << 10) for _ in range(3)]
    monkeypatch.setattr(pool, "on_change", failing_once())
    with pytest.raises(DeviceError):
        load.free([Location(one, 0) for one in buffers])
    assert not pool.taken


def failing_once():
    errors = [DeviceError("d", "x")]

    def tell(_):
        if errors:
            raise errors.pop()

    return tell


def test_budget_is_a_limit_of_its_own(backend, pool, monkeypatch):
    monkeypatch.setattr(backend, "budget", 3 << 20)
    pool.take("other:0", GRAPH, 1 << 20)
    kept = allocate(backend, 2 << 20)
    with pytest.raises(NoMem, match="budget"):
        allocate(backend, (1 << 20) + 1)
    kept.free()


def test_one_buffer_holds_no_more_than_the_driver_says(backend, pool, monkeypatch):
    monkeypatch.setattr(pool, "limit", 1 << 60)
    with pytest.raises(NoMem, match="one buffer"):
        allocate(backend, backend.info.max_allocation + 1)
    assert pool.used == 0


def test_sizes_are_padded_to_the_alignment(backend):
    kind = backend.buffer_type(F32, SHAPE)
    assert kind.alignment >= 128
    assert backend.allocation_size(kind, F32, (33, 3, 1, 1)) % kind.alignment == 0
    assert backend.allocation_size(kind, F32, (33, 3, 1, 1)) >= 33 * 3 * 4


def prepared(backend, buffers, factor, bias):
    x, y = (leaf(name, F32, (10,), Role.INPUT) for name in "xy")
    places = {x: Location(buffers[0], 64), y: Location(buffers[1], 128)}
    args = arguments(y.view(8, (2,)), x.view(4, (2,)), 2, factor)
    launch = Launch("tiny", "scaled", args, (16,), (8,), {"BIAS": bias})
    return prepared_with(backend, [(y, launch)], places.__getitem__)


def arguments(y, x, n, factor):
    return {"y": y, "x": x, "nothing": None, "n": np.int32(n), "f": np.float32(factor)}


def prepared_with(backend, launches, where):
    """With programs of their own: other tests have other sources under the same keys."""
    return prepare("t", backend.queue, Programs(backend.context, "t"), launches, where, {})


def test_arguments_offsets_of_views_and_defines(backend, pool, tiny):
    source, target = allocate(backend, 512), allocate(backend, 512)
    source.write(64, np.arange(10, dtype=np.float32))
    made = prepared(backend, (source, target), 10.0, 7)
    made.run()
    result = target.read(0, 512).view(np.float32)
    assert result[34:36].tolist() == [17, 27]  # from byte 128 + 8
    assert np.count_nonzero(result) == 2
    source.write(68, np.array([5, 6], np.float32))
    made.run()  # replayed: reads what is there now
    assert target.read(136, 8).view(np.float32).tolist() == [57, 67]
    source.free()
    target.free()


def test_commands_keep_freed_buffers_alive(backend, pool, tiny):
    source, target = allocate(backend, 4096), allocate(backend, 4096)
    made = prepared(backend, (source, target), 1.0, 0)
    source.free()
    target.free()
    del source, target
    gc.collect()
    made.run()  # PoCL would end the process here if the memory were gone
    backend.synchronize()
    assert pool.used == 0


def test_launch_that_does_not_fit_its_kernel(backend, pool, tiny):
    buffer = allocate(backend, 64)
    x = leaf("x", F32, (4,), Role.INPUT)
    enough, few = arguments(x, x, 2, 1), {"y": x}
    for args, local, said in ((few, None, "takes 8 arguments"), (enough, (5,), "not a multiple")):
        launch = Launch("tiny", "scaled", args, (16,), local, {"BIAS": 0})
        with pytest.raises(AssertionError, match=said):
            prepared_with(backend, [(x, launch)], lambda t: Location(buffer, 0))
    buffer.free()


def test_numbers_in_one_struct_lie_as_c_has_them(backend, pool, monkeypatch):
    assert packed(backend, monkeypatch, Programs(backend.context, "t")) == [75]


def test_a_driver_that_refuses_structs_gets_numbers_in_memory(backend, pool, monkeypatch):
    """Rusticl is one; from the first refusal on there is no other."""
    refusals = []
    set_bytes = commands.set_bytes

    def refusing(kernel, i, value):
        if len(value) > 8:
            refusals.append(i)
            value += bytes(8)  # the driver's own word for what has another size
        set_bytes(kernel, i, value)

    monkeypatch.setattr(commands, "set_bytes", refusing)
    programs = Programs(backend.context, "t")
    assert packed(backend, monkeypatch, programs) == [75]
    assert packed(backend, monkeypatch, programs) == [75]
    assert refusals == [2]
    assert programs.numbers_in_memory


@pytest.mark.parametrize(
    ("kind", "platform", "prefetches"),
    [("CPU", "pocl", True), ("CPU", "rusticl", False), ("GPU", "NVIDIA CUDA", False)],
)
def test_only_processors_prefetch(backend, monkeypatch, kind, platform, prefetches):
    """Others may refuse it: rusticl's compiler ends the process."""
    built = []
    handle = SimpleNamespace(
        type=getattr(cl.device_type, kind), platform=SimpleNamespace(name=platform), extensions=""
    )
    programs = Programs(backend.context, "t", backend.context.devices[0])
    monkeypatch.setattr(programs, "_handles", [handle])
    monkeypatch.setattr(program, "has_src_build_cache", lambda handle: True)
    monkeypatch.setattr(programs, "_from_source", lambda key, text, options: built.append(options))
    programs.get(ProgramKey.of("unary", {}))
    assert ("-DNO_PREFETCH" in built[0]) != prefetches


def packed(backend, monkeypatch, programs):
    """Returns the result of a kernel whose numbers are in one struct."""
    monkeypatch.setattr(program, "source", lambda family: source.source("shape") + PACKED)
    buffer = allocate(backend, 256)
    buffer.write(128 + 8, np.array([7], np.float32))
    x, y = leaf("x", F32, (4,), Role.INPUT), leaf("y", F32, (4,), Role.INPUT)
    places = {x: Location(buffer, 128), y: Location(buffer, 64)}
    numbers = {"n": np.int32(3), "step": np.int64(8), "f": np.float32(10), "c": np.int32(5)}
    launch = Launch("tiny", "scaled", {"y": y, "x": x, **numbers}, (1,), packs=True)
    made = prepare("t", backend.queue, programs, [(y, launch)], places.__getitem__, {})
    made.run()
    found = buffer.read(64, 4).view(np.float32).tolist()
    buffer.free()
    return found


def test_build_log_names_file_and_line(backend, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "files", lambda package: tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "common.cl").write_text("#define ONE 1\n\n")
    (tmp_path / "bad.cl").write_text("// first\n__kernel void k() {\n  int x = unknown;\n}\n")
    with pytest.raises(KernelBuildFailed) as failed:
        Programs(backend.context, backend.name).get(ProgramKey.of("bad", {"N": 3}))
    assert "bad.cl:3" in failed.value.log
    assert "unknown" in str(failed.value)
    assert (failed.value.family, failed.value.defines) == ("bad", {"N": 3})


def test_programs_are_built_once_and_in_threads(backend, tiny):
    programs = Programs(backend.context, backend.name)
    told = []
    programs.progress = lambda built, wanted: told.append((built, wanted))
    keys = [ProgramKey.of("tiny", {"BIAS": n}) for n in (1, 2, 3, 1)]
    programs.build_all(keys)
    programs.build_all(keys)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert programs.get(keys[0]) is programs.get(keys[3])


def test_many_launches_run_in_order(backend, pool, tiny, monkeypatch):
    """A chain where each launch reads what the one before it wrote."""
    monkeypatch.setattr(commands, "FIRST_BATCH", 5)
    tensors = [leaf(f"t{i}", F32, (64,), Role.INPUT) for i in range(40)]
    buffer = allocate(backend, 40 * 256)
    places = {t: Location(buffer, 256 * i) for i, t in enumerate(tensors)}
    launches = [
        (b, Launch("tiny", "scaled", arguments(b, a, 64, 1), (64,), None, {"BIAS": 1}))
        for a, b in zip(tensors, tensors[1:], strict=False)
    ]
    x = np.linspace(0, 1, 64, dtype=np.float32)
    buffer.write(0, x)
    prepared_with(backend, launches, places.__getitem__).run()
    backend.synchronize()
    assert nmse(buffer.read(39 * 256, 256).view(np.float32), x.astype(np.float64) + 39) < 1e-13
    buffer.free()


def test_no_event_and_no_times_unless_somebody_measures(backend, pool, tiny, monkeypatch):
    """A launch is queued without an event; to measure changes the queue, not the order."""
    events = []
    enqueue = cl.enqueue_nd_range_kernel

    def counting(*args):
        events.append(enqueue(*args))
        return events[-1]

    monkeypatch.setattr(commands.cl, "enqueue_nd_range_kernel", counting)
    source, target = allocate(backend, 512), allocate(backend, 512)
    source.write(64, np.arange(10, dtype=np.float32))
    made = prepared(backend, (source, target), 10.0, 7)
    made.run()
    assert not events
    assert not backend.queue.now.properties & cl.command_queue_properties.PROFILING_ENABLE
    source.write(68, np.array([5, 6], np.float32))
    backend.measure(True)
    spans = made.run_recorded()
    assert len(events) == 1
    backend.measure(False)
    ((start,), (end,)) = spans().tolist()
    assert 0 < start <= end
    assert target.read(136, 8).view(np.float32).tolist() == [57, 67]
    source.write(68, np.array([1, 2], np.float32))
    made.run()
    assert target.read(136, 8).view(np.float32).tolist() == [17, 27]
    assert len(events) == 1
    source.free()
    target.free()


def test_a_launch_that_a_driver_refuses_is_an_error(backend, pool, tiny):
    """By the driver's own word, also where there is no event."""
    buffer = allocate(backend, 512)
    x = leaf("x", F32, (4,), Role.INPUT)
    most = backend.info.traits.max_work_group
    launch = Launch("tiny", "scaled", arguments(x, x, 2, 1), (4 * most,), (4 * most,), {"BIAS": 0})
    made = prepared_with(backend, [(x, launch)], lambda t: Location(buffer, 0))
    with pytest.raises(DeviceError, match="INVALID_WORK_GROUP_SIZE"):
        made.run()
    buffer.free()
