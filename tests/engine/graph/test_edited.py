"""A graph in which something reads what was made of a result."""

from engine.gguf.formats import F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf


def inputs(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [leaf(f"x{i}", F32, shape, Role.INPUT) for i, shape in enumerate(shapes)]


def test_only_readers_of_it_are_others() -> None:
    x, other = inputs((4, 6), (4, 6))
    aside = ops.sqr(other).named("aside")
    hooked = ops.sqr(x).named("hooked")
    graph = Graph.of([ops.add(ops.mul(hooked, aside), ops.sqrt(x)).named("end")])
    edited = graph.edited({hooked: [lambda now, _: ops.scale(now, 2.0).named("edited")]})
    assert [node.name for node in edited.nodes if node.op is not Op.NONE].count("edited") == 1
    kept = {node.name for node in graph.nodes} & {
        node.name for node in edited.nodes if node in graph.nodes
    }
    assert {"aside", "hooked"} <= kept
    (end,) = edited.outputs
    product = end.src[0]
    assert product is not None
    assert product.src[0] is not None
    assert product.src[0].name == "edited"
    assert product.src[0].src == (hooked,)
    assert graph.edited({}).nodes == graph.nodes


def test_views_and_writes_follow_it() -> None:
    """Of a view that is edited others begin where they did; what writes into it writes there."""
    (x,) = inputs((4, 6))
    cache = leaf("cache", F32, (8, 9), Role.CACHE)
    ids = leaf("ids", I32, (3,), Role.INPUT)
    flat = ops.sqr(x).reshape(8, 3).named("flat")
    row = flat.view(flat.strides[1], (8,))
    written = ops.set_(ops.duplicate(flat), row, 0)
    stored = ops.set_rows(cache, flat, ids).named("stored")
    graph = Graph.of([ops.add(row, row), written], [stored])
    edited = graph.edited({flat: [lambda now, _: ops.scale(now, 2.0).named("edited")]})
    new = next(node for node in edited.nodes if node.name == "edited")
    total, set_into = edited.outputs
    assert total.src[0] is not None
    assert (total.src[0].storage, total.src[0].offset) == (new, flat.strides[1])
    assert set_into.storage in edited.nodes
    (effect,) = edited.effects
    assert effect.storage is cache
    assert new in effect.src
    last = edited.edited({new: [lambda now, _: ops.sqr(now), lambda now, _: ops.sqrt(now)]})
    assert [node.op for node in last.nodes].count(Op.SQRT) == 1
