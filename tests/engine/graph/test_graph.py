"""Graphs: order, leaves, inputs, text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gguf.formats import F16, F32, I32, Q8_0
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf


def x(name: str = "x", *shape: int) -> Tensor:
    return leaf(name, F32, shape or (4, 4), Role.INPUT)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=60))
def test_sources_come_first_and_each_node_once(edges: list[tuple[int, int]]) -> None:
    made: list[Tensor] = [x()]
    for a, b in edges:
        made.append(ops.add(made[a % len(made)], made[b % len(made)]))
    graph = Graph.of(made[-2:])
    assert len(set(graph.nodes)) == len(graph.nodes)
    place = {t: i for i, t in enumerate([*graph.leaves, *graph.nodes])}
    for node in graph.nodes:
        assert all(place[s] < place[node] for s in node.src if s is not None)
    needed, stack = set(), [*made[-2:]]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [s for s in node.src if s is not None]
    assert set(place) == needed


def test_a_long_chain_needs_no_recursion() -> None:
    node = x()
    for _ in range(20_000):
        node = ops.scale(node, 1)
    assert len(Graph.of([node]).nodes) == 20_000


def test_effects_come_before_the_outputs() -> None:
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    ids = leaf("ids", I32, (4,), Role.INPUT)
    written = ops.set_rows(cache, x(), ids)
    shown = ops.scale(x("y"), 2)
    graph = Graph.of([shown], [written])
    assert graph.nodes == (written, shown)
    assert (graph.outputs, graph.effects) == ((shown,), (written,))


def test_a_read_through_set_rows_follows_the_write() -> None:
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    ids = leaf("ids", I32, (4,), Role.INPUT)
    written = ops.set_rows(cache, x(), ids)
    read = ops.matmul(written.view(0, (4, 3)), x("q"))
    nodes = Graph.of([read]).nodes
    assert nodes.index(written) < nodes.index(read)


def test_leaves_and_inputs() -> None:
    w, q = leaf("w", Q8_0, (32, 4), Role.WEIGHT), x("q", 32, 2)
    graph = Graph.of([ops.matmul(w, q)])
    assert graph.leaves == (w, q)
    assert graph.inputs == (q,)


def test_text_shows_one_line_a_node() -> None:
    w, q = leaf("w", Q8_0, (32, 4), Role.WEIGHT), x("q", 32, 2)
    out = ops.add(ops.matmul(w, q).named("Qcur", 3), leaf("b", F32, (4,), Role.WEIGHT))
    graph = Graph.of([out])
    assert graph.text().splitlines() == [
        "                  Qcur-3 = (F32) matmul(w[32, 4], q[32, 2]) = [4, 2]",
        "                  node_1 = (F32) add(Qcur-3[4, 2], b[4]) = [4, 2]",
    ]


def test_absent_sources_are_not_shown() -> None:
    graph = Graph.of([ops.rms_norm(x("q", 32, 2), None, 1e-5).named("norm")])
    assert graph.text().strip() == "norm = (F32) rms_norm(q[32, 2]) = [32, 2]"
