"""Comparisons, cells and experts of a real engine, in their pages."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.local_engine import LocalEngine
from app.state.graph.overlay import node_errors
from app.state.presets import AnswerLimits
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.graph.graph import GraphView
from app.views.tensors.tensors import KINDS, TensorsView
from engine.settings import EngineOptions
from tests.goldens.vision.families import write_text


@pytest.fixture
def bench(theme: Theme, kept_engines: None, tmp_path: Path) -> Iterator[Workbench]:
    engine = LocalEngine()
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    yield bench
    bench.close()
    engine.close()


@pytest.mark.parametrize("device", ["host", pytest.param("intel:0", marks=pytest.mark.device)])
def test_all_that_is_computed_is_coloured(
    bench: Workbench, qtbot: QtBot, tiny_path: Path, device: str
) -> None:
    view = GraphView(bench)
    view.resize(900, 700)
    bench.open_model(tiny_path, EngineOptions(device=device, ctx=64))
    view.show()
    state, graph = bench.comparison, bench.graph
    qtbot.waitUntil(lambda: state.can_start and graph.is_known)
    view.bar.choose_overlay("error")
    view.compared.compare.click()
    qtbot.waitUntil(lambda: not state.is_busy)
    assert state.problem == ""
    assert state.result is not None
    assert state.first is None
    graph.show_phases("decode", "prefill")
    qtbot.waitUntil(lambda: graph.is_known)
    for phase, index in graph.indices.items():
        rows = [row for row in state.result.rows if row.phase == phase]
        errors = node_errors(index, rows)
        own = {number: error for number, error in errors.items() if error.own}
        assert {id(error.row) for error in own.values()} == set(map(id, rows))
        caches = [error.row for n, error in own.items() if index.graph.nodes[n].op == "set_rows"]
        assert {row.name for row in caches} == {r.name for r in rows if r.name.startswith("cache")}
        assert set(index.computed) <= set(errors)
    bench.cells.shown(True)
    qtbot.waitUntil(lambda: bool(bench.cells.caches))
    assert {cache.used for cache in bench.cells.caches} == {0}  # the comparison leaves none
    view.close()
    view.deleteLater()


def test_two_texts_and_their_difference(bench: Workbench, qtbot: QtBot, tiny_path: Path) -> None:
    """What is drawn and what is read as numbers are of the same two texts."""
    view = TensorsView(bench)
    view.resize(900, 700)
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=64))
    view.show()
    view.kinds.setCurrentIndex(KINDS.index("Texts"))
    qtbot.waitUntil(lambda: bench.texts.can_start)
    page = view.texts
    page.first.typed.set_text("the red hat")
    page.other.typed.set_text("the old hat")
    page.compare.click()
    qtbot.waitUntil(lambda: bench.texts.result is not None)
    result = bench.texts.result
    assert result is not None
    row = next(row for row in result.rows if row.name == "l_out-1")
    assert result.rows[result.first or 0].name == "embd"
    page.table.activated.emit(row)
    qtbot.waitUntil(lambda: bench.tensors.numbers is not None)
    numbers = bench.tensors.numbers
    assert numbers is not None
    off = numbers.read(range(numbers.rows), range(numbers.columns))
    errors = np.frombuffer(row.errors, "<f4")
    assert off.shape == (len(result.pairs), 64)
    assert (np.square(off).sum(axis=1) > 0).tolist() == (errors > 0).tolist()
    view.close()
    view.deleteLater()


def test_experts_of_an_answer(bench: Workbench, qtbot: QtBot, tmp_path: Path) -> None:
    """Of a model of Llama 4's kind: one of four in each layer that has any."""
    view = TensorsView(bench)
    view.resize(900, 700)
    bench.preferences.update(token_live=False)
    path = write_text(tmp_path / "m.gguf", "llama4")
    bench.open_model(path, EngineOptions(device="host", ctx=128))
    view.show()
    qtbot.waitUntil(lambda: bench.session.status == "ready")
    bench.chat.details.set_limits(AnswerLimits(max_tokens=3))
    assert bench.chat.send("a b")
    qtbot.waitUntil(lambda: not bench.chat.busy)
    view.kinds.setCurrentIndex(KINDS.index("Experts"))
    bench.selection.select_token(bench.chat.path[1].id, 0)
    qtbot.waitUntil(lambda: bench.experts.routing is not None or bool(bench.experts.problem))
    assert bench.experts.problem == ""
    routing = bench.experts.routing
    assert routing is not None
    assert (routing.layers, routing.n_experts) == ((1, 3), 4)
    assert all(len(some) == 1 and 0 < some[0].weight < 1 for some in routing.chosen)
    view.close()
    view.deleteLater()
