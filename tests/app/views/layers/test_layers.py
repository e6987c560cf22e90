"""Layers moved by mouse and by keyboard, before a scripted engine."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.library import Stored
from app.state.lab.shading import effect_of
from app.theme.devices import lettered
from app.views.layers.layers import LayersView, layers_report
from app.views.layers.picture import LanesPicture, Measures, ShownTile
from app.window.main_window import MainWindow
from engine.protocol import (
    LayerDrift,
    ListDevices,
    Load,
    Move,
    PatchesMapped,
    PatchTable,
    QualityMeasured,
    Reprice,
)
from engine.settings import EngineOptions
from tests.app.helpers.painted import texts
from tests.app.helpers.placed import DEVICES, ROWS, PlacedModel, move_layers, reprice
from tests.app.helpers.scripted import ScriptedEngine

A, B, C = DEVICES
PATH = Path("/models/some.gguf")
NONE, SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
ALT, CTRL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton
Answer = Callable[[], None]


@pytest.fixture
def client(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


@pytest.fixture
def model() -> PlacedModel:
    return PlacedModel(12)


@pytest.fixture
def answer(client: ScriptedEngine, model: PlacedModel) -> Answer:
    return lambda: reprice(client, model)


@pytest.fixture
def view(window: MainWindow, client: ScriptedEngine, answer: Answer) -> LayersView:
    """Of an open model on the first of three devices, with the keyboard in the lanes."""
    window.bench.open_model(PATH, EngineOptions(ctx=512))
    client.load_done()
    window.panes.show_tab("layers")
    client.answer(ListDevices, ROWS)
    answer()
    window.bench.layers.add_lane(B)
    view = window.inspector.view(LayersView)
    view.chart.setFocus()
    QTest.qWait(1)
    return view


def tile(view: LayersView, layer: int) -> ShownTile:
    rows = (row for row in view.chart.picture.rows if not row.opened)
    return next(t for row in rows for t in row.tiles if layer in t.layers and t.tiles[0].home)


def lane_of(view: LayersView, device: str) -> QPoint:
    row = next(r for r in view.chart.picture.rows if r.lane.device == device)
    return QPoint(300, round(row.track.center().y()))


def press(view: LayersView, place: QPointF, modifier: Qt.KeyboardModifier = NONE) -> QPoint:
    at = place.toPoint()
    QTest.mousePress(view.chart, LEFT, modifier, at)
    return at


def key(view: LayersView, *keys: Qt.Key, modifier: Qt.KeyboardModifier = NONE) -> None:
    for one in keys:
        QTest.keyClick(view.chart, one, modifier)


def rule(view: LayersView) -> str:
    return view.state.draft.rule


def test_a_tile_is_dragged_and_priced_on_the_way(view: LayersView, answer: Answer) -> None:
    start = press(view, tile(view, 3).area.center())
    QTest.mouseMove(view.chart, start + QPoint(2, 1))
    assert not view.chart.is_dragging  # a click may tremble
    QTest.mouseMove(view.chart, lane_of(view, B))
    assert rule(view) == f"0-2={A}, 3={B}, 4-11={A}, out={A}"
    assert not view.state.can_undo
    answer()
    QTest.mouseMove(view.chart, lane_of(view, C))
    assert rule(view) == f"0-2={A}, 3={C}, 4-11={A}, out={A}"
    QTest.mouseMove(view.chart, lane_of(view, A))
    assert rule(view) == ""
    QTest.mouseMove(view.chart, lane_of(view, B))
    QTest.mouseRelease(view.chart, LEFT, NONE, lane_of(view, B))
    answer()
    assert rule(view) == f"0-2={A}, 3={B}, 4-11={A}, out={A}"
    assert view.state.can_undo
    assert [t.layers for t in view.chart.walker.taken] == [(3,)]
    assert view.chart.walker.taken[0].device == B


def test_the_lane_turns_red_while_dragging(view: LayersView, answer: Answer) -> None:
    """With what is missing in words, before anything is let go."""
    key(view, Qt.Key.Key_A, modifier=CTRL)
    press(view, tile(view, 3).area.center())
    QTest.mouseMove(view.chart, lane_of(view, C))
    answer()
    (lane,) = [lane for lane in view.state.lanes() if lane.over]
    said = f"{lane.over / (1 << 20):.1f} MiB short"
    assert lane.device == C
    assert said in view.apply.caption.text()
    assert view.apply.caption.property("tone") == "bad"
    assert said in view.chart.accessibleDescription()
    assert not view.apply.button.isEnabled()
    key(view, Qt.Key.Key_Escape)
    answer()
    assert rule(view) == ""
    assert not view.chart.is_dragging
    assert not any(lane.over for lane in view.state.lanes())
    QTest.mouseRelease(view.chart, LEFT, NONE, lane_of(view, C))
    assert rule(view) == ""


def test_what_does_not_fit_cannot_be_applied_by_accident(
    view: LayersView, answer: Answer, client: ScriptedEngine
) -> None:
    move_layers(view.state, range(13), C)
    for told in (False, True):  # while its memory is worked out, and after
        if told:
            answer()
        before = list(client.asked)
        key(view, Qt.Key.Key_Return, modifier=CTRL)
        place = view.apply.button.rect().center()
        QTest.mouseDClick(view.apply.button, LEFT, NONE, place)
        QTest.mouseClick(view.apply.button, LEFT, NONE, place)
        QTest.keyClick(view.apply.button, Qt.Key.Key_Return)
        view.state.apply()
        assert not any(isinstance(r, Move | Load) for r in client.asked[len(before) :])
    key(view, Qt.Key.Key_Z, modifier=CTRL)
    answer()
    assert rule(view) == ""


def test_a_range_is_moved_by_keys_and_applied(
    view: LayersView, answer: Answer, client: ScriptedEngine
) -> None:
    key(view, Qt.Key.Key_Home, Qt.Key.Key_Right, Qt.Key.Key_Right)
    key(view, Qt.Key.Key_Right, Qt.Key.Key_Right, modifier=SHIFT)
    key(view, Qt.Key.Key_Down, modifier=ALT)
    assert rule(view) == f"0-1={A}, 2-4={B}, 5-11={A}, out={A}"
    key(view, Qt.Key.Key_Down, modifier=ALT)  # the same tiles on: one step
    answer()
    assert rule(view) == f"0-1={A}, 2-4={C}, 5-11={A}, out={A}"
    key(view, Qt.Key.Key_Z, modifier=CTRL)
    assert rule(view) == ""
    key(view, Qt.Key.Key_Z, modifier=CTRL | SHIFT)
    assert rule(view) == f"0-1={A}, 2-4={C}, 5-11={A}, out={A}"
    answer()
    key(view, Qt.Key.Key_Return, modifier=CTRL)
    move = client.last_of(Move)
    assert isinstance(move, Move)
    assert move.options.place == rule(view)


def test_a_part_is_moved_by_keys(view: LayersView, answer: Answer) -> None:
    key(view, Qt.Key.Key_Home, Qt.Key.Key_Right, Qt.Key.Key_Return)
    assert [t.part for t in view.chart.walker.taken] == ["attention"]
    key(view, Qt.Key.Key_Right)
    key(view, Qt.Key.Key_Down, modifier=ALT)
    assert rule(view) == rf"0-11={A}, out={A}, ^blk\.1\.ffn_={B}"
    answer()
    assert "placed by a pattern of the rule" in view.details.text()
    key(view, Qt.Key.Key_Up, modifier=ALT)
    assert rule(view) == f"0-11={A}, out={A}"


def test_the_cache_goes_with_its_layer(view: LayersView) -> None:
    key(view, Qt.Key.Key_Home, Qt.Key.Key_Return, Qt.Key.Key_End)
    assert [t.part for t in view.chart.walker.taken] == ["cache"]
    key(view, Qt.Key.Key_Down, modifier=ALT)
    assert view.state.placement is not None
    assert set(view.state.placement.layers) == {A}
    assert "stays with its layer" in view.apply.caption.text()


def test_a_boundary_is_dragged_and_walked(view: LayersView, answer: Answer) -> None:
    move_layers(view.state, range(6, 13), B)
    answer()
    start = press(view, tile(view, 5).area.topRight() + QPointF(0, 30))
    width = tile(view, 6).area.width()
    QTest.mouseMove(view.chart, start + QPoint(round(2 * width), 0))
    assert rule(view) == f"0-7={A}, 8-11={B}, out={B}"
    QTest.mouseMove(view.chart, start + QPoint(4000, 0))
    assert rule(view) == f"0-10={A}, 11={B}, out={B}"  # a run keeps one layer
    QTest.mouseRelease(view.chart, LEFT, NONE, start + QPoint(4000, 0))
    answer()
    key(view, Qt.Key.Key_Home)
    key(view, Qt.Key.Key_Left, Qt.Key.Key_Left, modifier=CTRL)
    assert rule(view) == f"0-8={A}, 9-11={B}, out={B}"
    view.chart.go(tile(view, 12))
    key(view, Qt.Key.Key_Left, modifier=CTRL)  # the output block is no layer of a run
    assert rule(view) == f"0-8={A}, 9-11={B}, out={B}"


def test_a_wrong_rule_is_told_at_the_field(view: LayersView, answer: Answer) -> None:
    view.rule.field.setFocus()
    QTest.keyClicks(view.rule.field, f"0-99={B}")
    QTest.keyClick(view.rule.field, Qt.Key.Key_Return)
    answer()
    assert "is not valid; expected layers 0 to 11" in view.rule.wrong.text()
    assert view.rule.wrong.isVisible()
    assert view.rule.field.text == f"0-99={B}"
    assert rule(view) == ""
    for _ in range(len(f"99={B}")):
        QTest.keyClick(view.rule.field, Qt.Key.Key_Backspace)
    QTest.keyClicks(view.rule.field, f"3={B}")
    QTest.keyClick(view.rule.field, Qt.Key.Key_Return)
    answer()
    assert (rule(view), view.rule.wrong.isVisible()) == (f"0-3={B}", False)
    assert tile(view, 2).device == B
    QTest.keyClicks(view.rule.field, ",x")
    QTest.keyClick(view.rule.field, Qt.Key.Key_Escape)
    assert view.rule.field.text == f"0-3={B}"


def test_markup_in_a_rule_is_shown_letter_by_letter(view: LayersView, answer: Answer) -> None:
    view.state.type_rule("<b>x</b>")
    answer()
    assert "<b>x</b>" in view.rule.wrong.text()
    assert view.rule.wrong.textFormat() == Qt.TextFormat.PlainText


def test_the_rule_is_copied(view: LayersView, answer: Answer) -> None:
    move_layers(view.state, [3], B)
    answer()
    view.rule.copy_place()
    copied = QGuiApplication.clipboard().text()
    assert copied == f"--place '0-2={A}, 3={B}, 4-11={A}, out={A}'"
    view.rule.copy_llama_cpp()
    assert QGuiApplication.clipboard().text() == "-ngl 99"


def test_what_is_selected_goes_both_ways(window: MainWindow, view: LayersView) -> None:
    QTest.mouseClick(view.chart, LEFT, NONE, tile(view, 7).area.center().toPoint())
    now = window.bench.selection.now
    assert (now.layer, now.device, now.component) == (7, A, None)
    window.bench.selection.select_cell(2, A, "cache")
    assert [t.layers for t in view.chart.walker.taken] == [(2,)]
    window.bench.selection.back()
    assert [t.layers for t in view.chart.walker.taken] == [(7,)]
    head = view.chart.picture.rows[1].head.center().toPoint()
    QTest.mouseClick(view.chart, LEFT, NONE, head)
    assert window.bench.selection.now.device == view.chart.picture.rows[1].lane.device


def test_what_a_tile_says(view: LayersView) -> None:
    view.chart.go(tile(view, 5))
    said = view.chart.accessibleDescription()
    letter = lettered(A)
    wanted = (
        f"layer 5, attention, feed-forward and cache, 3.5 MiB, on {letter} (global): it has room"
    )
    assert said.startswith(wanted)
    assert view.details.text() in said
    assert f"{letter}: layers 0-11 and the output block" in said


def test_everything_is_in_the_menu(view: LayersView, answer: Answer) -> None:
    view.chart.go(tile(view, 5))
    menu = view.menu()
    words = [action.text() for action in menu.actions()]
    assert f"Move to {lettered(B)}" in words
    assert {"Move only attention", "Move only feed-forward", "Open", "Undo", "Apply"} <= set(words)
    move = next(a for a in menu.actions() if a.text() == f"Move to {lettered(C)}")
    move.trigger()
    assert tile(view, 5).device == C
    part = next(a for a in menu.actions() if a.text() == "Move only attention").menu()
    assert part is not None


def test_commands_act_on_the_page_that_is_shown(window: MainWindow, view: LayersView) -> None:
    view.chart.go(tile(view, 5))
    window.commands.run("layers.down")
    assert tile(view, 5).device == B
    window.commands.run("layers.undo")
    assert tile(view, 5).device == A
    window.commands.run("view.table")
    assert view.as_table
    rows = view.table.rows.all_rows
    assert sum(row.band.size for row in rows) == sum(t.size for t in view.chart.picture.tiles())
    window.commands.run("view.table")
    window.panes.show_tab("memory")
    window.commands.refresh()
    assert not window.commands["layers.redo"].isEnabled()


def test_a_speed_is_predicted_before_and_after(
    view: LayersView, answer: Answer, model: PlacedModel
) -> None:
    assert view.figures.in_words().startswith("143 tokens/s predicted, 1 split, 0 bytes")
    assert view.measure.isVisible()
    assert view.measure.text() == "Measure again"
    move_layers(view.state, [3], B)
    answer()
    assert view.figures.in_words().startswith("143 → 47.7 tokens/s predicted, 1 → 3 splits")
    assert "intel:0 21.00 ms" in view.figures.toolTip()
    model.measured = False
    move_layers(view.state, [4], B)
    answer()
    assert view.figures.in_words().startswith("143 → – tokens/s")
    assert "Speed unknown" in view.figures.toolTip()
    assert view.measure.text() == "Measure speed"
    view.measure.click()
    assert view.measure.text() == "Cancel measuring"


def test_a_view_that_is_hidden_asks_for_nothing(
    window: MainWindow, view: LayersView, client: ScriptedEngine
) -> None:
    window.panes.show_tab("memory")
    before = len(client.asked)
    move_layers(window.bench.layers, [1], B)
    assert len(client.asked) == before
    window.panes.show_tab("layers")
    assert isinstance(client.last, Reprice)


def test_the_chooser_hands_its_model_over(
    window: MainWindow, client: ScriptedEngine, answer: Answer, tmp_path: Path
) -> None:
    path = tmp_path / "good.gguf"
    options = window.sheets.chooser.options
    window.sheets.show_chooser()
    client.answer(ListDevices, ROWS)
    options.show_model(Stored("good", (path,), 5, "own", False, "llama", "Q4_1"))
    QTest.keyClick(options.devices.boxes[A], Qt.Key.Key_Space)
    QTest.keyClick(options.devices.boxes[C], Qt.Key.Key_Space)
    options.place_layers.click()
    assert window.sheets.front is None
    assert window.inspector.tab == "layers"
    answer()
    view = window.inspector.view(LayersView)
    asked = client.last_of(Reprice)
    assert isinstance(asked, Reprice)
    assert (asked.path, asked.options.device) == (str(path), f"{A},{C}")
    assert view.apply.button.text() == "Load"
    move_layers(view.state, [1], C)
    answer()
    view.apply.button.click()
    load = client.last_of(Load)
    assert isinstance(load, Load)
    placed = f"0={A}, 1={C}, 2-11={A}, out={A}"
    assert (load.options.device, load.options.place) == (f"{A},{C}", placed)
    options.show_model(Stored("good", (path,), 5, "own", False, "llama", "Q4_1"))
    assert options.options().place == placed  # and the chooser has it from then on
    assert options.devices.place.isVisibleTo(options.devices)


@pytest.mark.parametrize("n_layer", [18, 30, 80])
@pytest.mark.parametrize("width", [250, 560, 900, 2400])
@pytest.mark.parametrize("letter", [5.0, 7.0, 14.0])
def test_tiles_are_grouped_until_their_names_can_be_read(
    n_layer: int, width: int, letter: float
) -> None:
    """Where a name fits on the usual tile; none is lost, none overlaps, bytes are on one scale."""
    from app.state.layers.lanes import Lane, LayerTile, TileBand

    tiles = tuple(LayerTile(i, A, (TileBand("attention", 1000),)) for i in range(n_layer))
    picture = LanesPicture(
        [Lane(A, tiles, (), 0, 10**6), Lane(B)],
        n_layer,
        width,
        Measures(20, 60, 8, lambda text: letter * len(text)),
    )
    shown = picture.rows[0].tiles
    assert [layer for t in shown for layer in t.layers] == list(range(n_layer))
    for one, other in zip(shown, shown[1:], strict=False):
        assert one.area.right() <= other.area.left() + 0.01
    whole = [t for t in shown if len(t.layers) == picture.group]
    for t in whole:
        last = max(map(str, t.layers), key=len)
        name = last if len(t.layers) == 1 else f"{t.layers[0]}-{t.layers[-1]}"
        assert len(t.layers) == n_layer or letter * len(name) <= t.area.width()
    assert all(t.area.right() <= width for t in shown) or width < n_layer * 4


def test_layers_are_shaded_by_drift_and_by_effect(
    view: LayersView, window: MainWindow, qtbot: QtBot
) -> None:
    bench, colour = window.bench, view.colour
    assert not colour.isVisible()
    drift = [LayerDrift(i, 1e-4 * (i + 1), 0.999, 2e-4, 0.998) for i in range(12)]
    measured = QualityMeasured(1, "Q4", "F16", "intel:0", 8, 512, False, None, drift, [])
    bench.store.runs.add("another", "Q4 / F16", measured)
    with qtbot.waitSignals([bench.runs.changed] * 3):  # the list, and what was read for each colour
        bench.runs.refresh()
    assert not colour.isVisible(), "a run of another model has nothing to say of this one"
    bench.store.runs.add("some", "Q4 / F16", measured)
    bench.runs.refresh()
    qtbot.waitUntil(colour.isVisible)
    QTest.keyClick(colour, Qt.Key.Key_Down)
    assert (colour.currentText(), view.legend.isVisible()) == ("Drift", False)
    assert view.scale.accessibleDescription() == "NMSE: Q4 against F16, from 0 to 1.2e-3"
    painted = [text.text for text in texts(view.chart)]
    assert {"1e-4", "5e-4", "1e-3"} <= set(painted)
    view.chart.go(tile(view, 4))
    assert "NMSE 5.0e-4" in view.chart.accessibleDescription()
    effects = np.array([[0.5, 0.1], [0.9, np.nan], [-0.2, -0.75]], "<f4")
    mapped = PatchesMapped(
        2, "SmolLM2", "intel:0", "heads", "denoising", "logit-diff", ["a"], ["a"], (1, " Paris"),
        (2, " Rome"), 4.0, -3.0, [0, 1, 2], [0, 1],
        [PatchTable("heads", effects.tobytes(), effects.tobytes())], [(0, 0)], [],
    )  # fmt: skip
    bench.store.runs.add("some", "a / b", mapped)
    bench.runs.refresh()
    qtbot.waitUntil(lambda: colour.count() == 3)
    assert colour.currentText() == "Drift", "a new run leaves the choice as it is"
    QTest.keyClick(colour, Qt.Key.Key_Down)
    assert {"0.50", "0.90", "-0.8"} <= {text.text for text in texts(view.chart)}
    view.chart.go(tile(view, 2))
    assert "Largest effect -0.75" in view.chart.accessibleDescription()
    assert view.scale.accessibleDescription().endswith("Paris against Rome, from -1.00 to 1.00")
    view.toggle_table()
    assert view.scale.isHidden()
    last = view.table.rows.columns[-1]
    assert last.title == "Largest effect"
    rows = {row.tile.layer: last.text(row) for row in view.table.rows.all_rows}
    assert (rows[2], rows[3]) == ("-0.75", "")
    report = layers_report(bench, view)
    assert report.tables[0].columns[-1] == "Largest effect"
    for kept in bench.runs.kept:
        bench.runs.delete(kept.id)
    qtbot.waitUntil(colour.isHidden)
    assert view.shade is None
    assert view.table.rows.columns[-1].title == "Bytes"


def test_the_effect_of_a_layer_by_position_is_that_at_the_last_token(
    window: MainWindow, qtbot: QtBot
) -> None:
    bench = window.bench
    effects = np.array([[1.0, 0.0], [0.25, 0.5]], "<f4")
    tables = [PatchTable("residual", effects.tobytes(), effects.tobytes())]
    bench.store.runs.add("some", "a / b", PatchesMapped(
        2, "SmolLM2", "intel:0", "residual", "denoising", "logit-diff", ["a"], ["a"], (1, "x"),
        (2, "y"), 4.0, -3.0, [0, 1], [0, 1], tables, [(0, 0)], [],
    ))  # fmt: skip
    qtbot.waitUntil(lambda: effect_of(bench.runs, "some") is not None)
    shade = effect_of(bench.runs, "some")
    assert shade is not None
    assert dict(shade.values) == {0: 0.0, 1: 0.5}
    assert (shade.of([0, 1]), shade.of([7])) == (0.5, None)
    assert [shade.share(value) for value in (-1.0, 0.0, 1.0, 3.0)] == [0.0, 0.5, 1.0, 1.0]
