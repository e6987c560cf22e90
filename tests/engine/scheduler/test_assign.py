"""Which device gets which node, and the cause."""

from dataclasses import replace

import pytest

from engine.errors import CannotPlace
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.scheduler.assign import Assignment, assign
from engine.scheduler.places import Places
from tests.engine.scheduler.devices import Device, host, placements, types_of


def weight(name: str, *shape: int) -> Tensor:
    return leaf(name, F32, shape, Role.WEIGHT)


def given(name: str, *shape: int) -> Tensor:
    return leaf(name, F32, shape, Role.INPUT)


def test_nodes_run_where_their_weights_lie_and_the_rest_follows() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x, w1, w2 = given("x", 4, 2), weight("w1", 4, 4), weight("w2", 4, 4)
    up = ops.silu(ops.matmul(w1, x).named("mm1")).named("act1")
    down = ops.scale(ops.matmul(w2, up).named("mm2"), 2).named("out")
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
    read = ops.matmul(written.view(0, (4, 5)), made).named("read")
    got = placements(Graph.of([read]), [a, b, h], {cache: b})
    assert got == {
        "made": ("b", "2.use"),
        "written": ("b", "1.vsrc"),
        "read": ("b", "1.src0"),
    }


def test_what_a_device_refuses_goes_to_the_first_that_can() -> None:
    a, b, h = Device("a", {Op.SILU, Op.GELU}), Device("b", {Op.GELU}), host()
    w, x = weight("w", 4, 4), given("x", 4, 2)
    first = ops.matmul(w, x).named("first")
    second = ops.gelu(ops.silu(first).named("silu")).named("gelu")
    back = ops.matmul(w, second).named("back")
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


def test_a_pin_holds_and_says_so() -> None:
    a, b, h = Device("a"), Device("b"), host()
    w, x = weight("w", 4, 4), given("x", 4, 2)
    product = ops.matmul(w, x).named("mm")
    graph = Graph.of([ops.silu(product).named("act")])
    by_name = placements(graph, [a, b, h], {w: a}, {"act": b})
    by_node = placements(graph, [a, b, h], {w: a}, {graph.nodes[-1]: b})
    assert by_name == by_node == {"mm": ("a", "1.wgt0"), "act": ("b", "usr")}
    on_host = placements(graph, [a, b, h], {w: a}, {"act": h})
    assert on_host == {"mm": ("a", "1.wgt0"), "act": ("host", "usr")}


def test_a_number_is_not_a_name_to_pin() -> None:
    """It stands for another node in the next graph; the node itself can be pinned."""
    a, b, h = Device("a"), Device("b"), host()
    graph = Graph.of([ops.scale(given("x", 4), 2)])
    assert placements(graph, [a, b, h], {}, {"node_0": b}) == {"node_0": ("a", "3.best")}
    assert placements(graph, [a, b, h], {}, {graph.nodes[0]: b}) == {"node_0": ("b", "usr")}


def test_the_name_of_a_view_pins_what_it_looks_at_where_that_has_none() -> None:
    a, b, h = Device("a"), Device("b"), host()
    mixed = ops.scale(given("x", 4, 2), 2)
    out = ops.scale(mixed.reshape(8).named("kqv_out"), 3).named("out")
    seen = ops.scale(out.reshape(4, 2).named("seen"), 4).named("last")
    got = placements(Graph.of([seen]), [a, b, h], {}, {"kqv_out": b, "seen": b, "last": a})
    assert got == {"node_0": ("b", "usr"), "out": ("b", "2.src0"), "last": ("a", "usr")}


def test_a_pin_that_cannot_hold_is_refused_with_the_reason() -> None:
    a, b, h = Device("a", {Op.SILU}), Device("b"), host()
    x, cache = given("x", 4, 2), leaf("cache", F16, (4, 8), Role.CACHE)
    ids = leaf("ids", I32, (2,), Role.INPUT)
    act = ops.silu(x).named("act")
    with pytest.raises(CannotPlace, match="silu act cannot run on a: it has no kernel for"):
        placements(Graph.of([act]), [a, b, h], {}, {"act": a})
    stored = ops.set_rows(cache, x, ids).named("stored")
    with pytest.raises(CannotPlace, match="writes to cache on a; drop the pin"):
        placements(Graph.of([], [stored]), [a, b, h], {cache: a}, {"stored": b})
    base = ops.scale(x, 2).named("base")
    into = ops.set_rows(base, ops.scale(x, 3), ids).named("into")
    with pytest.raises(CannotPlace, match="pinned to a; pin both alike"):
        placements(Graph.of([into]), [a, b, h], {}, {"base": a, "into": b})


def test_what_writes_into_a_result_runs_where_that_is() -> None:
    a, b, h = Device("a", {Op.SET_ROWS}), Device("b"), host()
    x, ids = given("x", 4, 2), leaf("ids", I32, (2,), Role.INPUT)
    base = ops.scale(x, 2).named("base")
    into = ops.set_rows(base, ops.scale(x, 3).named("new"), ids).named("into")
    got = placements(Graph.of([into]), [a, b, h], {})
    assert got["base"] == got["into"] == ("b", "3.sup")


def test_a_weight_in_a_layout_of_its_own_is_read_by_the_host_in_the_file() -> None:
    a, b, h = Device("a", {Op.MATMUL}), Device("b"), host()
    w, x = weight("w", 4, 4), given("x", 4, 2)
    graph = Graph.of([ops.matmul(w, x).named("mm")])
    tiled = {w: replace(a.buffer_type(F32, w.shape), layout="tiled")}
    made = assign(graph, Places([a, b, h], tiled, [w]))
    assert made[graph.nodes[0]] == Assignment(h, "3.sup")
    with pytest.raises(CannotPlace, match="w is on a in a layout that cannot be copied"):
        assign(graph, Places([a, b, h], tiled))
    with pytest.raises(CannotPlace, match="matmul mm cannot run on b: w is on a"):
        assign(graph, Places([a, b, h], tiled), {"mm": b})


def test_who_already_has_the_other_operand_adds() -> None:
    """The residual was brought to b for the norm: the sum takes it from there."""
    a, b, h = Device("a"), Device("b"), host()
    w1, w2, norm, x = weight("w1", 4, 4), weight("w2", 4, 4), weight("norm", 4), given("x", 4, 2)
    residual = ops.matmul(w1, x).named("residual")
    normed = ops.rms_norm(residual, norm, 1e-5).named("normed")
    for left_first in (True, False):
        product = ops.matmul(w2, normed).named("product")
        both = (product, residual) if left_first else (residual, product)
        got = placements(
            Graph.of([ops.add(*both).named("sum")]), [a, b, h], {w1: a, w2: b, norm: b}
        )
        assert got["sum"] == ("b", f"2.src{int(not left_first)}")


def test_the_host_takes_what_lies_between_its_own_nodes() -> None:
    a, h = Device("a"), host()
    w1, w2, w3, x = weight("w1", 4, 4), weight("w2", 4, 4), weight("w3", 4, 4), given("x", 4, 2)
    up = ops.silu(ops.scale(ops.matmul(w1, x).named("up"), 2).named("twice")).named("act")
    down = ops.scale(ops.matmul(w2, up).named("down"), 2).named("after")
    out = ops.matmul(w3, down).named("out")
    got = placements(Graph.of([out]), [a, h], {w1: h, w2: h, w3: a})
    assert got == {
        "up": ("host", "1.wgt0"),
        "twice": ("host", "2.src0"),
        "act": ("host", "2.src0"),
        "down": ("host", "1.wgt0"),
        "after": ("a", "2.use"),
        "out": ("a", "1.wgt0"),
    }


def test_a_device_that_sees_the_hosts_memory_takes_the_gather() -> None:
    a, b, h = Device("a", sees_host=True), Device("b", sees_host=True), host()
    table, w = weight("table", 4, 9), weight("w", 4, 4)
    embedded = ops.rows(table, leaf("ids", I32, (2,), Role.INPUT)).named("embd")
    graph = Graph.of([ops.matmul(w, embedded).named("mm")])
    got = placements(graph, [a, b, h], {table: h, w: b})
    assert got == {"embd": ("b", "3.upg"), "mm": ("b", "1.wgt0")}
    blind = Device("blind")
    got = placements(graph, [blind, h], {table: h, w: blind})
    assert got["embd"] == ("host", "1.wgt0")


def test_every_cause_is_explained() -> None:
    a = Device("a")
    for cause in ("usr", "1.vsrc", "1.wgt0", "1.src12", "2.use", "3.sup"):
        assert Assignment(a, cause).reason


def test_the_hosts_caches_are_not_read_in_place() -> None:
    """They are written in every step, while a device may still be at work on the one before."""
    a, h = Device("a", sees_host=True), host()
    cache, table = leaf("cache", F16, (4, 8), Role.CACHE), weight("table", 4, 8)
    places = Places([a, h], types_of({cache: h, table: h}))
    assert places.readable(cache, a) is None
    assert places.readable(table, a) == h.buffer_type(F32, table.shape)
