"""Placements made by hand in the window, before three devices: to the byte what a plan says."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.views.layers.chart import LanesChart
from app.views.layers.layers import LayersView, part_rows
from app.views.layers.picture import ShownTile
from app.window.main_window import MainWindow
from app.window.program import shown_window
from engine.backends.opencl.drivers.find import find_drivers
from engine.protocol import DescribePlan, Planned
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.app.end_to_end.person import Person
from tests.program import run

pytestmark = pytest.mark.device
MIB = 1 << 20
DEVICES = ("intel:0", "pocl:0", "pocl:1")
OPTIONS = EngineOptions(device="intel:0", ctx=256, budget={"pocl:1": 1 * MIB})
REAL = replace(OPTIONS, budget={"pocl:1": 12 * MIB})
WAYS = ("drag", "range", "boundary", "part", "keys", "key range", "key part", "key boundary")
_LEFT = Qt.MouseButton.LeftButton
_NONE, _SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
_ALT, _CTRL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
Sizes = dict[tuple[str, str, int], int]
Planner = Callable[..., Planned]


@pytest.fixture
def three_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two vendors, one with two devices; heard by processes that start from now on."""
    if not {"libintelocl", "libpocl"} <= {driver.name for driver in find_drivers()}:
        pytest.skip("needs the drivers of the extras cpu and pocl")
    monkeypatch.setenv("POCL_DEVICES", "pthread pthread")


@pytest.fixture
def window(qapp: QApplication, home_with_models: Path, three_devices: None) -> Iterator[MainWindow]:
    """A window that has never opened a model."""
    with shown_window(qapp) as window:
        window.resize(1600, 1000)
        yield window


@pytest.fixture
def planner(three_devices: None) -> Iterator[Planner]:
    """What another engine plans for a rule."""
    known: dict[tuple[Path, str], Planned] = {}

    def planned(path: Path, rule: str, options: EngineOptions = OPTIONS) -> Planned:
        if (path, rule) not in known:
            request = DescribePlan(worker.new_id(), str(path), replace(options, place=rule))
            known[path, rule] = worker.get(request)
        return known[path, rule]

    with Worker() as worker:
        yield planned


class Hand:
    """A person who places layers."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.view = person.window.inspector.view(LayersView)
        self.state = self.view.state

    @property
    def chart(self) -> LanesChart:
        return self.view.chart

    def settled(self) -> bool:
        return not self.state.pending and not self.state.typed.text

    def tile(self, layer: int) -> ShownTile:
        """Of a layer where it is at home, in its lane."""
        tiles = (t for row in self.chart.picture.rows if not row.opened for t in row.tiles)
        return next(t for t in tiles if layer in t.layers and t.tiles[0].home)

    def seen(self, place: QPoint) -> QPoint:
        """Scroll to a place of the chart; where it is in the window."""
        self.view.area.ensureVisible(place.x(), self.chart.y() + place.y(), 0, 60)
        self.person.look(5)
        return self.chart.mapTo(self.person.window, place)

    def lane(self, device: str) -> QPoint:
        """The middle of a lane."""
        rows = self.chart.picture.rows
        row = next(r for r in rows if r.lane.device == device and not r.opened)
        return QPoint(400, round(row.track.center().y()))

    def click(self, tile: ShownTile, modifier: Qt.KeyboardModifier = _NONE) -> None:
        surface = self.person.window.windowHandle()
        place = self.seen(tile.area.center().toPoint())
        QTest.mouseClick(surface, _LEFT, modifier, place)

    def drag(self, start: QPoint, end: QPoint, during: Callable[[], None]) -> None:
        """Press, move in steps, look, let go."""
        surface = self.person.window.windowHandle()
        first = self.seen(start)
        QTest.mousePress(surface, _LEFT, _NONE, first)
        for part in (0.1, 0.5, 1.0):
            way = QPoint(
                *(
                    round(part * (b - a))
                    for a, b in zip(start.toTuple(), end.toTuple(), strict=True)
                )
            )
            QTest.mouseMove(surface, first + way)
            self.person.look(5)
        self.person.wait(self.settled)
        during()
        QTest.mouseRelease(surface, _LEFT, _NONE, first + end - start)
        self.person.look(5)

    def key(self, key: Qt.Key, modifier: Qt.KeyboardModifier = _NONE) -> None:
        QTest.keyClick(self.person.window.windowHandle(), key, modifier)
        self.person.look(2)


def shown(view: LayersView) -> tuple[Sizes, Sizes]:
    """Bytes of device, component and layer of the table's rows: allocated, and mapped."""
    held, mapped = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    for tile, band in part_rows(view.state.lanes()):
        component = band.part if band.part in ("cache", "vision") else "weights"
        held[tile.device, component, tile.layer] += band.held
        mapped[tile.device, component, tile.layer] += band.mapped
    return {k: v for k, v in held.items() if v}, {k: v for k, v in mapped.items() if v}


def planned_sizes(plan: Planned) -> tuple[Sizes, Sizes]:
    found: tuple[Sizes, Sizes] = {}, {}
    for row in plan.memory.rows:
        if row.layer is not None:
            found[row.status == "mapped"][row.device, row.component, row.layer] = row.size
    return found


def agree(view: LayersView, plan: Planned) -> None:
    """What is seen is what a plan of the rule says: bytes, what is short, splits, crossing."""
    state = view.state
    assert state.answer is not None
    told = planned_sizes(plan)
    assert shown(view)[0] == told[0]
    assert {k[0]: v for k, v in shown(view)[1].items()}.keys() <= {k[0] for k in told[1]}
    lanes = {lane.device: lane for lane in state.lanes()}
    for row in plan.budgets:
        if row.device in lanes:
            assert lanes[row.device].wanted == row.wanted
        if row.device in OPTIONS.budget:
            assert lanes[row.device].over == row.over
            assert (row.over > 0) == ("short" in view.apply.caption.text())
    assert bool(plan.problem) == bool(state.answer.problem)
    assert view.apply.button.isEnabled() == (not plan.problem and state.blocked() == "")
    assert (len(state.answer.splits), state.answer.crossing) == (len(plan.splits), plan.crossing)
    pictured = Counter[str]()
    for row in view.chart.picture.rows:
        if not row.opened:
            pictured[row.lane.device] += sum(tile.size for tile in row.tiles)
    both = Counter[str]()
    for sizes in shown(view):
        for (device, _, _), size in sizes.items():
            both[device] += size
    assert +pictured == both


def place(hand: Hand, draw: random.Random, how: str, during: Callable[[], None]) -> None:
    """One placement more, by mouse or by keyboard."""
    chart, state = hand.chart, hand.state
    placed = state.placement
    assert placed is not None
    layer = draw.randrange(placed.n_layer + 1)
    tile = hand.tile(layer)
    other = draw.choice([d for d in DEVICES if d != tile.device])
    if how in ("drag", "range"):
        hand.click(tile)
        if how == "range":
            hand.click(hand.tile(draw.randrange(placed.n_layer)), _SHIFT)
        taken = chart.walker.taken[0]
        start, end = taken.area.center().toPoint(), hand.lane(other)
        hand.drag(start, QPoint(start.x() + 30, end.y()), during)
    elif how == "boundary":
        at = draw.choice(placed.boundaries() or [0])
        edges = [
            QPoint(round(x), round(row.track.center().y()))
            for row in chart.picture.rows
            for x, to in chart.picture.edges(row)
            if to == at and x > 5 and not row.opened
        ]
        for start in edges[:1]:
            hand.drag(start, start + QPoint(draw.choice((-150, -90, 90, 150)), 0), during)
    elif how == "part":
        hand.chart.open(tile)
        chart.open()  # of a group the first layer
        part = next(
            (t for t in chart.picture.tiles() if t.part in ("attention", "feed_forward")), None
        )
        if part is not None:
            start, end = part.area.center().toPoint(), hand.lane(other)
            hand.drag(start, QPoint(start.x() + 30, end.y()), during)
        chart.close_opened()
    else:
        hand.click(tile)
        if how == "key range":
            for _ in range(draw.randrange(1, 5)):
                hand.key(Qt.Key.Key_Right, _SHIFT)
        elif how == "key part":
            hand.key(Qt.Key.Key_Return)
            hand.key(Qt.Key.Key_Return)
        if how == "key boundary":
            hand.key(draw.choice((Qt.Key.Key_Left, Qt.Key.Key_Right)), _CTRL)
        else:
            hand.key(draw.choice((Qt.Key.Key_Down, Qt.Key.Key_Up)), _ALT)
        while chart.close_opened():
            pass


@pytest.mark.parametrize(
    ("model", "options", "placements"),
    [
        ("tiny_base", OPTIONS, 9),
        pytest.param("tiny_base", OPTIONS, 20, marks=pytest.mark.full),
        pytest.param("smollm2", REAL, 20, marks=[pytest.mark.full, pytest.mark.model_file]),
    ],
)
def test_placements_by_hand_are_what_a_plan_says(
    qtbot: object,
    window: MainWindow,
    planner: Planner,
    model: str,
    options: EngineOptions,
    placements: int,
    request: pytest.FixtureRequest,
) -> None:
    person = Person(qtbot, window)  # type: ignore[arg-type]
    path: Path = request.getfixturevalue(f"{model}_path")
    window.panes.show_tab("layers")
    hand, layers = Hand(person), window.bench.layers
    layers.look_at(path, options)
    person.wait(hand.settled)
    agree(hand.view, planner(path, "", options))
    for device in DEVICES:
        if device in layers.unused_devices():
            layers.add_lane(device)
    draw, done = random.Random(13), Counter[str]()
    rules = {""}

    def now() -> None:
        rules.add(layers.draft.rule)
        agree(hand.view, planner(path, layers.draft.rule, options))

    while len(rules) <= placements or len(done) < len(WAYS):
        way, before = draw.choice(WAYS), layers.draft.rule
        place(hand, draw, way, now)
        person.wait(hand.settled)
        now()
        done[way] += layers.draft.rule != before
        assert sum(done.values()) < 10 * placements, done
    assert len({bool(planner(path, rule, options).problem) for rule in rules}) == 2

    # the command line says the same
    budget = f"pocl:1={options.budget['pocl:1'] // MIB}"
    words = ("--device", "intel:0", "--ctx", "256", "--budget", budget)
    told = run("plan", str(path), "--json", *words, "--place", layers.draft.rule)
    assert told.returncode == 0, told
    rows = json.loads(told.stdout)["memory"]["rows"]
    assert shown(hand.view)[0] == {
        (r["device"], r["component"], r["layer"]): r["size"]
        for r in rows
        if r["layer"] is not None and r["status"] != "mapped"
    }

    # every step back, and there again
    assert layers.can_undo
    last = layers.draft.rule
    while layers.can_undo:
        layers.undo()
    assert layers.draft.rule == ""
    while layers.can_redo:
        layers.redo()
    assert layers.draft.rule == last


def held(window: MainWindow) -> Sizes:
    """What the engine holds for layers, by device, component and layer."""
    cells = window.bench.memory.cells
    return {(c.device, c.component, c.layer): c.held for c in cells if c.layer is not None}


def test_a_placement_is_loaded_then_moved(
    qtbot: object,
    window: MainWindow,
    tiny_base_path: Path,
    planner: Planner,
    expected: list[str],
) -> None:
    """Before a model is open, then of the open one; only what moved is uploaded."""
    person, path = Person(qtbot, window), tiny_base_path  # type: ignore[arg-type]
    expected.append("no chat template")
    session, layers = window.bench.session, window.bench.layers
    window.panes.show_tab("layers")
    hand = Hand(person)
    layers.look_at(path, OPTIONS)
    person.wait(hand.settled)
    layers.add_lane("pocl:0")
    hand.click(hand.tile(2))
    hand.key(Qt.Key.Key_Down, _ALT)
    person.wait(hand.settled)
    rule = layers.draft.rule
    assert rule == "0-1=intel:0, 2=pocl:0, 3-6=intel:0, out=intel:0"
    hand.key(Qt.Key.Key_Return, _CTRL)
    person.wait(lambda: session.status == "ready")
    assert session.options.place == rule
    person.wait(hand.settled)
    agree(hand.view, planner(path, rule))
    assert held(window) == planned_sizes(planner(path, rule))[0]

    hand.click(hand.tile(4))
    hand.key(Qt.Key.Key_Down, _ALT)
    person.wait(hand.settled)
    moved = layers.draft.rule
    hand.key(Qt.Key.Key_Return, _CTRL)
    person.wait(lambda: layers.applying.result and not layers.applying.is_busy)
    assert not layers.applying.failed, layers.applying.result
    names = [t.name for t in window.bench.file.content.tensors]  # type: ignore[union-attr]
    mine = [name for name in names if name.startswith("blk.4.")]
    assert layers.applying.result.startswith(f"{len(mine)} tensors uploaded")
    person.wait(hand.settled)
    assert session.options.place == moved
    agree(hand.view, planner(path, moved))
    assert held(window) == planned_sizes(planner(path, moved))[0]
    assert not hand.view.apply.button.isEnabled()
