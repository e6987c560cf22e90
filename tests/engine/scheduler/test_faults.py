"""The faults of ggml's first scheduler: each has a check, and a variant of ours that has the fault
and does not pass it.

Three have no check. 9, a metadata context that overflows and causes in a fixed global table: what
is known of a plan is kept in Python's dicts, which grow, one set a plan. 11, a backend that is not
in the list, whose priority became an index: backends are looked up by name, and a leaf that lies
elsewhere is a KeyError before anything runs. 12, a context passed for a backend: there are no
untyped pointers to mix up, and mypy checks the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from engine.device.backend import Backend
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.runner.placing.describe import text
from engine.scheduler import assign, outline, places, split
from engine.scheduler.assign import NO_PINS
from engine.scheduler.plan import Planner
from tests.engine.scheduler.devices import Device, host, place, placements, types_of

Patch = Callable[[pytest.MonkeyPatch], None]


def weight(name: str, *shape: int) -> Tensor:
    return leaf(name, F32, shape, Role.WEIGHT)


def given(name: str, *shape: int) -> Tensor:
    return leaf(name, F32, shape, Role.INPUT)


def outlined(
    graph: Graph, backends: list[Backend], where: dict[Tensor, Backend]
) -> outline.Outline:
    return outline.outline(graph, backends, types_of(where))


def computed(planner: Planner, graph: Graph) -> np.ndarray:
    """The output for an input of ones."""
    made = planner.plan(graph, lambda: graph)
    (x,) = graph.inputs
    (got,) = made.run({x: np.ones(x.shape[::-1], np.float32)})
    return got


def pins_are_lost() -> None:
    a, b, h = Device("a"), Device("b"), host()
    planner = Planner([a, b, h], {}, pins={"mid": b})
    for n in (8, 8, 4096, 16):  # the third grows the arenas, after which all is planned anew
        x = given("x", n)
        out = ops.scale(ops.scale(ops.scale(x, 2).named("first"), 2).named("mid"), 2).named("last")
        assert computed(planner, Graph.of([out])).sum() == 8 * n
        made = planner.outline(Graph.of([out])).assignments
        chosen = {t.name: (made[t].backend.name, made[t].cause) for t in made}
        assert chosen["mid"] == ("b", "usr")
        assert chosen["first"] == ("b", "2.use")
    planner.close()


def lose_pins(patch: pytest.MonkeyPatch) -> None:
    real = Planner.outline

    def forgetful(self: Planner, graph: Graph) -> outline.Outline:
        made = real(self, graph)
        self._pins = NO_PINS
        return made

    patch.setattr(Planner, "outline", forgetful)


def sources_behind_a_gap() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w1, w2 = given("x", 4, 4), weight("w1", 4, 4), weight("w2", 4, 4)
    mask = ops.matmul(w2, x).named("mask")
    out = ops.softmax(ops.matmul(w1, x).named("scores"), mask=mask).named("out")
    assert out.src[1] is None
    made = outlined(Graph.of([out]), [a, b, h], {w1: a, w2: b})
    copies = [c.name for part in made.splits for c in part.split.copies]
    assert copies.count("a#mask") + copies.count("b#scores") == 1


def stop_at_gaps(patch: pytest.MonkeyPatch) -> None:
    def until_none(node: Tensor) -> list[tuple[int, Tensor]]:
        found = []
        for i, source in enumerate(node.src):
            if source is None:
                break
            found.append((i, source))
        return found

    for module in (places, assign, split):
        patch.setattr(module, "sources", until_none)


def nodes_ahead_of_the_first_weight() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w = given("x", 4, 2), weight("w", 4, 4)
    second = ops.scale(ops.scale(x, 2).named("first"), 2).named("second")
    got = placements(Graph.of([ops.matmul(w, second).named("mm")]), [a, b, h], {w: b})
    assert got == {"first": ("b", "2.use"), "second": ("b", "2.use"), "mm": ("b", "1.wgt0")}


def look_down_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign.Passes, "up", lambda self: None)


def what_a_device_refuses() -> None:
    a, b, h = Device("a", {Op.SILU}), Device("b"), host()
    x, w = given("x", 4, 2), weight("w", 4, 4)
    out = ops.silu(ops.matmul(w, x).named("mm")).named("act")
    got = placements(Graph.of([out]), [a, b, h], {w: a})
    assert got == {"mm": ("a", "1.wgt0"), "act": ("b", "3.sup")}


def ask_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign.Passes, "able", lambda self, backend, unit: True)


def small_tensors_pull_nothing() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w = given("x", 4, 2, 3), weight("w", 4, 4)
    sinks, gate, table = weight("sinks", 3), weight("gate", 1), weight("table", 4, 2)
    scores = ops.softmax(ops.matmul(w, x).named("mm"), sinks=sinks).named("scores")
    turned = ops.rope(scores.reshape(4, 3, 2), table, False).named("turned")
    out = ops.mul(turned, gate).named("out")
    got = placements(Graph.of([out]), [a, b, h], {w: a, sinks: b, gate: b, table: b})
    assert {name: device for name, (device, _) in got.items()} == dict.fromkeys(got, "a")


def all_weights_pull(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assign, "SIDE_SOURCES", frozenset())


def one_copy_for_many_readers() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w1, w2 = given("x", 4, 2), weight("w1", 4, 4), weight("w2", 4, 4)
    shared = ops.matmul(w1, x).named("shared")
    total = ops.matmul(w2, shared)
    for _ in range(20):
        total = ops.add(total, ops.matmul(w2, shared))
    made = outlined(Graph.of([total]), [a, b, h], {w1: a, w2: b})
    assert [c.name for c in made.splits[1].split.copies] == ["b#shared"]


def count_before_asking(patch: pytest.MonkeyPatch) -> None:
    real = split.split

    def copied_for_each(*args: object) -> tuple[split.Split, ...]:
        def copies(part: split.Split) -> tuple[split.Copy, ...]:
            reads = [s.storage for n in part.nodes for s in n.src if s is not None]
            return tuple(c for c in part.copies for _ in range(reads.count(c.source)))

        return tuple(replace(part, copies=copies(part)) for part in real(*args))

    patch.setattr(outline, "split", copied_for_each)


def any_number_of_devices_splits_and_inputs() -> None:
    devices = [Device(f"d{i}") for i in range(6)]
    backends: list[Backend] = [*devices, host()]
    x = given("x", 2)
    chain, pins = x, {}
    for i in range(400):
        chain = ops.scale(chain, 1).named(f"s{i}")
        pins[f"s{i}"] = devices[i % 6]
    parts = [ops.scale(chain, 1).named(f"p{i}") for i in range(40)]
    pins |= {f"p{i}": devices[0] for i in range(40)}
    total = parts[0]
    for i, part in enumerate(parts[1:]):
        total = ops.add(total, part).named(f"t{i}")
        pins[f"t{i}"] = devices[1]
    planner, graph = Planner(backends, {}, pins=pins), Graph.of([total], parts)
    assert computed(planner, graph).tolist() == [[[[40, 40]]]]
    splits = planner.outline(graph).splits
    assert len(splits) > 256
    assert max(len(part.split.copies) for part in splits) == 40
    planner.close()


def limit(patch: pytest.MonkeyPatch) -> None:
    real = split.split

    def limited(*args: object) -> tuple[split.Split, ...]:
        splits = real(*args)
        assert len(splits) <= 256
        assert all(len(part.copies) <= 16 for part in splits)
        return splits

    patch.setattr(outline, "split", limited)


def memory_that_can_be_read_is_not_copied() -> None:
    a, h = Device("a", sees_host=True), host()
    table, ids = weight("table", 4, 9), leaf("ids", I32, (2,), Role.INPUT)
    out = ops.rows(table, ids).named("out")
    placed = {table: place(table, h)}
    placed[table].buffer.write(0, np.arange(36, dtype=np.float32).view(np.uint8))
    planner = Planner([a, h], placed, pins={"out": a})
    made = planner.plan(0, lambda: Graph.of([out]))
    (part,) = made.outline.splits
    assert (part.split.backend, [c.name for c in part.split.copies]) == (a, ["a#ids"])
    assert table not in made.outline.layouts["a"].places
    (got,) = made.run({ids: np.int32([[[[1, 8]]]])})
    assert got[0, 0].tolist() == [[4, 5, 6, 7], [32, 33, 34, 35]]
    planner.close()


def compare_devices(patch: pytest.MonkeyPatch) -> None:
    def readable(self: places.Places, tensor: Tensor, backend: Backend) -> object:
        kind = self._types.get(tensor)
        return kind if kind is not None and kind.device == backend.name else None

    patch.setattr(places.Places, "readable", readable)


def the_graph_is_not_touched() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w1, w2 = given("x", 4, 2), weight("w1", 4, 4), weight("w2", 4, 4)
    out = ops.add(ops.matmul(w2, ops.matmul(w1, x).named("m1")).named("m2"), x)
    graph = Graph.of([out])
    before = [(node, node.src, node.root, node.name) for node in graph.nodes]
    for where in ({w1: a, w2: b}, {w1: b, w2: a}, {w1: a, w2: a}):
        made = outlined(graph, [a, b, h], where)
        assert {n.name: made.assignments[n].backend for n in (out.src[0],)} == {"m2": where[w2]}
        assert [(node, node.src, node.root, node.name) for node in graph.nodes] == before


def rewrite_sources(patch: pytest.MonkeyPatch) -> None:
    real = split.split

    def rewriting(*args: object) -> tuple[split.Split, ...]:
        splits = real(*args)
        for part in splits:
            copies = {c.source: leaf(c.name, F32, c.source.dims, Role.NONE) for c in part.copies}
            for node in part.nodes:
                object.__setattr__(node, "src", tuple(copies.get(s, s) for s in node.src))
        return splits

    patch.setattr(outline, "split", rewriting)


def a_write_into_a_view_comes_first() -> None:
    a, b, h = Device("a"), Device("b"), host()
    cache, ids = leaf("cache", F16, (4, 8), Role.CACHE), leaf("ids", I32, (2,), Role.INPUT)
    stored = ops.set_rows(cache, given("v", 4, 2), ids).named("stored")
    out = ops.scale(ops.cast(stored.view(0, (4, 2)), F32).named("read"), 2).named("out")
    made = outline.outline(
        Graph.of([out]), [a, b, h], types_of({cache: b}), pins={"out": a, "read": a}
    )
    named = [(p.split.backend.name, [n.name for n in p.split.nodes]) for p in made.splits]
    assert named == [("b", ["stored"]), ("a", ["read", "out"])]
    assert [c.name for c in made.splits[1].split.copies] == ["a#cache"]
    assert "stored (view) (  0K) [       b  1.dst]" in text(made.division)


def look_for_a_root(patch: pytest.MonkeyPatch) -> None:
    real = split.split

    def mislabelled(
        graph: Graph, made: dict[Tensor, assign.Assignment], at: places.Places
    ) -> tuple[split.Split, ...]:
        first = next(made[n].backend for n in graph.nodes if n in made and n.root is None)
        splits = real(graph, made, at)
        return splits if splits[0].backend is first else (split.Split(first, (), ()), *splits)

    patch.setattr(outline, "split", mislabelled)


def a_larger_graph_comes_later() -> None:
    a, h = Device("a"), host()
    planner = Planner([a, h], {})
    for n in (64, 4096, 100_000, 64):
        x = given("x", n)
        assert computed(planner, Graph.of([ops.scale(ops.scale(x, 2), 2)])).sum() == 4 * n
    planner.close()
    assert (a.pool.used, h.pool.used) == (0, 0)


def measure_once(patch: pytest.MonkeyPatch) -> None:
    real = Planner.grow

    def once(self: Planner, made: outline.Outline) -> None:
        if not any(self._arenas.values()):
            real(self, made)

    patch.setattr(Planner, "grow", once)


@dataclass(frozen=True)
class Fault:
    """Its number in the list, what a scheduler must do, and what makes ours do it no more."""

    number: int
    check: Callable[[], None]
    put_in: Patch

    def __str__(self) -> str:
        return f"{self.number} {self.check.__name__}"


FAULTS = [
    Fault(1, pins_are_lost, lose_pins),
    Fault(2, sources_behind_a_gap, stop_at_gaps),
    Fault(3, nodes_ahead_of_the_first_weight, look_down_only),
    Fault(4, what_a_device_refuses, ask_nobody),
    Fault(5, small_tensors_pull_nothing, all_weights_pull),
    Fault(6, one_copy_for_many_readers, count_before_asking),
    Fault(7, any_number_of_devices_splits_and_inputs, limit),
    Fault(8, memory_that_can_be_read_is_not_copied, compare_devices),
    Fault(10, the_graph_is_not_touched, rewrite_sources),
    Fault(13, a_write_into_a_view_comes_first, look_for_a_root),
    Fault(14, a_larger_graph_comes_later, measure_once),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_ours_does_not_have_it(fault: Fault) -> None:
    fault.check()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_check_finds_it(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.put_in(monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError, IndexError)):
        fault.check()
