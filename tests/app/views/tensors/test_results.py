"""Results of the step that made a word: chosen in the tree, computed by the engine, shown."""

from pathlib import Path

import numpy as np
import pytest

from app.state.tensors.results import NO_WORD, TensorItem
from app.views.tensors.tensors import TensorsView
from app.window.main_window import MainWindow
from engine.protocol import (
    ContextItems,
    DescribeGraph,
    Examine,
    Examined,
    Failed,
    GraphNode,
    ResultInfo,
    ResultPart,
)
from tests.app.helpers.numbers import opened
from tests.app.helpers.scripted import ScriptedEngine


def node(name: str, occurrence: int, layer: int | None, role: str = "") -> GraphNode:
    place = (role, layer, "intel:0", "", "", [], 0, 0, 0)
    return GraphNode(name, occurrence, "add", "F32", [64, 1], 256, *place)


NODES = [
    node("embd", 0, None),
    node("node_3", 0, 0),
    node("Qcur-0", 0, 0),
    node("Qcur-0", 1, 0),
    node("Qcur-0 (reshaped)", 0, 0, "view"),
    node("l_out-0", 0, 0),
    node("l_out-1", 0, 1),
    node("blk.0.attn_q.weight", 0, 0, "weight"),
]


@pytest.fixture
def engine(window: MainWindow, tiny_path: Path) -> ScriptedEngine:
    """The graph is known, and there is an answer."""
    window.setProperty("tiny", str(tiny_path))
    opened(window, "blk.1.ffn_up.weight", "Numbers")
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    made.answer(DescribeGraph, 1, 1, 3, NODES, [], [], [], 1)
    assert window.bench.chat.send("What is the capital of France?")
    made.write("The capital", " is Paris.")
    made.end()
    return made


def result(window: MainWindow, name: str) -> TensorItem:
    groups = window.bench.tensors.groups
    return next(i for g in groups for i in g.items if i.name == name and i.result is not None)


def part(number: int, occurrence: int, start: int, values: np.ndarray) -> ResultPart:
    info = ResultInfo("Qcur-0", occurrence, 0, "rope", "F32", [16, 4, 1], "intel:0", 0)
    return ResultPart(number, info, start, values.astype("<f4").tobytes())


def test_a_result_is_computed_for_the_word(window: MainWindow, engine: ScriptedEngine) -> None:
    state, view = window.bench.tensors, window.inspector.view(TensorsView)
    names = [i.name for g in state.groups for i in g.items if i.result is not None]
    assert names == ["embd", "Qcur-0", "Qcur-0#1", "l_out-0", "l_out-1"]
    state.choose(result(window, "Qcur-0#1"))
    assert view.caption == NO_WORD
    row = len(window.bench.chat.path) - 1
    window.bench.selection.select_token(window.bench.chat.path[row].id, 1)
    state.choose(result(window, "Qcur-0#1"))
    asked = engine.last_of(Examine)
    assert isinstance(asked, Examine)
    assert asked.probes == ["Qcur\\-0"]
    assert (asked.prefix, asked.lens, asked.attention_layers) == ("The capital", False, None)
    assert "computing" in view.caption
    values = np.arange(64, dtype=np.float32)
    engine.say(part(asked.id, 0, 0, -values))  # the first of that name is not wanted
    engine.say(part(asked.id, 1, 0, values[:40]), part(asked.id, 1, 40, values[40:]))
    engine.say(Examined(asked.id, ContextItems("", b"", b"", []), 5))
    assert state.numbers is not None
    assert state.numbers.dims == (16, 4, 1)
    np.testing.assert_array_equal(state.numbers.read(range(4), range(16)), values.reshape(4, 16))
    assert "on intel:0" in view.caption
    assert window.bench.selection.now.operation == "Qcur-0#1"


def test_a_selected_operation_is_looked_at(window: MainWindow, engine: ScriptedEngine) -> None:
    state = window.bench.tensors
    row = len(window.bench.chat.path) - 1
    window.bench.selection.select_token(window.bench.chat.path[row].id, 1)
    window.bench.selection.select_operation("l_out-1", 1)
    assert state.item == result(window, "l_out-1")
    asked = engine.last_of(Examine)
    engine.say(Failed(asked.id, "NoMem", "no room for probes"))
    assert state.problem == "no room for probes"
    window.bench.selection.select_token(window.bench.chat.path[row].id, 0)
    window.bench.selection.select_operation("l_out-1", 1)
    assert engine.last_of(Examine).id != asked.id  # for another word anew
