"""Preferences files that no window of ours has written: what is wrong costs only itself."""

import json
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.state.preferences import Preferences, PreferencesState
from app.state.workbench import Workbench
from tests.app.helpers.mutate import mutated
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.conftest import Until

GOOD: dict[str, Any] = {
    "version": 1, "theme": "dark", "send_key": "enter", "font_scale": 1.25, "density": "compact",
    "last_model": "/m/a.gguf", "recent": ["/m/a.gguf", "/m/b.gguf"],
    "open_last_model": False, "models_folder": "/m", "default_ctx": 2048, "draft": "hello",
    "probabilities_shown": True, "prepared_gb": 20,
    "speculation": "ngram",
    "window": {
        "geometry": "AdnQywADAAA=", "splitters": {"main": [100, 200]}, "chats_listed": False,
        "inspector_shown": True, "tab": "model",
    },
    "models": {
        "a.gguf": {"device": "intel:0", "ctx": 4096, "kv": "q8_0", "system": "Be brief."},
        "b.gguf": {"sampling": {"temperature": 0.5, "seed": 3}, "preset": "Mine"},
    },
    "presets": [{"name": "Mine", "sampling": {"top_k": 3}}, {"name": "Yours", "sampling": {}}],
}  # fmt: skip


@pytest.fixture
def path(qapp: object, own_home: Path, tmp_path: Path) -> Path:
    return tmp_path / "preferences.json"


def read(path: Path, content: str | bytes) -> PreferencesState:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return PreferencesState(path)


def assert_usable(state: PreferencesState) -> None:
    """What a window does with preferences can be done with these."""
    value = state.value
    assert msgspec.convert(msgspec.to_builtins(value), Preferences) == value
    assert "\n" not in state.notice
    assert len(state.notice) < 2000
    for preset in state.presets():
        preset.sampling.check()
    for model in value.models.values():
        assert model.ctx is None or 0 < model.ctx < 1 << 31
        if model.sampling is not None:
            model.sampling.check()
    for folder in (value.models_folder, value.last_model, *value.recent):
        assert folder is None or not os.path.isdir(folder) or os.fsencode(folder)
    assert "\n" not in state.folder_problem
    assert state.models_folder is None or not state.folder_problem
    state.update(theme="light" if value.theme == "dark" else "dark")
    state.remember_opened("/somewhere/c.gguf")
    state.update_model("/somewhere/c.gguf", ctx=128)
    before = state.notice
    state.close()
    assert state.notice == before
    again = PreferencesState(state.path)
    assert again.value.theme == state.value.theme
    assert again.of_model("c.gguf").ctx == 128


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("default_ctx", 1 << 60),
        ("default_ctx", 0),
        ("default_ctx", -5),
        ("default_ctx", True),
        ("prepared_gb", -1),
        ("speculation", "tea leaves"),
        ("prepared_gb", 1 << 60),
        ("font_scale", 1e308),
        ("font_scale", -1),
        ("models_folder", "a\0b"),
        ("last_model", "a\0b"),
        ("last_model", ""),
        ("last_model", "x" * 10_000),
    ],
)
def test_values_out_of_range(path: Path, field: str, value: object) -> None:
    state = read(path, json.dumps(GOOD | {field: value}))
    assert getattr(state.value, field) == getattr(Preferences(), field)
    assert field in state.notice
    assert state.value.theme == "dark"
    assert set(state.value.models) == {"a.gguf", "b.gguf"}
    assert_usable(state)


def test_a_part_that_is_wrong_costs_only_itself(path: Path) -> None:
    content = json.loads(json.dumps(GOOD))
    content["models"]["a.gguf"]["ctx"] = 1 << 60
    content["models"]["c.gguf"] = 5
    content["models"]["d.gguf"] = {"kv": "q9", "sampling": {"seed": 1 << 64}, "system": "kept"}
    content["presets"][0]["sampling"]["temperature"] = 1e300
    content["window"]["geometry"] = "no base64"
    content["window"]["splitters"] = {"main": [1 << 40, 5], "talk": [1, 2]}
    content["recent"][0] = "\0"
    state = read(path, json.dumps(content))
    value = state.value
    assert (value.models["a.gguf"].ctx, value.models["a.gguf"].device) == (None, "intel:0")
    assert set(value.models) == {"a.gguf", "b.gguf", "d.gguf"}
    assert value.models["d.gguf"].system == "kept"
    assert [preset.name for preset in value.presets] == ["Yours"]
    assert (value.window.geometry, value.window.splitters) == ("", {"talk": [1, 2]})
    assert value.window.tab == "model"
    assert value.recent == ["/m/b.gguf"]
    assert state.notice.endswith(": recent[0], window.geometry, window.splitters.main and 5 more")
    assert_usable(state)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"x": ' + "[" * 100_000,
        '{"x": ' + "[" * 900 + "]" * 900 + "}",
        '{"models": ' + '{"a": ' * 900 + "1" + "}" * 900 + "}",
        '{"version": ' + "9" * 1000 + "}",
        '{"version": true, "window": null, "models": null, "presets": {}}',
        '{"theme": "dark", "theme": 5}',
    ],
)
def test_what_breaks_parsers(path: Path, content: str) -> None:
    assert_usable(read(path, content))


def test_what_is_no_file(path: Path) -> None:
    os.mkfifo(path)
    assert PreferencesState(path).value == Preferences()  # and it does not wait for a writer


def test_half_a_character_in_a_draft(path: Path) -> None:
    state = PreferencesState(path)
    state.update(draft="\ud83e")
    state.close()
    assert "not saved" in state.notice


def test_mutated_preferences(path: Path) -> None:
    for seed in range(300):
        assert_usable(read(path, mutated(GOOD, random.Random(seed))))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_mutated_preferences(path: Path) -> None:
    for seed in range(300, 20_000):
        assert_usable(read(path, mutated(GOOD, random.Random(seed))))


def test_recent_files(path: Path) -> None:
    state = PreferencesState(path)
    for n in [*range(20), 15]:
        state.remember_opened(f"/m/{n}.gguf")
    assert state.value.last_model == "/m/15.gguf"
    names = [Path(file).stem for file in state.value.recent]
    assert names == ["15", "19", "18", "17", "16", "14", "13", "12", "11", "10", "9", "8"]
    state.close()
    assert PreferencesState(path).value.recent[:2] == ["/m/15.gguf", "/m/19.gguf"]


def test_the_chosen_folder_is_used_and_the_environment_left_alone(
    path: Path, own_home: Path, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(os.environ)
    config, chosen, fetched = tmp_path / "config", tmp_path / "chosen", []
    chosen.mkdir()
    (chosen / "mine.gguf").write_bytes(b"no model")
    bench = Workbench(ScriptedEngine(), config, tmp_path / "data")
    bench.library.refresh()
    until(lambda: bench.library.known)
    assert bench.library.models == []
    bench.preferences.update(models_folder=str(chosen))
    until(lambda: bench.library.models)
    assert [model.name for model in bench.library.models] == ["mine"]

    def fetch(*given: object) -> Path:
        fetched.append(given[4])
        return chosen / "m.gguf"

    monkeypatch.setattr("app.fetch.fetch", fetch)
    bench.downloads.start("org/m")
    until(lambda: bench.downloads.items["org/m"].state == "done")
    assert fetched == [chosen]
    assert dict(os.environ) == before
    bench.close()


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/self/status"])
def test_a_models_folder_that_is_a_file(
    qapp: object, tmp_path: Path, own_home: Path, folder: str
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "preferences.json").write_text(json.dumps({"models_folder": folder}))
    bench = Workbench(ScriptedEngine(), config, tmp_path / "data")
    assert any(f"{folder} is a file" in line for line in bench.notices)
    assert "CUTAWAY_MODELS" not in os.environ
    bench.close()
