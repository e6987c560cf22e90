"""Commands in the test's process say what programs say, and engines are kept only while free."""

import os
from pathlib import Path

import pytest

from engine.protocol import Generate, Load, Loaded, Piece, Sampling
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.in_process import run_here
from tests.program import run

pytestmark = pytest.mark.usefixtures("kept_engines")
HOST = EngineOptions(device="host", ctx=64)
FOREVER = Sampling(temperature=0, frequency_penalty=-100)


@pytest.mark.parametrize(("words", "given"), [(("get", "nothing"), ""), (("--version",), "")])
def test_it_says_what_a_program_says(words: tuple[str, ...], given: str) -> None:
    here, there = run_here(*words, given=given), run(*words, given=given)
    assert (here.returncode, here.stdout) == (there.returncode, there.stdout)
    assert here.stderr == there.stderr


def test_an_engine_is_kept_for_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Worker() as first:
        pid = first.pid
    with Worker() as second:
        assert second.pid == pid
        with Worker() as beside:
            assert beside.pid != pid
            pids = [pid, beside.pid]
    monkeypatch.setenv("CUTAWAY_FUSE", "0")
    with Worker() as elsewhere:
        assert elsewhere.pid not in pids


def test_one_that_is_busy_or_dead_is_not(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.in_process.PATIENCE", 0.3)
    with Worker() as busy:
        assert isinstance(busy.get(Load(busy.new_id(), str(tiny_path), HOST)), Loaded)
        busy.send(Generate(busy.new_id(), prompt="zz", sampling=FOREVER))
        while not isinstance(busy.receive(), Piece):
            pass
        gone = [busy.pid]
    with Worker() as killed:
        killed.kill()
        gone.append(killed.pid)
    with Worker() as fresh:
        assert fresh.pid not in gone
    assert not any(os.path.exists(f"/proc/{pid}") for pid in gone)
