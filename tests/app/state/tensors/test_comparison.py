"""The comparison with the host: asked once, kept for the model it is of, forgotten with it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.state.tensors.comparison import TEXT, ComparisonState, verdict
from app.state.workbench import Workbench
from engine.errors import WorkerDied
from engine.protocol import Cancel, Compare, Compared, Failed, Progress
from tests.app.helpers.compared import compared
from tests.app.helpers.scripted import ScriptedEngine


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def bench(
    engine: ScriptedEngine, qapp: object, tmp_path: Path, tiny_path: Path
) -> Iterator[Workbench]:
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    engine.deliver = bench.client.drain
    bench.open_model(tiny_path)
    assert not bench.comparison.can_start
    engine.load_done()
    yield bench
    bench.close()


@pytest.fixture
def state(bench: Workbench) -> ComparisonState:
    return bench.comparison


def say(engine: ScriptedEngine, told: Compared) -> None:
    engine.say(msgspec.structs.replace(told, id=engine.last_of(Compare).id))


def asked(engine: ScriptedEngine) -> list[Compare]:
    return [request for request in engine.asked if isinstance(request, Compare)]


def test_it_is_asked_once_and_told_how_far_it_is(
    state: ComparisonState, engine: ScriptedEngine
) -> None:
    state.start()
    state.start()
    (request,) = asked(engine)
    assert (request.prompt, request.messages) == (TEXT, [])
    engine.say(Progress(request.id, "score", 1, 2), Progress(999, "score", 2, 2))
    assert (state.is_busy, state.task.done, state.task.total) == (True, 1, 2)
    say(engine, compared(4, ["Qcur-1", "l_out-1"]))
    assert not state.is_busy
    assert state.first is not None
    assert state.first.name == "Qcur-1"


def test_the_open_chat_is_what_is_compared(
    bench: Workbench, state: ComparisonState, engine: ScriptedEngine
) -> None:
    bench.chat.details.set_system("Be brief.")
    assert bench.chat.send("What is the capital of France?")
    assert not state.can_start  # an answer is being generated
    engine.write("Paris")
    engine.end()
    state.start()
    (request,) = asked(engine)
    assert [m.role for m in request.messages] == ["system", "user", "assistant"]
    assert request.prompt is None


def test_a_cancelled_or_failed_one_leaves_what_was_known(
    state: ComparisonState, engine: ScriptedEngine
) -> None:
    state.start()
    say(engine, compared())
    before = state.result
    state.start()
    state.cancel()
    assert isinstance(engine.last, Cancel)
    engine.say(Failed(asked(engine)[-1].id, "Cancelled", "the comparison was cancelled"))
    assert (state.is_busy, state.problem, state.result) == (False, "", before)
    state.start()
    engine.say(Failed(asked(engine)[-1].id, "NoMem", "no room for probes"))
    assert (state.problem, state.result) == ("no room for probes", before)
    state.start()
    assert state.problem == ""


def test_it_is_forgotten_with_the_placement_it_is_of(
    bench: Workbench, state: ComparisonState, engine: ScriptedEngine
) -> None:
    state.start()
    say(engine, compared())
    session = bench.session
    assert session.model is not None
    session.take_moved(msgspec.structs.replace(session.model, device="pocl:0"), session.options)
    assert state.result is None
    state.start()
    late = asked(engine)[-1].id
    session.take_moved(msgspec.structs.replace(session.model), session.options)
    assert Cancel(late) in engine.asked
    engine.say(msgspec.structs.replace(compared(), id=late))  # of the placement before
    assert (state.is_busy, state.result) == (False, None)
    state.start()
    engine.die(WorkerDied(-9, "killed"))
    assert (state.is_busy, state.problem, state.can_start) == (False, "", False)


def test_what_came_of_it_is_said_in_words() -> None:
    good = verdict(compared(2, grow=2.0))
    assert good.startswith("No result of intel:0 differs from the host: 28 results of 32 tokens")
    assert "The nearest to it is l_out-1: NMSE 1.3e-09, at most 1e-05" in good
    bad = verdict(compared(2, ["Qcur-1", "l_out-1"]))
    assert bad == (
        "First mismatch: Qcur-1 of one token on intel:0: NMSE 0.3, at most"
        " 1e-05; 2 of 28 results deviate."
    )
    assert "no other does" in verdict(compared(2, ["Qcur-1"]))
