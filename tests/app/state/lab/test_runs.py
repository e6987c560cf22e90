"""Patching maps from the window: foreseen, computed, stopped, kept, and as a command."""

import argparse
import shlex
import shutil
import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.commands import features as features_command
from app.commands import patch
from app.commands import quality as quality_command
from app.commands import record as record_command
from app.state.lab.repeat import (
    command_of_features,
    command_of_map,
    command_of_quality,
    command_of_recording,
)
from app.state.lab.runs import effects_of, text_of_run, title_of_run
from app.state.lab.shading import drift_of, effect_of
from app.state.lab.turning import turn_up
from app.state.talk.disk.database import Database
from app.state.talk.disk.run_rows import RunRows
from app.state.workbench import Workbench
from engine.protocol import (
    DatasetRecorded,
    FeaturesFound,
    FindFeatures,
    MapPatches,
    MeasureQuality,
    PatchesMapped,
    QualityMeasured,
    RecordDataset,
)
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
    assert isinstance(found, PatchesMapped)
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
    assert isinstance(runs.shown, PatchesMapped)
    assert effects_of(runs.shown, 0).shape == (3, 4)
    runs.open(kept.id)
    assert runs.shown == found
    runs.delete(kept.id)
    assert [one.id for one in runs.kept] == [kept.id + 1]
    runs.start(asked(noise=3.0, subject="hat", seeds=2))
    until(lambda: not runs.running)
    assert runs.problem == ""
    assert isinstance(runs.shown, PatchesMapped)
    assert effects_of(runs.shown, 0)[-1, -1] == pytest.approx(1.0, abs=1e-3)
    assert runs.kept[0].title == f"{CLEAN} / noise of 3 SD on “hat”"
    until(lambda: effect_of(runs, tiny.session.model_name) is not None)
    effect = effect_of(runs, tiny.session.model_name)
    assert effect is not None
    assert effect.of([2]) == pytest.approx(1.0, abs=1e-3)


def test_a_run_about_a_word_knows_its_word_as_long_as_it_is_there(
    tiny: Workbench, until: Until
) -> None:
    tiny.chat.details.set_limits(msgspec.structs.replace(tiny.chat.details.limits, max_tokens=2))
    assert tiny.chat.send("the hat")
    until(lambda: not tiny.chat.busy)
    message, runs = tiny.chat.path[-1].id, tiny.runs
    tiny.selection.select_token(message, 1)
    assert tiny.causes.begin("heads")
    begun = tiny.causes.begun
    assert begun is not None
    assert begun.question == "the hat"
    clean, corrupt = begun.clean, begun.other("the oat is on")
    request = asked(clean=clean, corrupt=corrupt, right=begun.token, grid="heads")
    assert runs.of_word((message, 1)) == []
    runs.start(request, begun.word.key)
    until(lambda: not runs.running)
    assert runs.problem == ""
    assert runs.word == (message, 1)
    found = runs.shown
    assert isinstance(found, PatchesMapped)
    assert found.right[0] == begun.token
    assert tiny.chat.tokens_of(tiny.chat.path[-1]).ids[0] == begun.request.prefix_tokens[0]
    assert runs.of_word((message, 1)) == [found]
    assert runs.of_word((message, 0)) == []
    heads = tiny.causes.heads(begun.word)
    assert heads is not None
    np.testing.assert_array_equal(heads[1], effects_of(found, 0))
    with tiny.store.db.transaction() as connection:
        connection.execute("DELETE FROM messages WHERE id = ?", (message,))
    assert runs.of_word((message, 1)) == []
    runs.refresh()
    assert [one.word for one in runs.kept] == [None]


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
    words = shlex.split(command_of_map(request, "/models/a b.gguf"))
    assert words[:3] == ["cutaway", "patch", "/models/a b.gguf"]
    parser = argparse.ArgumentParser()
    patch.configure(parser)
    args = parser.parse_args(words[2:])
    assert (args.clean, args.corrupt, args.right, args.wrong) == (CLEAN, CORRUPT, " Paris", " it's")
    assert (args.grid, args.noising, args.chat, args.metric) == ("parts", True, False, "logit-diff")
    assert title_of_run(request) == f"{CLEAN} / {CORRUPT}"


def test_the_command_has_the_noise_in_place_of_the_other_prompt(tiny: Workbench) -> None:
    request = asked(noise=2.5, subject="the hat", seeds=4)
    words = shlex.split(command_of_map(request, "/m.gguf"))
    parser = argparse.ArgumentParser()
    patch.configure(parser)
    args = parser.parse_args(words[2:])
    assert (args.clean, args.corrupt) == (CLEAN, "")
    assert (args.noise, args.subject, args.seeds) == (2.5, "the hat", 4)
    assert title_of_run(request) == f"{CLEAN} / noise of 2.5 SD on “the hat”"
    assert title_of_run(asked(noise=3.0)) == f"{CLEAN} / noise of 3 SD"
    once, often = (tiny.runs.foreseen(6, "residual", seeds) for seeds in (1, 4))
    assert once is not None
    assert often is not None
    assert (often.patches, often.tokens) == (4 * once.patches, 4 * once.tokens)
    assert often.bytes == once.bytes


def measurement(bench: Workbench, **fields: object) -> MeasureQuality:
    path = str(bench.session.path)
    made = MeasureQuality(0, path, bench.session.options, 8 * f"{CLEAN}. ", path, 32, 2)
    return msgspec.structs.replace(made, **fields)


def test_the_model_is_open_again_after_a_measurement(
    tiny: Workbench, tmp_path: Path, until: Until
) -> None:
    runs, session = tiny.runs, tiny.session
    before = session.model
    assert session.path is not None
    other = shutil.copy(session.path, tmp_path / "other.gguf")
    runs.start(measurement(tiny, path=str(other), drift=True))
    assert session.measuring
    assert session.status == "loading"
    assert session.model is None
    until(lambda: not runs.running)
    assert runs.problem == ""
    found = runs.shown
    assert isinstance(found, QualityMeasured)
    assert found.estimates is not None
    assert found.estimates.kld.value == pytest.approx(0, abs=1e-9)
    assert len(found.drift) == 3
    until(lambda: session.status == "ready")
    assert session.model is not None
    assert before is not None
    assert (session.model.name, session.model.n_ctx) == (before.name, before.n_ctx)
    assert not session.measuring
    (kept,) = runs.kept
    assert kept.model == "other"  # not the one that is open
    assert drift_of(runs, "other") is None, "read in this thread"
    until(lambda: drift_of(runs, "other") is not None)
    drift = drift_of(runs, "other")
    assert drift is not None
    assert list(drift.values) == [0, 1, 2]
    assert drift_of(runs, session.model_name) is None
    runs.open(kept.id)
    assert runs.shown == found
    runs.start(asked())
    until(lambda: not runs.running)
    assert isinstance(runs.shown, PatchesMapped)


def test_a_measurement_that_fails_or_is_stopped_brings_the_model_back(
    tiny: Workbench, until: Until
) -> None:
    runs, session = tiny.runs, tiny.session
    runs.start(measurement(tiny, base="/nowhere.gguf"))
    until(lambda: not runs.running and session.status == "ready")
    assert "nowhere" in runs.problem
    runs.start(measurement(tiny, text=4000 * f"{CLEAN}. ", n_chunks=None))
    session.cancel_load()
    until(lambda: not runs.running and session.status == "ready")
    assert runs.problem == ""
    assert runs.kept == []
    runs.start(measurement(tiny, text=4000 * f"{CLEAN}. ", n_chunks=None))
    assert session.path is not None
    tiny.open_model(session.path, EngineOptions(device="host", ctx=128))
    until(lambda: not runs.running and session.status == "ready")
    assert session.model is not None
    assert session.model.n_ctx == 128


def test_texts_are_recorded_and_a_stopped_recording_goes_on(
    tiny: Workbench, tmp_path: Path, until: Until
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(300 * f"{CLEAN}. ")
    runs = tiny.runs
    request = RecordDataset(0, [str(text)], str(tmp_path / "out"), ["norms", "imatrix"], 32)
    runs.start(request)
    until(lambda: runs.progress[0] > 0)
    runs.stop()
    until(lambda: not runs.running)
    assert runs.kept == []
    runs.start(msgspec.structs.replace(request, resume=True))
    until(lambda: not runs.running)
    assert runs.problem == ""
    found = runs.shown
    assert isinstance(found, DatasetRecorded)
    assert found.resumed > 0
    assert {"norms.npz", "imatrix.gguf"} <= set(found.files)
    assert [one.title for one in runs.kept] == ["text.txt"]


def test_features_are_found_and_turned_up(tiny: Workbench, tmp_path: Path, until: Until) -> None:
    with np.load(Path(__file__).parents[3] / "goldens" / "autoencoders.npz") as file:
        (tmp_path / "cfg.json").write_bytes(file["jumprelu/cfg"].tobytes())
        (tmp_path / "sae_weights.safetensors").write_bytes(file["jumprelu/weights"].tobytes())
    tiny.runs.start(FindFeatures(0, str(tmp_path), text_of_run(CLEAN, False), 3))
    until(lambda: not tiny.runs.running)
    found = tiny.runs.shown
    assert isinstance(found, FeaturesFound)
    assert (found.site, found.sae) == ("residual-1", str(tmp_path))
    told: list[str] = []
    best = found.features[-1][0].index
    feature = (best, found.names[best])
    turn_up(tiny.chat.edits, (found.sae, ""), feature, 7.0, told.append, tiny)
    until(lambda: told == [""])
    (edit,) = tiny.chat.edits.value.edits
    assert (edit.edit.site, edit.edit.layers, edit.edit.value) == ("residual", [1], 7.0)
    turn_up(tiny.chat.edits, (found.sae, ""), (999, ""), 7.0, told.append, tiny)
    until(lambda: len(told) == 2)
    assert "from 0 to 23" in told[1]
    request = FindFeatures(0, "/a b", text_of_run(CLEAN, True), 3, "residual-1", "/names")
    arguments = shlex.split(command_of_features(request, "/m.gguf"))
    parser = argparse.ArgumentParser()
    features_command.configure(parser)
    args = parser.parse_args(arguments[2:])
    assert (args.sae, args.prompt, args.chat, args.top) == ("/a b", CLEAN, True, 3)
    assert (args.site, args.names) == ("residual-1", "/names")


def test_the_commands_of_measurements_and_recordings_are_the_same(tmp_path: Path) -> None:
    request = MeasureQuality(0, "/a b.gguf", EngineOptions(), "", "/c.gguf", 64, 3, drift=True)
    words = shlex.split(command_of_quality(request, "/my text.txt"))
    parser = argparse.ArgumentParser()
    quality_command.configure(parser)
    args = parser.parse_args(words[2:])
    assert (args.model, args.base, str(args.text)) == ("/c.gguf", "/a b.gguf", "/my text.txt")
    assert (args.ctx, args.chunks, args.drift, args.guilty) == (64, 3, True, False)
    recording = RecordDataset(0, ["/a b.txt"], "/out", ["norms", "probe"], 64, True)
    words = shlex.split(command_of_recording(recording, "/m.gguf"))
    parser = argparse.ArgumentParser()
    record_command.configure(parser)
    args = parser.parse_args(words[2:])
    assert (args.model, args.paths, str(args.out)) == ("/m.gguf", ["/a b.txt"], "/out")
    assert (args.what, args.ctx, args.resume) == ("norms,probe", "64", True)
