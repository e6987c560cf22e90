"""What the graph's state asks of an engine, and when."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.state.graph.graph import GraphState
from app.state.selection import Selected
from app.state.workbench import Workbench
from engine.protocol import DescribeGraph, DeviceRow, Failed, ListDevices
from engine.settings import EngineOptions
from tests.app.helpers.graphs import graph_done
from tests.app.helpers.gui import bench, engine, one_theme, quiet, theme
from tests.app.helpers.scripted import ScriptedEngine

__all__ = ["bench", "engine", "one_theme", "quiet", "theme"]


@pytest.fixture
def state(bench: Workbench) -> Iterator[GraphState]:
    yield bench.graph
    bench.graph.shown(False)


def asked(engine: ScriptedEngine) -> list[DescribeGraph]:
    return [r for r in engine.asked if isinstance(r, DescribeGraph)]


def tell(engine: ScriptedEngine, request: DescribeGraph, **more: object) -> None:
    engine.say(graph_done(id=request.id, n_tokens=request.n_tokens, **more))  # type: ignore[arg-type]


def test_nothing_is_asked_while_nobody_looks(
    bench: Workbench, engine: ScriptedEngine, state: GraphState
) -> None:
    assert asked(engine) == []
    state.shown(True)
    (request,) = asked(engine)
    assert (request.path, request.n_tokens) == ("", 1)  # the open model
    assert state.looking
    state.shown(False)
    bench.session.unload()
    bench.open_model("/models/other.gguf")
    engine.load_done()
    assert len(asked(engine)) == 1


def test_the_file_before_the_model_is_open(
    bench: Workbench, engine: ScriptedEngine, state: GraphState, qtbot: QtBot
) -> None:
    bench.session.unload()
    state.shown(True)
    assert asked(engine) == []
    assert not state.looking
    options = EngineOptions(device="intel:0", place="0=host")
    bench.open_model("/models/other.gguf", options)
    request = asked(engine)[-1]
    assert (request.path, request.options) == ("/models/other.gguf", options)
    tell(engine, request)
    qtbot.waitUntil(lambda: state.is_known)
    assert state.from_header
    engine.load_done()
    assert not state.is_known
    assert state.scenes, "the picture stays until there is another"
    tell(engine, asked(engine)[-1])
    qtbot.waitUntil(lambda: state.is_known)
    assert asked(engine)[-1].path == ""
    assert not state.from_header


def test_an_answer_that_comes_too_late_is_not_shown(
    bench: Workbench, engine: ScriptedEngine, state: GraphState
) -> None:
    state.shown(True)
    old = asked(engine)[-1]
    bench.open_model(Path("/models/other.gguf"))
    engine.say(graph_done(9, id=old.id))
    assert state.indices == {}


def test_a_refusal_is_said(engine: ScriptedEngine, state: GraphState) -> None:
    state.shown(True)
    engine.say(Failed(asked(engine)[-1].id, "BadFile", "x.gguf: no tensors"))
    assert state.problem == "x.gguf: no tensors"
    assert not state.looking


def test_both_steps_and_their_difference(
    engine: ScriptedEngine, state: GraphState, qtbot: QtBot
) -> None:
    state.shown(True)
    tell(engine, asked(engine)[-1])
    state.show_phases("decode", "prefill")
    prompt = asked(engine)[-1]
    assert prompt.n_tokens == 512
    tell(engine, prompt, attention="attention_tiles.attention")
    qtbot.waitUntil(lambda: state.is_known)
    assert len(asked(engine)) == 2, "one token's is known"
    index = state.indices["prefill"]
    found = {index.graph.nodes[n].name for n in state.differences("prefill")}
    assert found == {f"mixed-{i}" for i in range(4)}
    state.show_phases("decode")
    qtbot.waitUntil(lambda: state.is_known)
    assert state.differences("decode") == {}


def test_finding(engine: ScriptedEngine, state: GraphState) -> None:
    state.shown(True)
    tell(engine, asked(engine)[-1])
    index = state.indices["decode"]
    names = [index.graph.nodes[n].name for n in state.find("decode", "FFN matmul -2")]
    assert names == ["ffn_gate-2", "ffn_up-2", "ffn_out-2"]
    assert state.find("decode", "  ") == []
    assert state.find("decode", "no such thing") == []
    node = state.node_of("decode", Selected(operation="ffn_up-2"))
    assert node is not None
    assert index.graph.nodes[node].name == "ffn_up-2"
    assert state.node_of("decode", Selected(operation="ffn_up-99")) is None


def test_a_pin_is_tried_before_it_is_done(
    bench: Workbench, engine: ScriptedEngine, state: GraphState
) -> None:
    opened: list[EngineOptions] = []
    state.shown(True)
    tell(engine, asked(engine)[-1])
    row = DeviceRow("pocl:0", "PoCL", "", "", 1 << 30, 2, False)
    engine.answer(ListDevices, [row])
    assert state.devices == ["pocl:0", "host"]
    state.try_pin("ffn_norm-1", "pocl:0")
    tried = asked(engine)[-1]
    assert tried.path == str(bench.session.path)
    assert tried.options == replace(bench.session.options, place="^ffn_norm-1$=pocl:0")
    state.apply_pin(opened.append)
    assert opened == [], "what it changes is not known yet"
    tell(engine, tried, pinned=("ffn_norm-1", "pocl:0"))
    found = state.change()
    assert found is not None
    assert (found.moved, found.splits) == (("ffn_norm-1",), (1, 3))
    assert set(state.differences("decode")) == {state.indices["decode"].by_key["ffn_norm-1"]}
    state.apply_pin(opened.append)
    assert [options.place for options in opened] == ["^ffn_norm-1$=pocl:0"]
    assert state.pin is None


def test_a_pin_that_cannot_be_is_told_of(engine: ScriptedEngine, state: GraphState) -> None:
    state.shown(True)
    tell(engine, asked(engine)[-1])
    state.try_pin("cache_k_l0", "pocl:0")
    text = "set_rows cache_k_l0 cannot run on pocl:0: drop the pin"
    engine.say(Failed(asked(engine)[-1].id, "CannotPlace", text))
    assert (state.problem, state.pin) == (text, None)
    state.try_pin("ffn_norm-1", "pocl:0")
    state.drop_pin()
    assert (state.pin, state.preview, state.problem) == (None, None, "")


def test_a_block_stands_for_those_that_are_alike(
    engine: ScriptedEngine, state: GraphState, qtbot: QtBot
) -> None:
    state.shown(True)
    tell(engine, asked(engine)[-1])
    qtbot.waitUntil(lambda: state.is_known)
    assert [card.shown for card in state.scenes["decode"].cards] == [0, 1, 5]
    state.choose_block(3)
    qtbot.waitUntil(lambda: [c.shown for c in state.scenes["decode"].cards] == [0, 3, 5])
    state.choose_block(1)
    qtbot.waitUntil(lambda: [c.shown for c in state.scenes["decode"].cards] == [0, 1, 5])
    state.collapse(False)
    qtbot.waitUntil(lambda: len(state.scenes["decode"].cards) == 6)
