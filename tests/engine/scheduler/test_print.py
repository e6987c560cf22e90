"""Plans in words: ggml's print of assignments, and what is slow in them."""

from engine.device.backend import Backend
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from engine.runner.placing.describe import text
from engine.scheduler.costs import costs
from engine.scheduler.outline import divide
from tests.engine.scheduler.devices import Device, host, types_of


def test_assignments_are_printed_as_ggml_prints_them() -> None:
    a, b, h = Device("intel:0"), Device("pocl:1", {Op.SILU}), host()
    x = leaf("x", F32, (1024, 512), Role.INPUT)
    w1, w2 = (leaf(name, F32, (1024, 1024), Role.WEIGHT) for name in ("blk.0.w", "blk.1.w"))
    one = ops.matmul(w1, x).named("one-0")
    two = ops.matmul(w2, one.reshape(1024, 512)).named("a_name_that_is_longer_than_its_column")
    made = divide(Graph.of([ops.silu(two).named("act-1")]), [a, b, h], types_of({w1: a, w2: b}))
    assert text(made).splitlines() == [
        "",
        "## SPLIT #0: intel:0 # 1 inputs: [intel:0#x (   2M)]",
        "node #  0 (    MATMUL):                one-0 (  2M) [ intel:0 1.wgt0]:"
        "              blk.0.w (  4M) [ intel:0  1.dst]"
        "                    x (  2M) [    host  1.inp]",
        "",
        "## SPLIT #1: pocl:1 # 1 inputs: [pocl:1#one-0 (   2M)]",
        "node #  2 (    MATMUL): a_name_that_is_longe (  2M) [  pocl:1 1.wgt0]:"
        "              blk.1.w (  4M) [  pocl:1  1.dst]"
        "     one-0 (reshaped) (  2M) [ intel:0 1.wgt0]",
        "",
        "## SPLIT #2: intel:0 # 1 inputs: [intel:0#a_name_that_is_longer_than_its_column (   2M)]",
        "node #  3 (      SILU):                act-1 (  2M) [ intel:0  3.sup]:"
        " a_name_that_is_longe (  2M) [  pocl:1 1.wgt0]",
    ]
    assert text(made, nodes=False).count("\n") == 6


def words(
    graph: Graph, backends: list[Backend], where: dict[Tensor, Backend], pins: dict[str, Backend]
) -> list[str]:
    """The costs of a plan."""
    return [str(cost) for cost in costs(divide(graph, backends, types_of(where), pins))]


def test_a_streamed_weight_is_told_with_its_cost() -> None:
    a, b, h = Device("a"), Device("b"), host()
    w, x = leaf("w", F32, (1024, 768), Role.WEIGHT), leaf("x", F32, (1024, 2), Role.INPUT)
    graph = Graph.of([ops.matmul(w, x).named("mm")])
    assert words(graph, [a, b, h], {w: a}, {}) == []
    assert words(graph, [a, b, h], {w: a}, {"mm": b}) == [
        "w (3.0 MiB) is copied from a to b in every step: matmul mm runs there, pinned by the user"
    ]


def test_so_is_a_cache() -> None:
    a, h = Device("a", {Op.MATMUL}), host()
    cache, x = leaf("cache", F16, (64, 256), Role.CACHE), leaf("x", F32, (64, 2), Role.INPUT)
    stored = ops.set_rows(cache, x, leaf("ids", I32, (2,), Role.INPUT)).named("stored")
    graph = Graph.of([ops.matmul(stored.view(0, (64, 256)), x).named("kq")])
    streamed, refused = words(graph, [a, h], {cache: a}, {})
    assert streamed == (
        "cache (32.0 KiB) is copied from a to host in every step: matmul kq runs there, "
        "not supported on the preferred device"
    )
    assert refused == (
        "matmul runs on the host, kq, as no device can: 32.0 KiB are copied for it in every step"
    )


def test_what_falls_to_the_host_is_counted() -> None:
    a, h = Device("a", {Op.GELU}), host()
    x = leaf("x", F32, (256, 4), Role.INPUT)
    made = ops.scale(x, 2)
    for i in range(3):
        made = ops.scale(ops.gelu(made).named(f"gelu-{i}"), 2)
    assert words(Graph.of([made]), [a, h], {}, {}) == [
        "gelu runs on the host, 3 times, first as gelu-0, as no device can: "
        "12.0 KiB are copied for it in every step"
    ]
