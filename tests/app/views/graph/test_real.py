"""The graph before the real engine, on two devices: what is drawn is the plan, and a pin stays."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.local_engine import LocalEngine
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.graph.graph import GraphView
from engine.protocol import DescribePlan, Planned
from engine.settings import EngineOptions
from tests.engine.runner.memory import two_devices

pytestmark = pytest.mark.device
NODE = re.compile(r"^node #\s*(\d+) \(", re.MULTILINE)


@pytest.fixture
def bench(theme: Theme, kept_engines: None, tmp_path: Path) -> Iterator[Workbench]:
    engine = LocalEngine()
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    yield bench
    bench.close()
    engine.close()


@pytest.fixture
def view(bench: Workbench, qtbot: QtBot, tiny_path: Path) -> Iterator[GraphView]:
    one, two = two_devices()
    options = EngineOptions(device=one, ctx=64, place=f"1={two}")
    view = GraphView(bench)
    view.resize(900, 700)
    bench.open_model(tiny_path, options)
    view.show()
    qtbot.waitUntil(lambda: bench.session.model is not None and bench.graph.is_known)
    yield view
    view.close()
    view.deleteLater()


def planned(bench: Workbench, qtbot: QtBot) -> Planned:
    """What `cutaway plan --nodes` says of the open model."""
    found: list[Planned] = []
    request = DescribePlan(0, str(bench.session.path), bench.session.options, nodes=True)
    bench.client.send(request, found.append)
    qtbot.waitUntil(lambda: bool(found))
    return found[0]


def test_each_node_of_the_plan_is_drawn_once(
    bench: Workbench, view: GraphView, qtbot: QtBot
) -> None:
    plan = planned(bench, qtbot)
    bench.graph.collapse(False)
    qtbot.waitUntil(lambda: len(view.canvas.scene.cards) == 5)  # type: ignore[union-attr]
    assert view.canvas.scene is not None
    drawn = Counter(
        box.number for card in view.canvas.scene.cards for box in card.boxes if box.kind == "node"
    )
    assert drawn == Counter(map(int, NODE.findall(plan.nodes)))
    assert [view.ribbon.words(i).split(":")[0] for i in range(view.ribbon.stops())] == [
        f"Split {i} on {split.device.split(':')[0]}" for i, split in enumerate(plan.splits)
    ]


def test_a_pin_survives_planning_again(
    bench: Workbench, view: GraphView, qtbot: QtBot, tiny_path: Path
) -> None:
    one, two = two_devices()
    state = bench.graph
    before = view.index
    assert before is not None
    name = "ffn_norm-0"
    assert before.graph.nodes[before.by_key[name]].device == one
    state.try_pin(name, two)
    qtbot.waitUntil(lambda: state.preview is not None)
    found = state.change()
    assert found is not None
    assert name in found.moved
    assert found.splits[1] > found.splits[0]
    view.offer.apply.click()
    rule = f"1={two},^{name}$={two}"
    qtbot.waitUntil(lambda: bench.session.options.place == rule)
    qtbot.waitUntil(lambda: bench.session.model is not None and state.is_known)
    state.show_phases("decode", "prefill")
    qtbot.waitUntil(lambda: state.is_known)
    assert not state.from_header
    for index in state.indices.values():
        node = index.graph.nodes[index.by_key[name]]
        assert (node.device, node.cause) == (two, "usr")
        assert node.why == f"pinned to {two} by the rule ^{name}$={two}"
    assert len(state.indices["decode"].graph.splits) == found.splits[1]
    assert bench.options_for(tiny_path).place == rule
