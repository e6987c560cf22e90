"""What a comparison says of each node: its own result, or the next one it leads to."""

import msgspec
import pytest

from app.state.graph.blocks import GraphIndex
from app.state.graph.overlay import NodeError, coloured, error_text, launch_errors, node_errors
from tests.app.helpers.compared import result
from tests.app.helpers.graphs import graph_done

INDEX = GraphIndex(graph_done(2))


def number(name: str) -> int:
    return INDEX.by_key[name]


@pytest.mark.smoke
def test_nodes_take_the_error_of_the_result_they_lead_to() -> None:
    attention, layer = result("attn_out-0", error=1e-8), result("l_out-0", error=1e-7)
    errors = node_errors(INDEX, [attention, layer])
    assert errors[number("attn_out-0")] == NodeError(attention, True)
    for name in ("attn_norm-0", "Qcur-0", "Q (reshaped)-0", "mixed-0", "kqv_out-0"):
        assert errors[number(name)] == NodeError(attention, False)
    for name in ("ffn_inp-0", "ffn_gate-0", "ffn_out-0"):
        assert errors[number(name)] == NodeError(layer, False)
    assert number("attn_norm-1") not in errors  # no result is behind it
    assert number("blk.0.attn_q.weight") not in errors


@pytest.mark.smoke
def test_what_is_written_into_a_cache_is_the_result_of_who_writes() -> None:
    graph = graph_done(1)
    leaf = msgspec.structs.replace(graph.nodes[-1], name="cache_k_l0", role="cache")
    at = len(graph.nodes)
    write = msgspec.structs.replace(
        graph.nodes[number("Krope-0")], name="node_9", op="set_rows", sources=[at, 1]
    )
    index = GraphIndex(msgspec.structs.replace(graph, nodes=[*graph.nodes, leaf, write]))
    row = result("cache_k_l0", error=1e-6)
    assert node_errors(index, [row])[at + 1] == NodeError(row, True)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("error", "share"), [(0.0, 0), (1e-12, 0), (1e-11, 0), (1e-8, 0.5), (1e-5, 1)]
)
def test_colours_go_by_decades_below_what_is_allowed(error: float, share: float) -> None:
    assert NodeError(result("l_out-0", error=error), True).share == pytest.approx(share)


def test_what_deviates_is_marked_and_what_leads_to_it_is_not() -> None:
    wrong = result("ffn_swiglu-1", error=float("inf"), problem="7 are not finite")
    errors = node_errors(INDEX, [result("l_out-1"), wrong])
    nodes = coloured(INDEX, "operations", "error", {}, errors)
    assert nodes.wrong == {number("ffn_swiglu-1")}
    assert nodes.share(number("ffn_gate-1")) == 1.0
    launches = coloured(INDEX, "launches", "error", {}, errors)
    assert launches.wrong == {INDEX.graph.nodes[number("ffn_swiglu-1")].launch}
    of_launch = launch_errors(INDEX, errors)[INDEX.graph.nodes[number("ffn_up-1")].launch]
    assert of_launch.row == wrong
    assert error_text(wrong) == "7 are not finite"
    assert error_text(result("l_out-0")) == "NMSE 1e-09, at most 1e-05"
