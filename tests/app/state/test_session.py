"""The session with the real engine: what it says of loading, failing, dying and coming back."""

import logging
import os
import signal
from pathlib import Path

import pytest

from app.state.problem import Problem
from app.state.workbench import Workbench
from engine.settings import EngineOptions
from tests.app.state.conftest import Until


def kill(bench: Workbench) -> None:
    assert bench.engine.pid is not None
    os.kill(bench.engine.pid, signal.SIGKILL)


def test_no_model(bench: Workbench, problems: list[Problem]) -> None:
    assert bench.session.status == "idle"
    assert not bench.chat.send("hi")
    assert [(p.kind, p.action) for p in problems] == [("NoModel", "open")]
    assert bench.chat.path == []
    assert bench.notices == []


def test_the_log_ends_with_what_is_open(
    bench: Workbench, until: Until, tiny_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The window shows the newest line, which was one of the details of the memory."""
    with caplog.at_level(logging.INFO, "engine"):
        bench.open_model(tiny_path)
        until(lambda: bench.session.status == "ready")
    lines = [record.getMessage() for record in caplog.records if record.name == "engine"]
    assert any(line.startswith("total memory size=") for line in lines)
    assert "is open on" in lines[-1]


def test_a_file_that_was_moved(bench: Workbench, until: Until, tmp_path: Path) -> None:
    bench.open_model(tmp_path / "gone.gguf")
    assert bench.session.status == "loading"
    assert bench.chat.send("hi")  # waits for the model, which does not come
    until(lambda: bench.session.status == "failed")
    error = bench.session.error
    assert error is not None
    assert (error.kind, error.action) == ("BadFile", "open")
    assert "gone.gguf" in error.text
    assert (bench.chat.path[1].finish, bench.chat.path[1].problem) == ("failed", error.text)
    bench.session.dismiss_error()
    assert (bench.session.status, bench.session.error) == ("idle", None)


@pytest.mark.full  # end_to_end/test_talk.py and test_client.py
@pytest.mark.model_file
def test_load_answer_die_and_come_back(bench: Workbench, until: Until, smollm2_path: Path) -> None:
    session, chat = bench.session, bench.chat
    stages: list[str] = []
    session.stage_changed.connect(
        lambda: stages.append(session.stage.name if session.stage else "")
    )
    bench.open_model(smollm2_path, EngineOptions(ctx=1024))
    until(lambda: session.status == "ready")
    assert session.model is not None
    assert (session.model.n_ctx, session.path) == (1024, smollm2_path)
    assert session.model_name == smollm2_path.stem
    assert (stages[0], stages[-1]) == ("load", "")
    assert bench.options_for(smollm2_path) == EngineOptions(ctx=1024, parallel=2)
    assert bench.preferences.value.last_model == str(smollm2_path)
    assert bench.memory.held is not None

    assert chat.send("Tell a long story. " * 30)
    assert session.status == "answering"
    until(lambda: session.vitals.rate)
    assert session.vitals.first_token_s is not None
    assert "prefill" in stages
    kill(bench)
    until(lambda: session.status == "died")
    assert session.error is not None
    assert (session.error.action, session.model) == ("restart", None)
    assert "signal 9" in session.error.text
    answer = chat.path[1]
    assert (answer.finish, answer.problem) == ("died", session.error.text)
    assert answer.text
    assert not chat.busy
    assert bench.memory.died

    session.restart(less=True)
    until(lambda: session.status == "ready")
    assert session.model is not None
    assert session.model.n_ctx == 512
    assert chat.continue_answer(1)  # one click, and it answers on
    n = answer.n_tokens
    until(lambda: answer.n_tokens > n + 2)

    kill(bench)
    until(lambda: session.status == "died")
    assert chat.regenerate(1)  # asking again restarts by itself
    assert session.status == "loading"
    until(lambda: chat.path[1].n_tokens > 2)
    session.restart()  # by the person, in mid-answer
    assert (chat.busy, chat.path[1].finish) == (False, "cancelled")
    until(lambda: session.status == "ready")
    session.unload()
    assert (session.status, session.model, session.path) == ("idle", None, None)


@pytest.mark.full  # end_to_end/test_talk.py
@pytest.mark.model_file
def test_another_model_in_mid_answer(bench: Workbench, until: Until, smollm2_path: Path) -> None:
    bench.open_model(smollm2_path)
    assert bench.chat.send("Tell a long story.")
    until(lambda: bench.chat.path[1].n_tokens > 2)
    bench.open_model(smollm2_path, EngineOptions(ctx=256))
    until(lambda: bench.session.status == "ready")
    assert (bench.chat.busy, bench.chat.path[1].finish) == (False, "cancelled")
    assert bench.session.model is not None
    assert bench.session.model.n_ctx == 256


@pytest.mark.model_file
def test_cancel_load(bench: Workbench, until: Until, smollm2_path: Path) -> None:
    bench.open_model(smollm2_path)
    until(lambda: bench.session.stage)
    bench.session.cancel_load()
    until(lambda: bench.session.status in ("idle", "ready"))  # ready where that was quicker
    assert bench.session.error is None


@pytest.mark.model_file
def test_a_cancelled_load_brings_the_model_before_back(
    bench: Workbench,
    until: Until,
    smollm2_path: Path,
    tiny_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the engine is the one before: nothing hung."""
    bench.open_model(tiny_path)
    until(lambda: bench.session.status == "ready")
    worker = bench.engine.pid
    said: list[str] = []
    bench.session.cancelled.connect(said.append)
    bench.open_model(smollm2_path)
    until(lambda: bench.session.stage is not None and bench.session.stage.total > 0)
    bench.session.cancel_load()
    until(lambda: bench.session.status == "ready")
    if said:  # else the load was quicker
        assert bench.session.path == tiny_path
        assert said[0].endswith("was cancelled. tiny is open again.")
        assert bench.session.error is None
    assert bench.chat.send("hi")
    until(lambda: not bench.chat.busy)
    assert bench.chat.path[1].problem == ""
    assert ("did not stop" in caplog.text) == (bench.engine.pid != worker)


@pytest.mark.model_file
def test_death_while_loading(bench: Workbench, until: Until, smollm2_path: Path) -> None:
    bench.open_model(smollm2_path)
    assert bench.chat.send("hi")
    kill(bench)
    until(lambda: bench.session.status == "died")
    assert bench.chat.path[1].finish == "failed"
    assert not bench.chat.busy
