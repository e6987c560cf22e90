"""What an answer tells of its inside: what views want when it is asked for, and while it runs."""

from app.state.workbench import Workbench
from engine.protocol import Generate, Live, Look
from tests.app.helpers.gui import bench, engine, one_theme, quiet, theme
from tests.app.helpers.scripted import ScriptedEngine

__all__ = ["bench", "engine", "one_theme", "quiet", "theme"]


def test_what_is_wanted_goes_with_each_answer_and_reaches_the_one_under_way(
    bench: Workbench, engine: ScriptedEngine
) -> None:
    live = bench.chat.live
    live.want(probes=["l_out-.*"])
    assert [r for r in engine.asked if isinstance(r, Look)] == []
    assert bench.chat.send("Hello")
    asked = engine.last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.live == Live(["l_out-.*"])
    live.want(probes=["l_out-.*"])
    assert engine.last == asked
    live.want(probes=[])
    assert engine.last == Look(asked.id, Live([]))
    engine.write("Hi")
    engine.end(n=1)
    live.want(probes=["x"])
    assert [r.live for r in engine.asked if isinstance(r, Look)] == [Live([])]


def test_an_answer_that_ended_takes_no_order(bench: Workbench, engine: ScriptedEngine) -> None:
    assert bench.chat.send("Hello")
    asked = bench.chat.writers.answers[0].sent
    engine.write("Hi")
    engine.end(n=1)
    assert asked is not None
    asked.look(Live(["x"]))
    assert not any(isinstance(r, Look) for r in engine.asked)
