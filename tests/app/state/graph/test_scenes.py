"""Blocks, what is alike of them, and what is drawn: every node once."""

import json
import re
from collections import Counter

import msgspec
import pytest

from app.state.graph.blocks import GraphIndex
from app.state.graph.difference import change, difference
from app.state.graph.overlay import coloured
from app.state.graph.scene import (
    HEAD,
    GraphScene,
    SceneMaker,
    Shows,
    as_dot,
    as_json,
    can_pin,
    pinned,
    with_pin,
)
from engine.protocol import GraphDone
from tests.app.helpers.graphs import PER_LAYER, graph_done

HALVES = ("intel:0", "pocl:0")


def halves(layer: int) -> str:
    return HALVES[layer >= 2]


def drawn(scene: GraphScene) -> Counter[int]:
    return Counter(b.number for card in scene.cards for b in card.boxes if b.kind != "port")


def test_blocks_are_the_layers() -> None:
    index = GraphIndex(graph_done(3))
    assert [b.title for b in index.blocks] == ["input", "layer 0", "layer 1", "layer 2",
                                               "output block"]  # fmt: skip
    assert [len(b.nodes) for b in index.blocks] == [1, *[PER_LAYER] * 3, 2]
    assert [n for b in index.blocks for n in b.nodes] == sorted(index.block_of)


@pytest.mark.parametrize("shows", ["operations", "launches"])
def test_each_is_drawn_once(shows: Shows) -> None:
    index = GraphIndex(graph_done(5, halves))
    scene = SceneMaker().make(index, shows, collapsed=False)
    wanted = index.block_of if shows == "operations" else range(len(index.graph.launches))
    assert drawn(scene) == Counter(list(wanted))


def test_blocks_that_are_alike_are_one_card() -> None:
    index = GraphIndex(graph_done(5, halves))
    maker = SceneMaker()
    scene = maker.make(index, "operations", collapsed=True)
    assert [card.title for card in scene.cards] == [
        *("input", "layers 0 – 1", "layers 2 – 4", "output block"),
    ]
    assert [list(card.blocks) for card in scene.cards] == [[0], [1, 2], [3, 4, 5], [6]]
    other = maker.make(index, "operations", True, chosen=[4])
    assert [card.shown for card in other.cards] == [0, 1, 4, 6]
    shown = {b.number for b in other.cards[2].boxes if b.kind != "port"}
    assert shown == set(index.blocks[4].nodes)
    assert [(b.x, b.y) for b in other.cards[2].boxes] == [(b.x, b.y) for b in scene.cards[2].boxes]


def test_boxes_lie_in_their_cards_and_cards_apart() -> None:
    scene = SceneMaker().make(GraphIndex(graph_done(9)), "operations", collapsed=False)
    for i, card in enumerate(scene.cards):
        for box in card.boxes:
            assert card.x <= box.x <= box.x + box.width <= card.x + card.width
            assert card.y + HEAD <= box.y <= box.y + box.height <= card.y + card.height
        for other in scene.cards[i + 1 :]:
            assert (
                card.x + card.width < other.x
                or other.x + other.width < card.x
                or card.y + card.height < other.y
                or other.y + other.height < card.y
            )
        assert card.x + card.width <= scene.width
        assert card.y + card.height <= scene.height


def test_lines_are_the_sources() -> None:
    index = GraphIndex(graph_done(2))
    (card,) = [c for c in SceneMaker().make(index, "operations", False).cards if c.shown == 1]
    numbers = [box.number for box in card.boxes]
    found = {(numbers[a], numbers[b]) for a, b in card.ends}
    nodes = index.graph.nodes
    assert found == {(s, n) for n in index.blocks[1].nodes for s in nodes[n].sources}


def test_what_differs_between_a_token_and_a_prompt() -> None:
    one = GraphIndex(graph_done(3))
    many = GraphIndex(graph_done(3, n_tokens=512, attention="attention_tiles.attention"))
    found = difference(one, many)
    assert {one.graph.nodes[n].name for n in found} == {"mixed-0", "mixed-1", "mixed-2"}
    assert "attention_tiles.attention there" in found[one.by_key["mixed-0"]]
    assert difference(one, one) == {}


def test_what_a_pin_changes() -> None:
    before = GraphIndex(graph_done(3))
    after = GraphIndex(graph_done(3, pinned=("ffn_norm-1", "pocl:0")))
    found = change(before, after)
    assert found.moved == ("ffn_norm-1",)
    assert found.splits == (1, 3)
    assert found.copied == (0, 2 * 256)
    assert difference(before, after)[before.by_key["ffn_norm-1"]] == "on pocl:0 there"


def test_pins_are_parts_of_a_rule() -> None:
    rule = with_pin("0-11=a,out=b", "ffn_inp-3", "pocl:0")
    assert rule == "0-11=a,out=b,^ffn_inp-3$=pocl:0"
    assert pinned(rule, "ffn_inp-3") == "pocl:0"
    assert pinned(rule, "ffn_inp-33") is None
    assert with_pin(rule, "ffn_inp-3", "host") == "0-11=a,out=b,^ffn_inp-3$=host"
    assert with_pin(rule, "ffn_inp-3", None) == "0-11=a,out=b"
    assert with_pin("", "x", None) == ""
    assert with_pin(r"blk\.\d{1,2}\.ffn.*=b", "x-1", "a") == r"blk\.\d{1,2}\.ffn.*=b,^x-1$=a"
    nodes = GraphIndex(graph_done(1)).graph.nodes
    assert [n.name for n in nodes if not can_pin(n)] == [
        *("Q (reshaped)-0", "kqv_out-0", "blk.0.attn_q.weight"),
    ]


def test_overlays() -> None:
    index = GraphIndex(graph_done(2, halves))
    launches = index.graph.launches
    found = coloured(index, "launches", "bytes", {})
    assert found.amounts == {i: launch.bytes for i, launch in enumerate(launches)}
    assert found.share(launches.index(max(launches, key=lambda x: x.bytes))) == 1
    by_node = coloured(index, "operations", "bytes", {})
    fused = index.by_key["Kcur-1"]
    assert by_node.amounts[fused] == launches[index.graph.nodes[fused].launch].bytes
    assert coloured(index, "operations", "time", {}).share(3) is None
    assert coloured(index, "operations", "time", {0: 5}).amounts == {0: 5}
    assert coloured(index, "operations", "device", {}).names[0] == "intel:0"
    assert set(coloured(index, "launches", "type", {}).names.values()) == {"F32"}


def hostile(name: str) -> GraphDone:
    graph = graph_done(1)
    nodes = [msgspec.structs.replace(graph.nodes[1], name=name), *graph.nodes[2:]]
    return msgspec.structs.replace(graph, nodes=[graph.nodes[0], *nodes])


def test_json_is_all_there_is() -> None:
    graph = graph_done(2)
    found = json.loads(as_json(graph))
    assert msgspec.convert(found | {"id": graph.id}, GraphDone) == graph


def test_dot_has_each_node_and_edge_and_no_markup_of_names() -> None:
    name = 'a"; evil [label=<b>x</b>];\\ \x1b[2J'
    index = GraphIndex(hostile(name))
    text = as_dot(index)
    assert set(map(int, re.findall(r"^    n(\d+) \[", text, re.MULTILINE))) == set(index.block_of)
    edges = {(int(a), int(b)) for a, b in re.findall(r"^  n(\d+) -> n(\d+)", text, re.MULTILINE)}
    nodes = index.graph.nodes
    assert edges == {(s, n) for n in index.block_of for s in nodes[n].sources}
    assert r"a\"; evil" in text
    assert "\x1b" not in text
    inside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    assert "evil" not in inside
