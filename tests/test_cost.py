"""The measurement of what looking costs: every kind of it is measured, against plain answers."""

from pathlib import Path

import pytest

from engine.protocol import AnswerRecorded, Generate, Load, ProbedTokens, TokenInside
from engine.settings import EngineOptions
from engine.worker import Worker
from tests import cost


def test_every_kind_is_told(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cost.main([str(tiny_path), "--device", "host", "-n", "4", "-r", "1"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [kind.name for kind in cost.KINDS]
    assert all(line.count("%") == 2 for line in lines)


def test_kinds_tell_what_they_are_named_for(tiny_path: Path) -> None:
    wanted = {
        "plain": set(),
        "watched": set(),  # everybody hears the times of splits
        "probed": {ProbedTokens},
        "live": {TokenInside},
        "recorded": {AnswerRecorded},
    }
    every = {ProbedTokens, TokenInside, AnswerRecorded}
    with Worker() as worker:
        options = EngineOptions(device="host", ctx=64)
        worker.get(Load(worker.new_id(), str(tiny_path), options))
        for kind in cost.KINDS:
            request = Generate(
                worker.new_id(),
                prompt="abc",
                sampling=cost.ENDLESS,
                max_tokens=4,
                live=kind.live,
                watch=kind.watch,
            )
            told = {type(reply) for reply in worker.run(request)}
            assert told & every == wanted[kind.name]
