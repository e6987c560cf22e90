"""Experts that were chosen for a word: as the engine computed them, drawn by layer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.state.tensors.experts import NO_EXPERTS, NO_WORD, routing_of
from app.views.tensors.experts import ExpertsPage
from app.views.tensors.tensors import KINDS, TensorsView
from app.window.main_window import MainWindow
from engine.protocol import Cancel, ContextItems, Examine, Examined, Failed, ResultInfo, ResultPart
from tests.app.helpers.scripted import ScriptedEngine


@pytest.fixture
def engine(window: MainWindow, tiny_path: Path) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    window.bench.preferences.update(token_live=False)
    window.bench.open_model(tiny_path)
    made.load_done()
    assert window.bench.chat.send("Hello")
    made.write("Hi", " you")
    made.end(n=2)
    window.panes.show_tab("tensors")
    return made


@pytest.fixture
def page(window: MainWindow, engine: ScriptedEngine) -> ExpertsPage:
    view = window.inspector.view(TensorsView)
    view.kinds.setCurrentIndex(KINDS.index("Experts"))
    return view.experts


def tell(engine: ScriptedEngine, results: dict[str, Sequence[float]]) -> None:
    """The reply to the question that was asked last."""
    number = engine.last_of(Examine).id
    for name, values in results.items():
        data = np.array(values, "<f4")
        info = ResultInfo(name, 0, 0, "route", "F32", [len(data), 1], "intel:0", None)
        engine.say(ResultPart(number, info, 0, data.tobytes()))
    engine.say(Examined(number, ContextItems("", b"", b"", []), 4))


FOUND = {
    "ffn_moe_logits-1": [0.1] * 6,
    "ffn_moe_topk-1": [5, 2],
    "ffn_moe_weights-1": [0.75, 0.25],
    "ffn_moe_topk-3": [0, 5],
    "ffn_moe_weights-3": [0.5, 0.5],
}


def test_experts_of_a_word(window: MainWindow, engine: ScriptedEngine, page: ExpertsPage) -> None:
    assert page.caption.text() == NO_WORD
    answer = window.bench.chat.path[1]
    window.bench.selection.select_token(answer.id, 1)
    asked = engine.last_of(Examine)
    assert isinstance(asked, Examine)
    assert asked.probes == [r"ffn_moe_(logits|topk|weights)-\d+"]
    assert "Computing" in page.caption.text()
    tell(engine, FOUND)
    said = "2 layers have experts; each takes 2 of 6 for this token."
    assert page.caption.text() == said
    assert page.map.cells.shape == (2, 6)
    assert page.map.describe(0, 5) == "layer 1, expert 5: weight 0.750 (chosen)"
    assert page.map.describe(1, 2) == "layer 3, expert 2: not used"
    assert [row[1] for row in page.table.rows.shown] == [
        *("5: 0.750, 2: 0.250", "0: 0.500, 5: 0.500")
    ]
    page.map.pointed.emit(1, 5)
    now = window.bench.selection.now
    assert (now.operation, now.layer, now.token) == ("ffn_moe_out-3", 3, (answer.id, 1))
    assert engine.last_of(Examine) is asked, "the same word is not computed again"
    window.bench.selection.select_layer(1)
    assert page.table.view.currentIndex().row() == 0


def test_without_experts_and_without_an_answer(
    window: MainWindow, engine: ScriptedEngine, page: ExpertsPage
) -> None:
    answer = window.bench.chat.path[1]
    window.bench.selection.select_token(answer.id, 0)
    tell(engine, {})
    assert page.caption.text() == NO_EXPERTS
    assert not page.map.isVisible()
    window.bench.selection.select_token(answer.id, 1)
    first = engine.last_of(Examine).id
    window.bench.selection.select_token(answer.id, 0)
    assert any(isinstance(one, Cancel) and one.id == first for one in engine.asked)
    engine.say(Failed(first, "Cancelled", "cancelled"))
    assert "Computing" in page.caption.text()
    engine.say(Failed(engine.last_of(Examine).id, "NoMem", "no room for probes"))
    assert page.caption.text() == "no room for probes"
    window.bench.selection.clear()
    assert page.caption.text() == NO_WORD


def test_nothing_is_asked_for_nobody(window: MainWindow, engine: ScriptedEngine) -> None:
    window.panes.show_tab("memory")
    window.bench.selection.select_token(window.bench.chat.path[1].id, 1)
    probing = [one for one in engine.asked if isinstance(one, Examine) and one.probes]
    assert not probing


def test_without_logits_there_are_as_many_as_were_seen() -> None:
    found = routing_of({"ffn_moe_topk-0": np.array([3, 1], np.float32)})
    assert found is not None
    assert found.n_experts == 4
    assert [one.expert for one in found.chosen[0]] == [3, 1]


@pytest.mark.device
def test_a_models_own_choice(tmp_path: Path, qtbot: QtBot) -> None:
    """Of Llama 4's kind, against the largest logit of its router."""
    from engine.runner import load
    from tests.goldens.vision.families import write_text

    with load(write_text(tmp_path / "m.gguf", "llama4"), device="host", ctx=64) as model:
        pattern = r"ffn_moe_(logits|topk|weights)-\d+"
        found = {k: v for k, v in model.dump("a b c", pattern).items() if k.endswith("@0")}
    last = {key.split("#")[0]: values[-1].reshape(-1) for key, values in found.items()}
    routing = routing_of(last)
    assert routing is not None
    assert routing.layers
    for layer, (one,) in zip(routing.layers, routing.chosen, strict=True):
        logits = last[f"ffn_moe_logits-{layer}"]
        assert routing.n_experts == len(logits)
        assert one.expert == logits.argmax()
        assert one.weight == pytest.approx(1 / (1 + np.exp(-logits.max())), rel=1e-4)
