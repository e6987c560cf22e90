"""The edited placement before a scripted engine: what is asked, shown, and can be applied."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.state.layers.lanes import LayerTile
from app.state.layers.layers import LayersState
from app.state.workbench import Workbench
from engine.protocol import (
    Cancel,
    Failed,
    ListDevices,
    Load,
    Reprice,
)
from engine.settings import EngineOptions
from tests.app.helpers.placed import DEVICES, MIB, ROWS, PlacedModel, move_layers, reprice
from tests.app.helpers.scripted import ScriptedEngine

A, B, C = DEVICES
PATH = Path("/models/some.gguf")


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def bench(qapp: object, engine: ScriptedEngine, tmp_path: Path) -> Iterator[Workbench]:
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    engine.deliver = bench.client.drain
    yield bench
    bench.close()


@pytest.fixture
def model() -> PlacedModel:
    return PlacedModel(12)


@pytest.fixture
def state(bench: Workbench, engine: ScriptedEngine, model: PlacedModel) -> LayersState:
    """Of an open model that is shown and priced."""
    bench.open_model(PATH, EngineOptions(ctx=512))
    engine.load_done()
    bench.layers.shown(True)
    engine.answer(ListDevices, ROWS)
    reprice(engine, model)
    return bench.layers


def asked(engine: ScriptedEngine) -> list[str]:
    return [r.options.place for r in engine.asked if isinstance(r, Reprice)]


def shown(state: LayersState) -> list[tuple[int, str, str, int]]:
    """Layer, part, device and bytes of every band."""
    tiles = [tile for lane in state.lanes() for tile in lane.tiles]
    return sorted((t.layer, b.part, t.device, b.size) for t in tiles for b in t.bands)


def tile(state: LayersState, layer: int) -> LayerTile:
    return next(t for lane in state.lanes() for t in lane.tiles if t.layer == layer and t.home)


def agree(state: LayersState, model: PlacedModel) -> None:
    """What is shown is what the engine says of the rule."""
    tiles = model.tiles(model.placement(state.draft.rule))
    assert shown(state) == sorted((t.layer, t.part, t.device, t.size) for t in tiles)


def test_what_is_not_shown_asks_for_nothing(bench: Workbench, engine: ScriptedEngine) -> None:
    bench.open_model(PATH)
    engine.load_done()
    move_layers(bench.layers, [1], B)
    assert asked(engine) == []
    bench.layers.shown(True)
    bench.layers.shown(False)
    assert asked(engine) == [""]
    assert len([r for r in engine.asked if isinstance(r, ListDevices)]) == 1


def test_the_first_answer_is_the_models_own_placement(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    assert asked(engine) == [""]
    assert [lane.device for lane in state.lanes()] == [A, C]
    assert not state.pending
    assert not state.is_edited
    assert state.blocked() == "The layers are already placed like this."
    agree(state, model)


def test_an_edit_is_seen_before_the_engine_has_answered(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    move_layers(state, [3, 4], B)
    assert state.pending
    agree(state, model)
    assert state.draft.rule == f"0-2={A}, 3-4={B}, 5-11={A}, out={A}"
    assert state.blocked() == "Memory is being estimated."
    reprice(engine, model)
    assert not state.pending
    agree(state, model)
    assert state.blocked() == ""
    assert state.base is not None
    assert state.answer is not None
    assert (state.base.crossing, state.answer.crossing) == (0, 2 * 2304)


def test_only_the_newest_question_matters(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    placed = state.placement
    assert placed is not None
    for layer in range(5):
        state.preview(placed.with_layers([layer], B))
    questions = [r for r in engine.asked if isinstance(r, Reprice)][1:]
    assert len(questions) == 5
    cancelled = [r.id for r in engine.asked if isinstance(r, Cancel)]
    assert cancelled == [r.id for r in questions[:-1]]
    for request in questions:  # all answer; the old ones too late
        engine.say(model.answer(request))
    assert state.answer is not None
    assert state.answer.layers[4] == B
    state.drop_preview()
    assert not state.is_edited
    assert not state.can_undo
    agree(state, model)


def test_what_does_not_fit_is_told_and_cannot_be_applied(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    move_layers(state, range(13), C)  # 12 x 3.5 and 28 MiB, and 11 for the graph, into 60
    reprice(engine, model)
    (lane,) = [lane for lane in state.lanes() if lane.device == C]
    wanted = sum(sum(model.sizes(i).values()) for i in range(13)) + 11 * MIB
    assert lane.wanted == wanted
    assert lane.limit == 60 * MIB
    assert lane.over == wanted - 60 * MIB == state.missing()[C]
    assert state.blocked().startswith("It does not fit")
    before = len(engine.asked)
    state.apply()
    assert len(engine.asked) == before
    state.undo()
    assert not any(lane.over for lane in state.lanes())


def test_devices_of_one_pool_are_short_together(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    """Each is within its limit; both pass that of the memory they share."""
    import msgspec

    move_layers(state, range(6), B)
    request = engine.last_of(Reprice)
    assert isinstance(request, Reprice)
    answer = model.answer(request)
    assert not isinstance(answer, Failed)
    pool = msgspec.structs.replace(answer.memory.pools[0], devices=[A, B], limit=60 * MIB)
    memory = msgspec.structs.replace(answer.memory, pools=[pool])
    engine.say(msgspec.structs.replace(answer, memory=memory))
    wanted = sum(row.wanted for row in answer.budgets)
    assert state.missing() == dict.fromkeys((A, B), wanted - 60 * MIB)
    assert state.blocked()


def test_part_of_a_layer_makes_a_pattern(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    state.move_tiles([tile(state, 2)], B, {"feed_forward"})
    assert state.draft.rule.endswith(rf"out={A}, ^blk\.2\.ffn_={B}")
    agree(state, model)
    reprice(engine, model)
    agree(state, model)
    (part,) = [t for lane in state.lanes() if lane.device == B for t in lane.tiles]
    assert (part.layer, part.home, [b.part for b in part.bands]) == (2, False, ["feed_forward"])
    state.move_tiles([part], C, ())
    agree(state, model)
    reprice(engine, model)
    agree(state, model)
    (part,) = [t for lane in state.lanes() if lane.device == C for t in lane.tiles]
    state.move_tiles([part], A, ())
    assert state.draft.rule == f"0-11={A}, out={A}"


def test_undo_and_redo_of_what_was_moved(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    rules = [state.draft.rule]
    for layers, device in (([1], B), ([2, 3], C), ([5], B)):
        move_layers(state, layers, device)
        rules.append(state.draft.rule)
    move_layers(state, [5], C)  # the same layer again: one step with the last
    rules[-1] = state.draft.rule
    for rule in rules[-2::-1]:
        state.undo()
        assert state.draft.rule == rule
        agree(state, model)
    assert not state.can_undo
    for rule in rules[1:]:
        state.redo()
        assert state.draft.rule == rule
        reprice(engine, model)
        agree(state, model)
    assert not state.can_redo


def test_a_typed_rule_counts_once_it_is_understood(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    before = state.draft.rule
    state.type_rule(f"0-5={B}, ffn={C}")
    assert state.draft.rule == before
    reprice(engine, model)
    assert state.draft.rule == f"0-5={B}, ffn={C}"
    agree(state, model)
    assert state.typed.text == state.typed.problem == ""
    move_layers(state, [11], B)  # goes on from what the engine understood
    assert state.draft.rule == f"0-5={B}, 6-10={A}, 11={B}, out={A}, ffn={C}"
    agree(state, model)
    state.undo()
    state.undo()
    assert state.draft.rule == before


@pytest.mark.parametrize("rule", ["0-99=intel:0", "0-3=intel:9", "(=intel:0", "nonsense"])
def test_a_wrong_rule_changes_nothing_and_is_kept(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel, rule: str
) -> None:
    move_layers(state, [1], B)
    reprice(engine, model)
    before = state.draft.rule
    state.type_rule(rule)
    reprice(engine, model)
    assert "is not valid; expected" in state.typed.problem
    assert (state.typed.text, state.draft.rule) == (rule, before)
    assert state.blocked() == ""  # the placement shown can be applied as before
    agree(state, model)
    state.forget_typed()
    assert state.typed.text == state.typed.problem == ""


def test_a_model_that_found_no_room_is_placed_and_loaded(
    bench: Workbench, engine: ScriptedEngine, model: PlacedModel
) -> None:
    bench.open_model(PATH)
    bench.layers.shown(True)
    assert bench.layers.blocked() == "The model is loading."
    assert asked(engine) == []
    engine.say(Failed(engine.last_of(Load).id, "NoMem", "no room"))
    reprice(engine, model)
    agree(bench.layers, model)
    move_layers(bench.layers, [0], C)
    reprice(engine, model)
    assert bench.layers.blocked() == ""
    rule = bench.layers.draft.rule
    bench.layers.apply()
    load = engine.last_of(Load)
    assert isinstance(load, Load)
    assert (load.path, load.options.place) == (str(PATH), rule)
    assert bench.options_for(PATH).place == rule


def test_a_file_of_the_chooser_is_placed_before_it_is_loaded(
    bench: Workbench, state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    """While another model is open."""
    other = Path("/models/other.gguf")
    state.look_at(other, EngineOptions(kv="q8_0"))
    request = engine.last_of(Reprice)
    assert isinstance(request, Reprice)
    assert (request.path, request.options.kv) == (str(other), "q8_0")
    reprice(engine, model)
    assert state.blocked() == ""
    bench.session.changed.emit()
    assert state.file is not None
    assert state.file.path == other
    move_layers(state, [1], B)
    reprice(engine, model)
    state.apply()
    assert bench.session.path == other  # and the one that is open stays until it is read


def test_a_dead_engine_is_asked_again_when_it_is_back(
    bench: Workbench, state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    from engine.errors import WorkerDied

    move_layers(state, [1], B)
    engine.die(WorkerDied(-9, "it was killed"))
    assert state.blocked().startswith("The engine has stopped")
    asked_before = asked(engine)
    bench.session.restart()
    assert state.blocked() == "The model is loading."
    assert asked(engine) == asked_before
    engine.load_done()
    reprice(engine, model)
    assert state.is_edited  # what was edited is still there
    assert state.blocked() == ""
    agree(state, model)


def test_lanes_are_added_for_devices_without_layers(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    assert state.unused_devices() == [B, "host"]
    state.add_lane(B)
    assert [lane.device for lane in state.lanes()] == [A, B, C]
    move_layers(state, [0], "host")
    assert [lane.device for lane in state.lanes()] == [A, B, C, "host"]
    agree(state, model)
