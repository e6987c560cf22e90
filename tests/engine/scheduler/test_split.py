"""Runs of nodes on one device, and what is copied between them."""

from engine.device.backend import Backend
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.scheduler.assign import assign
from engine.scheduler.places import Places
from engine.scheduler.split import Split, split
from tests.engine.scheduler.devices import Device, host, types_of


def cut(graph: Graph, backends: list[Backend], where: dict[Tensor, Backend]) -> tuple[Split, ...]:
    places = Places(backends, types_of(where))
    return split(graph, assign(graph, places), places)


def described(splits: tuple[Split, ...]) -> list[tuple[str, list[str], list[str]]]:
    return [(s.backend.name, [n.name for n in s.nodes], [c.name for c in s.copies]) for s in splits]


def test_a_split_ends_where_the_device_changes() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x = leaf("x", F32, (4, 2), Role.INPUT)
    w1, w2 = (leaf(n, F32, (4, 4), Role.WEIGHT) for n in ("w1", "w2"))
    m1 = ops.matmul(w1, x).named("m1")
    act = ops.silu(m1).named("act")
    m2 = ops.matmul(w2, act.reshape(4, 2)).named("m2")
    out = ops.add(m2, m1).named("out")
    splits = cut(Graph.of([out]), [a, b, h], {w1: a, w2: b})
    assert described(splits) == [
        ("a", ["m1", "act"], ["a#x"]),
        ("b", ["m2", "out"], ["b#act", "b#m1"]),
    ]
    (upload,) = splits[0].copies
    assert upload.origin is None
    assert upload.target is a
    assert [c.origin for c in splits[1].copies] == [a, a]


def test_a_tensor_is_copied_once_to_each_device() -> None:
    a, b, h = Device("a", {Op.SILU}), Device("b", {Op.SILU}), host()
    x = leaf("x", F32, (4, 4), Role.INPUT)
    w1, w2 = (leaf(n, F32, (4, 4), Role.WEIGHT) for n in ("w1", "w2"))
    shared = ops.matmul(w1, x).named("shared")
    on_b = ops.matmul(w2, shared).named("on_b")
    on_host = ops.silu(on_b).named("on_host")
    # Back on b: `shared` and `x` are there by then or not, but never twice.
    again = ops.matmul(w2, ops.add(on_host, shared).named("sum")).named("again")
    last = ops.add(ops.add(again, shared).named("p"), x).named("last")
    splits = cut(Graph.of([last]), [a, b, h], {w1: a, w2: b})
    copies = [c.name for s in splits for c in s.copies]
    assert len(copies) == len(set(copies))
    assert described(splits) == [
        ("a", ["shared"], ["a#x"]),
        ("b", ["on_b"], ["b#shared"]),
        ("host", ["on_host"], ["host#on_b"]),
        ("a", ["sum"], ["a#on_host"]),
        ("b", ["again", "p", "last"], ["b#sum", "b#x"]),
    ]


def test_views_bring_the_storage_behind_them() -> None:
    a, b, h = Device("a"), Device("b"), host()
    x = leaf("x", F32, (4, 4), Role.INPUT)
    w1, w2 = (leaf(n, F32, (4, 4), Role.WEIGHT) for n in ("w1", "w2"))
    made = ops.matmul(w1, x).named("made")
    halves = [made.view(start, (4, 2), (16,)) for start in (0, 32)]
    out = ops.add(*(ops.matmul(w2, half) for half in halves)).named("out")
    splits = cut(Graph.of([out]), [a, b, h], {w1: a, w2: b})
    assert [c.name for c in splits[1].copies] == ["b#made"]
    assert splits[1].copies[0].source is made
    assert all(n.op is not Op.VIEW for s in splits for n in s.nodes)


def test_a_cache_is_brought_from_where_it_lies() -> None:
    a, h = Device("a", {Op.MATMUL}), host()
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    values, ids = leaf("v", F32, (4, 2), Role.INPUT), leaf("ids", I32, (2,), Role.INPUT)
    written = ops.set_rows(cache, values, ids).named("written")
    read = ops.matmul(written.view(0, (4, 5)), values).named("read")
    splits = cut(Graph.of([read]), [a, h], {cache: a})
    assert described(splits) == [
        ("a", ["written"], ["a#v", "a#ids"]),
        ("host", ["read"], ["host#cache", "host#v"]),
    ]
    assert splits[1].copies[0].origin is a


def test_what_was_written_since_is_brought_again() -> None:
    a, h = Device("a", {Op.MATMUL}), host()
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    values, ids = leaf("v", F32, (4, 2), Role.INPUT), leaf("ids", I32, (2,), Role.INPUT)
    once = ops.set_rows(cache, values, ids).named("once")
    first = ops.matmul(once.view(0, (4, 5)), values).named("first")
    twice = ops.set_rows(once, values, ids).named("twice")
    second = ops.matmul(twice.view(0, (4, 5)), values).named("second")
    assert described(cut(Graph.of([first, second]), [a, h], {cache: a})) == [
        ("a", ["once"], ["a#v", "a#ids"]),
        ("host", ["first"], ["host#cache", "host#v"]),
        ("a", ["twice"], []),
        ("host", ["second"], ["host#cache"]),
    ]


def test_a_split_ends_behind_a_pause() -> None:
    a, h = Device("a"), host()
    x = leaf("x", F32, (4, 2), Role.INPUT)
    w = leaf("w", F32, (4, 4), Role.WEIGHT)
    one = ops.matmul(w, x).named("one")
    two = ops.silu(one.reshape(4, 2)).named("two")
    out = ops.add(two, one).named("out")
    for pauses, expected in (
        ((), [["one", "two", "out"]]),
        ((one,), [["one"], ["two", "out"]]),
        ((one, out), [["one"], ["two", "out"]]),
    ):
        splits = cut(Graph.of([out], pauses=pauses), [a, h], {w: a})
        assert [[n.name for n in s.nodes] for s in splits] == expected
        assert [c.name for s in splits for c in s.copies] == ["a#x"]
