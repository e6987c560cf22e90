"""Which device gets which node, and the cause."""

import pytest

from engine.errors import CannotPlace
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.engine.scheduler.devices import Device, host, placements


def weight(name: str, *shape: int) -> Tensor:
    return leaf(name, F32, shape, Role.WEIGHT)


def given(name: str, *shape: int) -> Tensor:
    return leaf(name, F32, shape, Role.INPUT)


def test_nodes_run_where_their_weights_lie_and_the_rest_follows() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w1, w2 = given("x", 4, 2), weight("w1", 4, 4), weight("w2", 4, 4)
    up = ops.silu(ops.mulmat(w1, x).named("mm1")).named("act1")
    down = ops.scale(ops.mulmat(w2, up).named("mm2"), 2).named("out")
    got = placements(Graph.of([down]), [a, b, h], {w1: a, w2: b})
    assert got == {
        "mm1": ("a", "1.wgt0"),
        "act1": ("a", "2.src0"),
        "mm2": ("b", "1.wgt0"),
        "out": ("b", "2.src0"),
    }


def test_the_host_keeps_only_what_it_must() -> None:
    """Rows of the embedding are gathered where the file is mapped; what follows is the device's."""
    a, h = Device("a"), host()
    table = weight("table", 4, 9)
    ids = leaf("ids", I32, (2,), Role.INPUT)
    embedded = ops.rows(table, ids).named("embd")
    scaled = ops.scale(embedded, 3).named("scaled")
    both = ops.add(scaled, embedded).named("both")
    got = placements(Graph.of([both]), [a, h], {table: h})
    assert got == {
        "embd": ("host", "1.wgt0"),
        "scaled": ("a", "3.best"),
        "both": ("a", "2.src0"),
    }


def test_caches_hold_their_writers_and_readers() -> None:
    a, b, h = Device("a"), Device("b"), host()
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    ids = leaf("ids", I32, (2,), Role.INPUT)
    made = ops.scale(given("x", 4, 2), 2).named("made")
    written = ops.set_rows(cache, made, ids).named("written")
    read = ops.mulmat(written.view(0, (4, 5)), made).named("read")
    got = placements(Graph.of([read]), [a, b, h], {cache: b})
    assert got == {
        "made": ("b", "2.use"),
        "written": ("b", "1.vsrc"),
        "read": ("b", "1.src0"),
    }


def test_what_a_device_refuses_goes_to_the_first_that_can() -> None:
    a, b, h = Device("a", {Op.SILU, Op.GELU}), Device("b", {Op.GELU}), host()
    w, x = weight("w", 4, 4), given("x", 4, 2)
    first = ops.mulmat(w, x).named("first")
    second = ops.gelu(ops.silu(first).named("silu")).named("gelu")
    back = ops.mulmat(w, second).named("back")
    got = placements(Graph.of([back]), [a, b, h], {w: a})
    assert got == {
        "first": ("a", "1.wgt0"),
        "silu": ("b", "3.sup"),
        "gelu": ("host", "3.sup"),
        "back": ("a", "1.wgt0"),
    }


def test_after_the_host_had_to_step_in_the_best_device_goes_on() -> None:
    a, h = Device("a", {Op.SILU}), host()
    x = ops.scale(ops.silu(ops.scale(given("x", 4), 2).named("s1")).named("act"), 2).named("s2")
    got = placements(Graph.of([x]), [a, h], {})
    assert got == {"s1": ("a", "3.best"), "act": ("host", "3.sup"), "s2": ("a", "3.best")}


def test_a_write_in_place_goes_nowhere_else() -> None:
    a, h = Device("a", {Op.SET_ROWS}), host()
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    ids = leaf("ids", I32, (2,), Role.INPUT)
    graph = Graph.of([], [ops.set_rows(cache, given("x", 4, 2), ids)])
    with pytest.raises(
        CannotPlace, match="set_rows cache cannot run on a: .*kernel.*; place cache"
    ):
        placements(graph, [a, h], {cache: a})


def test_views_are_not_assigned() -> None:
    a, h = Device("a"), host()
    x = given("x", 4, 2)
    graph = Graph.of([ops.scale(x.permute(1, 0).view(0, (2, 3)), 2).named("s")])
    assert placements(graph, [a, h], {}) == {"s": ("a", "3.best")}


def test_the_graph_is_not_touched() -> None:
    a, h = Device("a"), host()
    node = ops.scale(given("x", 4), 2)
    graph = Graph.of([node])
    before = (graph.nodes, graph.leaves, node.src, node.name)
    placements(graph, [a, h], {})
    assert before == (graph.nodes, graph.leaves, node.src, node.name)
