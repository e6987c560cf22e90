"""Whole plans in little memory: random graphs over devices with gaps, in place and in chunks."""

import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.host.backend import HostBackend
from engine.device.backend import Backend, Buffer, BufferType, Component, MemoryPool, Owner
from engine.errors import NoMem
from engine.gguf.formats import F32, Format
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Shape, Tensor, leaf
from engine.scheduler.outline import outline
from engine.scheduler.plan import Planner
from tests.engine.scheduler import shadow
from tests.engine.scheduler.devices import Device, host, place

Array = np.ndarray


class Small(Device):
    """A device whose buffers hold little."""

    def __init__(self, name: str, refuses: Collection[Op], most: int) -> None:
        super().__init__(name, refuses)
        self.most = most

    def buffer_type(self, fmt: Format, shape: Shape, matmul_only: bool = False) -> BufferType:
        return replace(super().buffer_type(fmt, shape, matmul_only), max_size=self.most)


def normed(x: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-3)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


UNARY: dict[Op, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    Op.SCALE: (lambda x: ops.scale(x, 0.5), lambda x: x * 0.5),
    Op.SILU: (ops.silu, lambda x: x / (1 + np.exp(-x))),
    Op.RMS_NORM: (lambda x: ops.rms_norm(x, None, 1e-3), normed),
    Op.SOFTMAX: (ops.softmax, softmax),
    Op.COPY: (lambda x: ops.contiguous(x.permute(1, 0)), np.transpose),
}
BINARY: dict[Op, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Array, Array], Array]]] = {
    Op.ADD: (ops.add, np.add),
    Op.SUB: (ops.sub, np.subtract),
    Op.MATMUL: (ops.matmul, lambda a, b: b @ a.T),
}
VIEWS = {
    Op.PERMUTE: (lambda x: x.permute(1, 0), np.transpose),
    Op.RESHAPE: (lambda x: x.reshape(x.shape[1], x.shape[0]), lambda x: x.reshape(x.shape[::-1])),
    Op.VIEW: (
        lambda x: x.view(0, (x.shape[0], -(-x.shape[1] // 2)), (x.strides[1],)),
        lambda x: x[: -(-len(x) // 2)],
    ),
}


@dataclass
class Node:
    """A tensor and its numbers."""

    tensor: Tensor
    values: Array


def grown(draw: st.DrawFn, nodes: list[Node]) -> None:
    """One more node of what is there, where the shapes fit."""
    a, b = (draw(st.sampled_from(nodes[-6:])) for _ in range(2))
    op = draw(st.sampled_from([*UNARY, *BINARY, *VIEWS]))
    packed = a.tensor.is_contiguous
    if op in UNARY and (packed or op is Op.COPY):
        make, compute = UNARY[op]
        nodes.append(Node(make(a.tensor), compute(a.values)))
    elif op in VIEWS and packed:
        make, compute = VIEWS[op]
        nodes.append(Node(make(a.tensor), compute(a.values)))
    elif op in BINARY and packed and b.tensor.is_contiguous:
        make_two, compute_two = BINARY[op]
        alike = a.tensor.shape == b.tensor.shape
        if op is Op.MATMUL and a.tensor.shape[0] == b.tensor.shape[0]:
            made, values = make_two(a.tensor, b.tensor), compute_two(a.values, b.values)
            nodes.append(Node(ops.softmax(made), softmax(values)))
        elif op is not Op.MATMUL and alike:
            nodes.append(Node(make_two(a.tensor, b.tensor), compute_two(a.values, b.values)))


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Node], Graph]:
    """Inputs with their numbers, and a graph of some nodes made of them."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    nodes = []
    for i, shape in enumerate([(8, 24), (24, 8), (40, 24), (24, 40)]):
        values = rng.standard_normal(shape[::-1])
        nodes.append(Node(leaf(f"x{i}", F32, shape, Role.INPUT), values))
    inputs = list(nodes)
    for _ in range(draw(st.integers(4, 40))):
        grown(draw, nodes)
    made = [n for n in nodes if n.tensor.storage.role is Role.NONE] or [
        Node(ops.scale(nodes[0].tensor, 2), nodes[0].values * 2)
    ]
    wanted = [made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))]
    return [*inputs, *wanted], Graph.of([n.tensor for n in wanted])


SOME_OPS = st.sets(st.sampled_from(sorted([*UNARY, *BINARY])))


@settings(max_examples=75, deadline=None)
@given(programs(), SOME_OPS, SOME_OPS, st.sampled_from([1024, 4096, 1 << 20]))
def test_any_graph_over_any_devices_in_chunks_of_any_size(
    program: tuple[list[Node], Graph], a_lacks: set[Op], b_lacks: set[Op], most: int
) -> None:
    nodes, graph = program
    inputs, wanted = nodes[:4], nodes[4:]
    backends: list[Backend] = [Small("a", a_lacks, most), Device("b", b_lacks), host()]
    made = outline(graph, backends, {})
    shadow.check(made, backends)
    for backend in backends:
        peak = made.peak(backend)
        assert sum(size for _, size in peak.alive) == peak.bound <= peak.size
    if max(made.layouts["a"].chunks, default=0) > most:  # an input or a result larger than that
        with pytest.raises(NoMem, match="one buffer holds no more"):
            Planner(backends, {}).reserve(graph)
        return
    planner = Planner(backends, {})
    plan = planner.plan(0, lambda: graph)
    fed = {n.tensor: n.values for n in inputs if n.tensor in graph.inputs}
    for _ in range(2):
        for node, got in zip(wanted, plan.run(fed), strict=True):
            assert np.allclose(got[0, 0], node.values, rtol=1e-3, atol=1e-4)
    planner.close()
    assert [b.pool.used for b in backends] == [0, 0, 0]


def test_a_chain_of_sums_stays_where_it_is() -> None:
    """Also through a view of all of it; the graph needs its input and one place."""
    backends: list[Backend] = [Device("a"), host()]
    x = leaf("x", F32, (64, 16), Role.INPUT)
    made = ops.scale(x, 2)
    for _ in range(5):
        made = ops.silu(ops.add(made.reshape(16, 64), x.reshape(16, 64)).reshape(64, 16))
    plan = outline(Graph.of([made]), backends, {})
    assert shadow.check(plan, backends) == 10
    assert plan.layouts[backends[0].name].peak == 2 * 4096
    assert plan.layouts[backends[1].name].peak == 0


@pytest.mark.parametrize("why", ["output", "read later", "another view", "strided", "other sizes"])
def test_what_is_wanted_is_not_written_over(why: str) -> None:
    backends: list[Backend] = [Device("a"), host()]
    x = leaf("x", F32, (16, 16), Role.INPUT)
    first = ops.scale(x, 2)
    outputs = []
    if why == "output":
        last, outputs = ops.silu(first), [first]
    elif why == "read later":
        last = ops.add(ops.contiguous(ops.silu(first).permute(1, 0)), first)
    elif why == "another view":
        last = ops.add(first, first.permute(1, 0))
    elif why == "strided":
        last = ops.silu(first.permute(1, 0))
    else:
        last = ops.silu(first.view(0, (16, 8), (64,)))
    plan = outline(Graph.of([last, *outputs]), backends, {})
    assert shadow.check(plan, backends) == (why == "read later")


def test_a_product_is_never_made_in_place() -> None:
    backends: list[Backend] = [Device("a"), host()]
    x = leaf("x", F32, (16, 16), Role.INPUT)
    made = x
    for _ in range(4):
        made = ops.matmul(x, made)
    plan = outline(Graph.of([made]), backends, {})
    assert shadow.check(plan, backends) == 0
    assert plan.layouts[backends[0].name].peak == 3 * 1024


def test_a_tensor_larger_than_a_buffer_is_refused_by_its_name() -> None:
    a, h = Small("a", (), 4096), host()
    x = leaf("x", F32, (16, 16), Role.INPUT)
    wide = ops.repeat(x, 1, 1024).named("wide")
    planner = Planner([a, h], {})
    with pytest.raises(NoMem, match=r"a: no room for graph wide: 1.0 MiB.*one buffer"):
        planner.reserve(Graph.of([ops.matmul(wide, wide.view(0, (16, 4)))]))
    plan = planner.plan(0, lambda: Graph.of([ops.scale(x, 3)]))
    (got,) = plan.run({x: np.ones((1, 1, 16, 16))})
    assert got.sum() == 3 * 256
    planner.close()
    assert a.pool.used == 0


def test_a_plan_stays_where_only_chunks_are_added() -> None:
    a, h = Small("a", (), 4096), host()

    def sums(n: int) -> Graph:
        """A sum of n products that are all there before."""
        x = leaf("x", F32, (16, 16), Role.INPUT)
        made = [ops.matmul(x, x) for _ in range(n)]
        total = made[0]
        for one in made[1:]:
            total = ops.add(total, one)
        return Graph.of([total], made)

    planner = Planner([a, h], {})
    first = planner.plan(3, lambda: sums(3))
    assert first.outline.layouts["a"].chunks == (4096,)
    more = planner.plan(9, lambda: sums(9))
    assert more.outline.layouts["a"].chunks == (4096, 4096, 2048)
    assert planner.plan(3, lambda: sums(3)) is first
    for plan, n in ((first, 3), (more, 9), (first, 3)):
        (got,) = plan.run(dict.fromkeys(plan.outline.graph.inputs, np.eye(16)))
        assert np.array_equal(got[0, 0], n * np.eye(16))
    planner.close()
    assert a.pool.used == 0


def test_the_peak_is_told_with_names() -> None:
    a, h = Device("a"), host()
    w = leaf("w", F32, (64, 256), Role.WEIGHT)
    x = leaf("x", F32, (64, 16), Role.INPUT)
    gate = ops.matmul(w, x).named("gate")
    act = ops.silu(gate).named("act")
    out = ops.contiguous(act.permute(1, 0)).named("out")
    at = place(w, a)
    made = outline(Graph.of([out]), [a, h], {w: at.buffer.type})
    peak = made.peak(a)
    assert peak.node is not None
    assert peak.node.name == "out"
    assert peak.size == peak.bound == 2 * 16384 + 4096
    assert sorted(peak.alive) == [("act", 16384), ("inputs", 4096), ("out", 16384)]
    assert made.peak(h).node is None
    assert made.peak(h).alive == ()


def test_staging_is_never_memory_that_was_freed() -> None:
    """After a growth that was refused, one of the old size is wanted again; and after a close."""
    a, h = Device("a"), KeptHost()
    planner = Planner([a, h], {})

    def inputs_are_staged() -> None:
        x = leaf("x", F32, (64,), Role.INPUT)
        plan = planner.plan(object(), lambda: Graph.of([ops.scale(x, 2)]))
        values = np.arange(64, dtype=np.float32)
        (doubled,) = plan.run({x: values.reshape(1, 1, 1, 64)})
        assert np.array_equal(doubled.ravel(), 2 * values)
        staged = h.staged[-1]
        assert np.array_equal(staged.read(0, values.nbytes).view(np.float32), values)

    inputs_are_staged()
    old = h.held()
    room, h.pool.limit = h.pool.limit, h.pool.used
    many = leaf("many", F32, (64 << 10,), Role.INPUT)
    with pytest.raises(NoMem, match="staging"):
        planner.reserve(Graph.of([ops.scale(many, 2)]))
    assert old() is None  # what is not in the records is not held
    h.pool.limit = room
    inputs_are_staged()
    old = h.held()
    planner.close()
    assert old() is None
    inputs_are_staged()
    planner.close()
    nothing = leaf("w", F32, (8,), Role.WEIGHT)
    planner.placed[nothing] = place(nothing, a)
    planner.plan("no inputs", lambda: Graph.of([ops.scale(nothing, 2)])).run({})
    planner.close()
    assert (len(h.staged), h.pool.used) == (3, 0)
    planner.placed[nothing].buffer.free()


class KeptHost(HostBackend):
    """Keeps what it allocated for staging."""

    def __init__(self) -> None:
        super().__init__(MemoryPool("host", 64 << 20))
        self.staged: list[Buffer] = []

    def held(self) -> weakref.ref[Array]:
        """The memory of the latest, as long as anybody holds it."""
        return weakref.ref(self.staged[-1].view(0, 1).base)  # type: ignore[arg-type]

    def allocate(
        self, buffer_type: BufferType, size: int, owner: Owner, zeros: bool = True
    ) -> Buffer:
        made = super().allocate(buffer_type, size, owner, zeros)
        if owner.component is Component.STAGING:
            self.staged.append(made)
        return made
