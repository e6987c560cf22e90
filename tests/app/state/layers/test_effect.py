"""A placement put into effect on the open model, and devices measured, before a scripted engine."""

from types import SimpleNamespace

import pytest

from app.serve.clients import Clients
from app.state.layers.layers import LayersState
from app.state.talk.answer import NOTHING_COUNTED
from app.state.workbench import Workbench
from app.views.layers.figures import ApplyBar
from engine.protocol import (
    Cancel,
    DevicesMeasured,
    Failed,
    Finished,
    Generate,
    MeasureDevices,
    Move,
    Moved,
    Progress,
)
from engine.settings import EngineOptions
from tests.app.helpers.placed import MIB, PlacedModel, move_layers, reprice
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.layers.test_layers import PATH, A, B, C, bench, engine, model, state

__all__ = ["bench", "engine", "model", "state"]


def test_apply_moves_the_open_model(
    bench: Workbench, state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    move_layers(state, [3], B)
    reprice(engine, model)
    rule = state.draft.rule
    state.apply()
    request = engine.last_of(Move)
    assert isinstance(request, Move)
    assert request.options == EngineOptions(ctx=512, place=rule)
    assert state.blocked() == "A placement is being applied."
    engine.say(Progress(request.id, "load", 3, 9))
    assert (state.applying.task.done, state.applying.task.total) == (3, 9)
    bar = ApplyBar(state)
    engine.say(Progress(request.id, "load", 3 << 30, 5 << 30))
    bar.refresh()
    assert (bar.bar.value(), bar.bar.maximum()) == (600, 1000), "bytes beyond Qt's counting"
    bar.deleteLater()
    loaded = bench.session.model
    assert loaded is not None
    engine.say(Moved(request.id, loaded, 9, 3 * MIB, 2 * MIB, 57))
    said = (
        "9 tensors uploaded, 3.0 MiB; 2.0 MiB copied from device to device; 57 tokens of the chat"
    )
    assert state.applying.result == f"{said} still cached."
    assert bench.session.options.place == rule
    assert bench.options_for(PATH).place == rule
    assert not state.is_edited
    reprice(engine, model)
    assert state.blocked() == "The layers are already placed like this."
    state.undo()  # and back, as one more move
    reprice(engine, model)
    assert state.is_edited
    assert state.blocked() == ""


@pytest.mark.parametrize("kind", ["Cancelled", "NoMem"])
def test_a_move_that_fails_leaves_all_as_it_was(
    bench: Workbench, state: LayersState, engine: ScriptedEngine, model: PlacedModel, kind: str
) -> None:
    move_layers(state, [3], B)
    reprice(engine, model)
    state.apply()
    state.applying.cancel()
    request = engine.last_of(Move)
    assert engine.last == Cancel(request.id)
    engine.say(Failed(request.id, kind, "no room for weights"))
    assert state.applying.failed
    assert state.applying.result.endswith("The previous placement is still in use.")
    assert bench.session.options.place == ""
    assert bench.session.status == "ready"
    assert state.is_edited
    assert state.blocked() == ""


def test_what_cannot_be_moved_is_loaded_where_that_is_wanted(
    state: LayersState,
    engine: ScriptedEngine,
    model: PlacedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the same button, which says so; for that placement alone."""
    bar = ApplyBar(state)
    move_layers(state, [3], B)
    reprice(engine, model)
    for again in (False, True):
        state.apply()
        problem = "what b:0 is opened together with cannot change while the model is open"
        engine.say(Failed(engine.last_of(Move).id, "NeedsReload", problem))
        bar.refresh()
        assert bar.button.text() == "Load"
        assert "Load reopens the model" in state.applying.result
        if not again:
            move_layers(state, [4], B)
            reprice(engine, model)
            bar.refresh()
            assert bar.button.text() == "Apply"
    loaded: list[str] = []
    monkeypatch.setattr(state.applying, "_load", lambda _, options: loaded.append(options.place))
    state.apply()
    assert loaded == [state.draft.rule]
    bar.deleteLater()


def test_devices_are_measured_where_the_speed_is_unknown(
    state: LayersState, engine: ScriptedEngine, model: PlacedModel
) -> None:
    model.measured = False
    move_layers(state, [1], C)
    reprice(engine, model)
    assert state.answer is not None
    assert state.answer.speed is None
    state.measure()
    request = engine.last_of(MeasureDevices)
    assert isinstance(request, MeasureDevices)
    assert (request.path, request.options) == (str(PATH), EngineOptions(f"{A},{C}", 512))
    engine.say(Progress(request.id, "bench", 1, 3))
    assert (state.measuring.task.done, state.measuring.task.total) == (1, 3)
    assert state.blocked() == ""
    model.measured = True
    engine.say(DevicesMeasured(request.id, []))
    reprice(engine, model)
    assert not state.measuring.is_busy
    assert (state.base.speed, state.answer.speed) == (model.speed(1), model.speed(3))  # type: ignore[union-attr]


def test_measuring_is_cancelled_or_fails(state: LayersState, engine: ScriptedEngine) -> None:
    for kind, problem in (("Cancelled", ""), ("DeviceError", "it is gone")):
        state.measure()
        state.measuring.cancel()
        request = engine.last_of(MeasureDevices)
        assert engine.last == Cancel(request.id)
        engine.say(Failed(request.id, kind, "it is gone"))
        assert state.measuring.problem == problem
        assert not state.measuring.is_busy


def test_nothing_is_measured_beside_an_answer(
    bench: Workbench, state: LayersState, engine: ScriptedEngine
) -> None:
    """A measurement waits for the answer; a question stops one, which begins again after it."""
    measuring = state.measuring

    def measured() -> list[MeasureDevices]:
        return [request for request in engine.asked if isinstance(request, MeasureDevices)]

    assert bench.chat.send("Hello")
    state.measure(again=True)
    assert measuring.is_busy
    assert measuring.waits
    assert measured() == []
    answer = engine.last_of(Generate)
    engine.say(Finished(answer.id, "stop", NOTHING_COUNTED))
    assert not measuring.waits
    (first,) = measured()
    assert first.again
    assert bench.chat.send("And now?")
    assert engine.last == Cancel(first.id)
    assert isinstance(engine.asked[-2], Generate), "the answer is not behind a new measurement"
    engine.say(Failed(first.id, "Cancelled", "it was cancelled"))
    assert measuring.waits
    assert measured() == [first]
    engine.say(Finished(engine.last_of(Generate).id, "stop", NOTHING_COUNTED))
    assert len(measured()) == 2
    engine.say(DevicesMeasured(measured()[-1].id, []))
    assert not measuring.is_busy
    assert bench.chat.send("Once more")
    state.measure()
    measuring.cancel()
    engine.say(Finished(engine.last_of(Generate).id, "stop", NOTHING_COUNTED))
    assert len(measured()) == 2, "it was cancelled while it waited"


def test_nothing_is_measured_beside_another_programs_request(
    bench: Workbench, state: LayersState, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = Clients()
    monkeypatch.setattr(bench.serving, "serving", SimpleNamespace(clients=clients))
    row = clients.began("curl", "/v1/chat/completions", Generate(7), 1)
    bench.serving.moved.emit()
    state.measure(again=True)
    assert state.measuring.waits
    assert not any(isinstance(request, MeasureDevices) for request in engine.asked)
    clients.ended(row, "stop", None)
    bench.serving.moved.emit()
    first = engine.last_of(MeasureDevices)
    clients.began("curl", "/v1/chat/completions", Generate(8), 1)
    bench.serving.moved.emit()
    assert engine.last == Cancel(first.id)
    engine.say(Failed(first.id, "Cancelled", "it was cancelled"))
    assert state.measuring.waits
    monkeypatch.setattr(bench.serving, "serving", None)  # the server has stopped
    bench.serving.changed.emit()
    assert engine.last_of(MeasureDevices).id != first.id
