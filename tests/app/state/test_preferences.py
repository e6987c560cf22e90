"""Preferences: kept, typed, merged with what is not known here, and never in the way."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app.state.preferences import ModelPreferences, Preferences, PreferencesState
from app.state.presets import BUILT_IN, OwnSampling, Preset


@pytest.fixture
def path(qapp: object, tmp_path: Path) -> Path:
    return tmp_path / "config" / "preferences.json"


def test_kept(path: Path) -> None:
    state = PreferencesState(path)
    assert (state.value, state.notice) == (Preferences(), "")
    heard: list[str] = []
    state.changed.connect(heard.append)
    state.update(theme="dark", send_key="enter")
    state.update(window=replace(state.value.window, splitters={"main": [420, 580]}, tab="model"))
    state.update_model("/somewhere/m.gguf", ctx=2048, sampling=OwnSampling(seed=5))
    state.save_preset(Preset("Mine", OwnSampling(temperature=0.3), "Be brief."))
    assert heard == ["theme", "window", "models", "presets"]
    state.close()
    again = PreferencesState(path)
    assert again.value == state.value
    assert again.of_model("/elsewhere/m.gguf") == ModelPreferences(
        ctx=2048, sampling=OwnSampling(seed=5)
    )
    assert again.of_model("other.gguf") == ModelPreferences()
    assert [preset.name for preset in again.presets()] == [*(p.name for p in BUILT_IN), "Mine"]
    assert oct(path.stat().st_mode)[-3:] == "600"


def test_saved_a_moment_later(path: Path, qtbot: QtBot) -> None:
    state = PreferencesState(path)
    state.update(font_scale=1.5)
    assert not path.exists()
    qtbot.waitUntil(path.exists)
    assert json.loads(path.read_bytes())["font_scale"] == 1.5


def test_what_is_not_known_stays(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(
        '{"version": 7, "colour": "green", "theme": "dark",'
        ' "window": {"tab": "model", "zoom": 2}, "models": {"a": {"ctx": 5, "x": 1}, "b": {}}}'
    )
    state = PreferencesState(path)
    assert (state.value.theme, state.value.window.tab) == ("dark", "model")
    state.update(window=replace(state.value.window, chats_listed=False))
    state.update_model("a", ctx=6)
    state.close()
    kept = json.loads(path.read_bytes())
    assert (kept["version"], kept["colour"]) == (7, "green")
    assert (kept["window"]["zoom"], kept["window"]["chats_listed"]) == (2, False)
    assert (kept["models"]["a"]["x"], kept["models"]["a"]["ctx"]) == (1, 6)
    assert "send_key" not in kept  # not changed, so not written


def test_a_wrong_value_costs_only_itself(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"theme": "pink", "font_scale": 1.25, "models": [1]}')
    state = PreferencesState(path)
    assert (state.value.theme, state.value.font_scale, state.value.models) == ("system", 1.25, {})
    assert "theme" in state.notice
    assert "models" in state.notice


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\x00", b'{"a": "\xff"}'])
def test_a_corrupt_file_is_set_aside(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    state = PreferencesState(path)
    assert state.value == Preferences()
    (aside,) = path.parent.glob("preferences.json.corrupt-*")
    assert aside.read_bytes() == content
    assert str(aside) in state.notice
    state.update(theme="light")
    state.close()
    assert PreferencesState(path).value.theme == "light"


def test_two_windows_do_not_undo_each_other(path: Path) -> None:
    one, two = PreferencesState(path), PreferencesState(path)
    one.update(theme="dark")
    one.close()
    two.update(send_key="ctrl+enter")
    two.close()
    value = PreferencesState(path).value
    assert (value.theme, value.send_key) == ("dark", "ctrl+enter")


def test_own_presets(path: Path) -> None:
    state = PreferencesState(path)
    state.save_preset(Preset("a", OwnSampling()))
    state.save_preset(Preset("a", OwnSampling(top_k=1)))
    state.save_preset(Preset("b", OwnSampling()))
    state.delete_preset("b")
    state.delete_preset("Precise")  # built in
    assert state.presets() == [*BUILT_IN, Preset("a", OwnSampling(top_k=1))]
    for preset in BUILT_IN:
        preset.sampling.check()


def test_a_folder_that_cannot_be_written(tmp_path: Path, qapp: object) -> None:
    (tmp_path / "file").write_text("")
    state = PreferencesState(tmp_path / "file" / "preferences.json")
    state.update(theme="dark")
    state.close()
    assert "not saved" in state.notice
    assert state.value.theme == "dark"


def test_nothing_is_written_without_a_change(path: Path) -> None:
    state = PreferencesState(path)
    state.update(theme=state.value.theme)
    state.close()
    assert not os.path.exists(path)


def test_samplings_that_were_kept_whole_keep_what_was_set(path: Path) -> None:
    """Before version 2 all fields were written, whoever had set them."""
    whole = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": None}
    content = {
        "version": 1,
        "models": {"m.gguf": {"sampling": whole}, "n.gguf": {}},
        "presets": [{"name": "Mine", "sampling": {**whole, "temperature": 0.3}}],
    }
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    state = PreferencesState(path)
    assert state.of_model("m.gguf").sampling == OwnSampling(top_p=0.9)
    assert state.value.presets == [Preset("Mine", OwnSampling(temperature=0.3, top_p=0.9))]
    state.update(theme="dark")
    state.update_model("m.gguf", sampling=OwnSampling(temperature=0.8))  # now set, though usual
    state.close()
    assert json.loads(path.read_bytes())["version"] == 2
    again = PreferencesState(path)
    assert again.of_model("m.gguf").sampling == OwnSampling(temperature=0.8)
    assert again.value.presets == state.value.presets
