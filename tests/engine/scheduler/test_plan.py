"""Plans that run: the same numbers as NumPy, whatever device computes which node."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.device.backend import Backend
from engine.errors import NoMem
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.scheduler.plan import Planner
from tests.engine.scheduler.devices import Device, host, place

E, T = 8, 3


def fill(tensor: Tensor, at, rng: np.random.Generator) -> np.ndarray:
    values = rng.standard_normal(tensor.shape[::-1]).astype(np.float32)
    at.buffer.write(at.offset, values.reshape(-1).view(np.uint8))
    return values.astype(np.float64)


@pytest.fixture
def two() -> Iterator[list[Backend]]:
    """A device that lacks an activation, another, and the host."""
    backends: list[Backend] = [Device("a", {Op.SILU}), Device("b"), host()]
    yield backends
    assert [b.pool.used for b in backends] == [0, 0, 0]


def test_two_devices_and_the_host_compute_one_graph(two: list[Backend]) -> None:
    """A feed-forward over two devices, with the embedding on the host and a refused activation."""
    a, b, h = two
    rng = np.random.default_rng(20)
    table, w1, w2 = (
        leaf("table", F32, (E, 11), Role.WEIGHT),
        leaf("w1", F32, (E, 16), Role.WEIGHT),
        leaf("w2", F32, (16, E), Role.WEIGHT),
    )
    placed = {table: place(table, h), w1: place(w1, a), w2: place(w2, b)}
    t, m1, m2 = (fill(tensor, at, rng)[0, 0] for tensor, at in placed.items())
    ids = leaf("ids", I32, (T,), Role.INPUT)
    x = ops.rows(table, ids)
    out = ops.add(ops.matmul(w2, ops.silu(ops.matmul(w1, x))), x)

    planner = Planner(two, placed)
    plan = planner.plan("ffn", lambda: Graph.of([out]))
    assert [s.split.backend.name for s in plan.outline.splits] == ["host", "a", "b"]
    for step in range(3):  # replayed with other inputs
        chosen = rng.integers(0, 11, T).astype(np.int32)
        (got,) = plan.run({ids: chosen.reshape(1, 1, 1, T)})
        e = t[chosen]
        z = e @ m1.T
        want = (z / (1 + np.exp(-z))) @ m2.T + e
        assert got.shape == (1, 1, T, E)
        assert np.allclose(got[0, 0], want, rtol=1e-5, atol=1e-5), step
    planner.close()
    for at in placed.values():
        at.buffer.free()


def test_a_cache_keeps_what_earlier_runs_wrote(two: list[Backend]) -> None:
    """Written on its device, read by a node that this device refuses."""
    a, _, h = two
    cache = leaf("cache", F16, (4, 6), Role.CACHE)
    placed = {cache: place(cache, a)}
    values, row = leaf("v", F32, (4, 1), Role.INPUT), leaf("row", I32, (1,), Role.INPUT)
    out = ops.silu(ops.set_rows(cache, values, row).view(0, (4, 2), (8,)))
    planner = Planner(two, placed)
    plan = planner.plan("step", lambda: Graph.of([out]))
    x = np.float32([[1, 2, 3, 4]])
    plan.run({values: x, row: np.int32([0])})
    (got,) = plan.run({values: 10 * x, row: np.int32([1])})
    want = np.vstack([x, 10 * x])
    assert np.allclose(got[0, 0], want / (1 + np.exp(-want)), rtol=1e-3)
    planner.close()
    placed[cache].buffer.free()


def test_outputs_may_be_views_and_several(two: list[Backend]) -> None:
    x = leaf("x", F32, (E, T), Role.INPUT)
    double = ops.scale(x, 2)
    turned, part = double.permute(1, 0), double.view(E * 4, (4, 2), (E * 4,))
    planner = Planner(two, {})
    values = np.arange(E * T, dtype=np.float32).reshape(1, 1, T, E)
    got = planner.plan(0, lambda: Graph.of([turned, part, double])).run({x: values})
    assert np.array_equal(got[0], 2 * values.swapaxes(2, 3))
    assert np.array_equal(got[1][0, 0], 2 * values[0, 0, 1:3, :4])
    assert np.array_equal(got[2], 2 * values)
    planner.close()


def test_what_a_run_returned_is_not_changed_by_the_next(two: list[Backend]) -> None:
    x = leaf("x", F32, (2,), Role.INPUT)
    planner = Planner(two, {})
    plan = planner.plan(0, lambda: Graph.of([ops.scale(x, 1)]))
    (first,) = plan.run({x: np.float32([1, 2])})
    plan.run({x: np.float32([3, 4])})
    assert first.reshape(-1).tolist() == [1, 2]
    planner.close()


def doubling(n: int) -> Graph:
    return Graph.of([ops.scale(leaf("x", F32, (n,), Role.INPUT), 2)])


def test_plans_are_kept_until_the_arena_grows(two: list[Backend]) -> None:
    planner = Planner(two, {})
    small = planner.plan("small", lambda: doubling(64))
    assert planner.plan("small", lambda: pytest.fail("built twice")) is small
    planner.plan("large", lambda: doubling(4096))
    again = planner.plan("small", lambda: doubling(64))
    assert again is not small
    (x,) = again.outline.graph.inputs
    (got,) = again.run({x: np.ones(64, np.float32)})
    assert got.sum() == 128
    planner.close()


def test_the_least_recently_used_plan_is_dropped(two: list[Backend]) -> None:
    planner = Planner(two, {}, capacity=2)
    planner.reserve(doubling(64))
    first, second = (planner.plan(k, lambda: doubling(64)) for k in (1, 2))
    assert planner.plan(1, lambda: doubling(64)) is first
    planner.plan(3, lambda: doubling(64))
    assert planner.plan(1, lambda: doubling(64)) is first
    assert planner.plan(2, lambda: doubling(64)) is not second
    planner.close()


def test_reserving_takes_what_the_outline_says_and_allocates_nothing_before() -> None:
    a, h = Device("a"), host()
    planner = Planner([a, h], {})
    made = planner.outline(doubling(1000))
    assert a.pool.used == 0
    planner.reserve(doubling(1000))
    assert a.pool.used == made.layouts[a.name].peak
    assert a.pool.used >= 8000
    planner.close()
    assert (a.pool.used, h.pool.used) == (0, 0)


def test_an_arena_past_the_devices_room_is_refused() -> None:
    a, h = Device("a", room=1 << 20), host()
    planner = Planner([a, h], {})
    with pytest.raises(NoMem, match="a: no room for graph"):
        planner.reserve(doubling(1 << 20))
    assert a.pool.used == 0
    planner.reserve(doubling(1 << 10))
    planner.close()


UNARY = {Op.SCALE: lambda x: x * np.float32(0.5), Op.SOFTCAP: lambda x: 3 * np.tanh(x / 3)}
BINARY = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply}
MAKE = {
    Op.SCALE: lambda x: ops.scale(x, 0.5),
    Op.SOFTCAP: lambda x: ops.softcap(x, 3),
    Op.ADD: ops.add,
    Op.SUB: ops.sub,
    Op.MUL: ops.mul,
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_graph_over_any_devices_gives_numpys_numbers(data: st.DataObject) -> None:
    """Random graphs, views among them, over devices with random gaps."""
    draw = data.draw
    some_ops = st.sets(st.sampled_from(sorted(MAKE)))
    backends: list[Backend] = [Device("a", draw(some_ops)), Device("b", draw(some_ops)), host()]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    tensors = [leaf(f"x{i}", F32, (4, 4), Role.INPUT) for i in range(2)]
    fed = {t: rng.standard_normal((1, 1, 4, 4)).astype(np.float32) for t in tensors}
    values = [fed[t][0, 0].astype(np.float64) for t in tensors]
    for _ in range(draw(st.integers(1, 25))):
        op = draw(st.sampled_from([*MAKE, Op.PERMUTE]))
        i, j = (draw(st.integers(0, len(tensors) - 1)) for _ in range(2))
        if op is Op.PERMUTE:
            tensors.append(tensors[i].permute(1, 0))
            values.append(values[i].T)
        elif op in UNARY:
            tensors.append(MAKE[op](tensors[i]))
            values.append(UNARY[op](values[i]))
        else:
            tensors.append(ops.softcap(MAKE[op](tensors[i], tensors[j]), 3))
            values.append(UNARY[Op.SOFTCAP](BINARY[op](values[i], values[j])))
    outputs = [i for i, t in enumerate(tensors) if t.storage.role is Role.NONE][-3:]
    if not outputs:
        return
    planner = Planner(backends, {})
    graph = Graph.of([tensors[i] for i in outputs])
    plan = planner.plan(0, lambda: graph)
    used = {t: fed[t] for t in graph.inputs}
    for _ in range(2):
        for i, got in zip(outputs, plan.run(used), strict=True):
            assert np.allclose(got[0, 0], values[i], rtol=1e-4, atol=1e-5)
    planner.close()
    assert [b.pool.used for b in backends] == [0, 0, 0]
