"""The comparison and the cells of a real engine, in their pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.local_engine import LocalEngine
from app.state.graph.errors import node_errors
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.graph.graph import GraphView
from engine.settings import EngineOptions


@pytest.fixture
def bench(theme: Theme, tmp_path: Path) -> Iterator[Workbench]:
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
