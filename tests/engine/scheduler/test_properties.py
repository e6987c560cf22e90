"""What holds for every graph, whatever devices there are and wherever leaves and nodes are put."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.device.backend import Backend, Location
from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.graph import Graph, is_numbered
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.runner.placing.describe import text
from engine.scheduler.assign import CAUSES, Pins
from engine.scheduler.outline import Outline
from engine.scheduler.places import is_placed
from engine.scheduler.plan import Planner
from tests.engine.scheduler.devices import Device, host, place

N = 4
KINDS = ("unary", "binary", "matmul", "softmax", "view", "store", "store elsewhere")
REFUSED = st.sets(st.sampled_from([Op.SCALE, Op.SILU, Op.ADD, Op.MATMUL, Op.SOFTMAX]))


class Case(NamedTuple):
    """A graph, who there is, where leaves lie, what is pinned, and what is fed."""

    graph: Graph
    backends: list[Backend]
    homes: dict[Tensor, Backend]
    mapped: list[Tensor]
    pins: Pins
    values: dict[Tensor, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Nodes over inputs, weights and two caches that are written again and again."""
    inputs = [leaf(f"x{i}", F32, (N, N), Role.INPUT) for i in range(2)]
    ids = leaf("ids", I32, (N,), Role.INPUT)
    weights = [leaf(f"w{i}", F32, (N, N), Role.WEIGHT) for i in range(3)]
    caches = [leaf(f"cache{i}", F32, (N, N), Role.CACHE) for i in range(2)]
    made: list[Tensor] = [*inputs, *weights, *caches]
    stored: list[Tensor] = []
    for i in range(draw(st.integers(2, 25))):
        one, other = (made[draw(st.integers(0, len(made) - 1))] for _ in range(2))
        kind = draw(st.sampled_from(KINDS))
        if kind == "unary":
            new = ops.silu(one) if draw(st.booleans()) else ops.scale(one, 0.5)
        elif kind == "binary":
            new = ops.softcap(ops.add(one, other), 2)
        elif kind == "matmul":
            new = ops.softcap(ops.matmul(ops.contiguous(one), ops.contiguous(other)), 2)
        elif kind == "softmax":  # with gaps between its sources
            new = ops.softmax(ops.contiguous(one), mask=ops.contiguous(other))
        elif kind == "view":
            new = one.permute(1, 0)
        else:
            computed = [t for t in made if t.storage.role is Role.NONE and t.root is None]
            into = caches if kind == "store" or not computed else computed
            new = ops.set_rows(draw(st.sampled_from(into)), ops.contiguous(one), ids)
            stored.append(new)
        made.append(new.named(f"n{i}"))
    graph = Graph.of([ops.scale(made[-1], 1).named("out")], stored)
    devices = [
        Device(f"d{i}", draw(REFUSED), sees_host=draw(st.booleans()))
        for i in range(draw(st.integers(1, 3)))
    ]
    backends: list[Backend] = [*devices, host()]
    homes = {t: draw(st.sampled_from(backends)) for t in (*weights, *caches)}
    mapped = [t for t in weights if draw(st.booleans())]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    values = {t: rng.standard_normal((1, 1, N, N)).astype(np.float32) for t in made[:7]}
    values[ids] = rng.permutation(N).astype(np.int32).reshape(1, 1, 1, N)
    return Case(graph, backends, homes, mapped, _pins(draw, graph, backends), values)


def _pins(draw: st.DrawFn, graph: Graph, backends: list[Backend]) -> Pins:
    """Some nodes that nobody writes into, each on a device that has its kernel."""
    written = {n.storage for n in graph.nodes if n.op not in VIEW_OPS and n.root is not None}
    pins: dict[Tensor | str, Backend] = {}
    for node in graph.nodes:
        able = [b for b in backends if b.supports(node, lambda t: None)]
        free = node.op not in VIEW_OPS and node.storage not in written
        if free and draw(st.integers(0, 3)) == 0:
            numbered = is_numbered(node.name) or draw(st.booleans())
            pins[node if numbered else node.name] = draw(st.sampled_from(able))
    named = [n.name for n in graph.nodes]  # a name must mean one node here
    return {k: b for k, b in pins.items() if not isinstance(k, str) or named.count(k) == 1}


def frozen(graph: Graph) -> list[tuple[object, ...]]:
    """Everything that a scheduler could have changed."""
    return [(t, t.src, t.root, t.name, t.shape, t.op) for t in (*graph.nodes, *graph.leaves)]


@settings(max_examples=150, deadline=None)
@given(cases())
def test_every_plan_can_run_and_gives_the_hosts_numbers(case: Case) -> None:
    before = frozen(case.graph)
    mapped = {t: place(t, case.backends[-1]) for t in case.mapped}
    placed = {
        t: mapped[t] if b.is_host and t in mapped else place(t, b) for t, b in case.homes.items()
    }
    planner = Planner(case.backends, placed, mapped=mapped, pins=case.pins)
    plan = planner.plan(0, lambda: case.graph)
    check(plan.outline, case)
    assert frozen(case.graph) == before
    got = two_runs(planner, case, {**mapped, **placed}, placed, mapped)
    planner.close()

    alone = host()
    own = {t: place(t, alone) for t in case.homes}
    only = Planner([alone], own)
    want = two_runs(only, case, own, own, {})
    only.close()
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def two_runs(
    planner: Planner,
    case: Case,
    leaves: Mapping[Tensor, Location],
    placed: Mapping[Tensor, Location],
    mapped: Mapping[Tensor, Location],
) -> list[np.ndarray]:
    """The outputs of two steps, and what the caches hold after them."""
    for where in (leaves, placed, mapped):
        for tensor, at in where.items():
            at.buffer.write(at.offset, case.values[tensor].reshape(-1).view(np.uint8))
    plan = planner.plan(0, lambda: case.graph)
    fed = {t: case.values[t] for t in case.graph.inputs}
    outputs = [plan.run(fed)[0] for _ in range(2)]
    caches = [t for t in case.graph.leaves if t.role is Role.CACHE]
    return outputs + [placed[t].buffer.read(placed[t].offset, t.nbytes) for t in caches]


def check(made: Outline, case: Case) -> None:
    """The invariants, followed through the plan as it runs."""
    computed = [n for n in case.graph.nodes if n.op not in VIEW_OPS]
    assert [n for part in made.splits for n in part.split.nodes] == computed
    assert text(made.division).count("node #") == len(computed)
    copies = [(c.source, c.target, c.made) for part in made.splits for c in part.split.copies]
    assert len(copies) == len(set(copies))  # each version of a tensor once to a device
    versions: dict[Tensor, int] = {}
    there: dict[tuple[Tensor, Backend], int] = {}
    for number, part in enumerate(made.splits):
        backend = part.split.backend
        for copy in part.split.copies:
            assert copy.target is backend is not copy.origin
            assert made.places.readable(copy.source, backend) is None
            assert copy.made == versions.get(copy.source, -1)
            if is_placed(copy.source) and copy.source not in case.mapped:
                assert copy.origin is case.homes[copy.source]
            there[copy.source, backend] = copy.made
        for node in part.split.nodes:
            assigned = made.assignments[node]
            assert assigned.backend is backend
            assert backend.supports(node, made.places.types_on(backend))
            assert assigned.reason in CAUSES.values()
            wanted = case.pins.get(node, case.pins.get(node.name))
            assert wanted is None or (assigned.backend, assigned.cause) == (wanted, "usr")
            if is_placed(node.storage):
                assert backend is case.homes[node.storage]
            for source in (s.storage for s in node.src if s is not None):
                if made.places.readable(source, backend) is None:
                    assert there[source, backend] == versions.get(source, -1), source
            versions[node.storage] = number
            there[node.storage, backend] = number
