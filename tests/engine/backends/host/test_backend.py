"""Memory of the host backend: zeroed, counted, refused, mapped."""

import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.device.backend import Component, Location, MemoryPool, Owner
from engine.errors import DeviceError, NoMem
from engine.gguf.formats import F32, Q4_1, Format
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import LOWERED_OPS, Op
from engine.graph.tensor import Role, leaf

OWNER = Owner(Component.CACHE, 3)


def test_allocation_is_zeroed_counted_and_given_back_once(host: HostBackend) -> None:
    kind = host.buffer_type(F32, (1, 1, 1, 1))
    buffer = host.allocate(kind, 1000, OWNER)
    assert not buffer.read(0, 1000).any()
    assert host.pool.taken == {("host", OWNER): 1000}
    buffer.write(10, np.arange(5, dtype=np.uint8))
    assert buffer.read(8, 8).tolist() == [0, 0, 0, 1, 2, 3, 4, 0]
    buffer.free()
    buffer.free()
    assert host.pool.used == 0


def test_the_pool_refuses_before_anything_is_allocated() -> None:
    host = HostBackend(MemoryPool("small", 1 << 20))
    kind = host.buffer_type(F32, (1, 1, 1, 1))
    kept = host.allocate(kind, 3 << 18, OWNER)
    with pytest.raises(NoMem, match=r"host: no room for cache of layer 3: 0.5 MiB wanted, 0.2 MiB"):
        host.allocate(kind, 1 << 19, OWNER)
    assert host.pool.used == 3 << 18
    kept.free()


def test_reading_is_a_copy(host: HostBackend) -> None:
    buffer = host.allocate(host.buffer_type(F32, (1, 1, 1, 1)), 8, OWNER)
    before = buffer.read(0, 8)
    buffer.write(0, np.ones(8, np.uint8))
    assert not before.any()
    buffer.free()


@pytest.mark.parametrize(
    ("fmt", "shape", "size"), [(F32, (3, 1, 1, 1), 64), (Q4_1, (64, 5, 1, 1), 256)]
)
def test_sizes_are_padded_to_the_alignment(
    host: HostBackend, fmt: Format, shape: tuple[int, int, int, int], size: int
) -> None:
    kind = host.buffer_type(fmt, shape)
    assert host.allocation_size(kind, fmt, shape) == size
    assert size % kind.alignment == 0


def test_a_map_is_used_in_place_and_not_counted(host: HostBackend) -> None:
    data = np.frombuffer(np.arange(12, dtype=np.float32).tobytes(), np.uint8).reshape(3, 16)
    at = host.map(data)
    assert host.pool.used == 0
    assert np.shares_memory(at.buffer.bytes, data)
    assert at.buffer.type.is_host
    with pytest.raises(DeviceError, match="mapped file"):
        at.buffer.write(0, np.zeros(1, np.uint8))

    w, x = leaf("w", F32, (4, 3), Role.WEIGHT), leaf("x", F32, (4,), Role.INPUT)
    y = ops.matmul(w, x)
    kind = host.buffer_type(F32, (1, 1, 1, 1))
    arena = host.allocate(kind, 256, OWNER)
    arena.write(0, np.ones(4, np.float32).view(np.uint8))
    places = {w: at, x: Location(arena, 0), y: Location(arena, 64)}
    host.compile([y], places.__getitem__).run()
    assert arena.read(64, 12).view(np.float32).tolist() == [6, 22, 38]
    arena.free()


def test_every_operation_that_a_model_can_make_is_supported(host: HostBackend) -> None:
    made = set(Op) - LOWERED_OPS - {Op.NONE}
    x = leaf("x", F32, (2,), Role.INPUT)
    for op in made:
        node = ops.scale(x, 1)
        object.__setattr__(node, "op", op)
        assert host.supports(node, {}.get), op


def test_lowering_changes_nothing_and_views_need_no_command(host: HostBackend) -> None:
    x = leaf("x", F32, (2, 2), Role.INPUT)
    graph = Graph.of([ops.scale(x.permute(1, 0), 2.0).reshape(4)])
    assert host.lower(graph.nodes, {}.get) == graph.nodes
    kind = host.buffer_type(F32, (1, 1, 1, 1))
    arena = host.allocate(kind, 128, OWNER)
    arena.write(0, np.float32([1, 2, 3, 4]).view(np.uint8))
    offsets = {x: 0, graph.nodes[1]: 64}
    commands = host.compile(graph.nodes, lambda t: Location(arena, offsets[t]))
    for _ in range(2):
        commands.run()
    assert arena.read(64, 16).view(np.float32).tolist() == [2, 6, 4, 8]
    arena.free()
