"""Patching maps from the window: foreseen, computed, stopped, kept, and as a command."""

import argparse
import shlex
import sqlite3
from pathlib import Path

import msgspec
import pytest

from app.commands import patch
from app.state.lab.runs import command_of, effects_of, text_of_run, title_of_run
from app.state.talk.disk.database import Database
from app.state.talk.disk.run_rows import RunRows
from app.state.workbench import Workbench
from engine.protocol import MapPatches
from engine.settings import EngineOptions
from tests.app.state.conftest import Until

CLEAN, CORRUPT = "the hat on the mat", "the hat is the mat"


def asked(**fields: object) -> MapPatches:
    made = MapPatches(0, clean=text_of_run(CLEAN, False), corrupt=text_of_run(CORRUPT, False))
    return msgspec.structs.replace(made, **fields)


@pytest.fixture
def tiny(bench: Workbench, tiny_path: Path, until: Until) -> Workbench:
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=256))
    until(lambda: bench.session.status == "ready" and bench.token.parts is not None)
    return bench


def test_a_map_is_computed_and_kept(tiny: Workbench, tmp_path: Path, until: Until) -> None:
    runs = tiny.runs
    runs.start(asked())
    assert runs.running
    until(lambda: not runs.running)
    assert runs.problem == ""
    found = runs.shown
    assert found is not None
    effects = effects_of(found, 0)
    assert effects.shape == (3, len(found.tokens))
    assert effects[-1, -1] == pytest.approx(1.0, abs=1e-3)  # all that the answer is read from
    foreseen = runs.foreseen(len(found.tokens), "residual")
    assert foreseen is not None
    assert foreseen.patches == effects.size
    assert foreseen.bytes == 4 * 64 * effects.size
    (kept,) = runs.kept
    assert kept.title == f"{CLEAN} / {CORRUPT}"
    again = RunRows(Database(tmp_path / "data" / "chats.sqlite"))
    assert again.read(kept.id) == found
    runs.start(asked(grid="heads", noising=True))
    until(lambda: not runs.running)
    assert len(runs.kept) == 2
    assert runs.shown is not None
    assert effects_of(runs.shown, 0).shape == (3, 4)
    runs.open(kept.id)
    assert runs.shown == found
    runs.delete(kept.id)
    assert [one.id for one in runs.kept] == [kept.id + 1]


def test_what_is_refused_says_why_and_keeps_nothing(tiny: Workbench, until: Until) -> None:
    tiny.runs.start(asked(right="the hat on"))
    until(lambda: not tiny.runs.running)
    assert "right" in tiny.runs.problem
    assert tiny.runs.kept == []


def test_the_oldest_go_and_damage_is_no_crash(
    tiny: Workbench, tmp_path: Path, until: Until
) -> None:
    tiny.runs.start(asked())
    until(lambda: not tiny.runs.running)
    found = tiny.runs.shown
    assert found is not None
    path = tmp_path / "few.sqlite"
    size = len(msgspec.json.encode(found))
    rows = RunRows(Database(path), most=2 * size + size // 2)
    numbers = [rows.add("tiny", f"run {n}", found) for n in range(4)]
    assert [one.id for one in rows.all()] == numbers[:1:-1]
    assert rows.read(numbers[0]) is None
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET data = 'x' WHERE id = ?", (numbers[-1],))
    connection.close()
    assert rows.read(numbers[-1]) is None
    assert rows.read(numbers[-2]) == found


def test_the_command_asks_for_the_same_map() -> None:
    request = asked(right=" Paris", wrong=" it's", grid="parts", noising=True)
    words = shlex.split(command_of(request, "/models/a b.gguf"))
    assert words[:3] == ["cutaway", "patch", "/models/a b.gguf"]
    parser = argparse.ArgumentParser()
    patch.configure(parser)
    args = parser.parse_args(words[2:])
    assert (args.clean, args.corrupt, args.right, args.wrong) == (CLEAN, CORRUPT, " Paris", " it's")
    assert (args.grid, args.noising, args.chat, args.metric) == ("parts", True, False, "logit-diff")
    assert title_of_run(request) == f"{CLEAN} / {CORRUPT}"
