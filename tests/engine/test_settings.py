"""The knobs of the environment."""

from pathlib import Path

import pytest

from engine.errors import BadSetting
from engine.settings import (
    CACHE,
    FUSE,
    LOG,
    MODELS,
    SETTINGS,
    cache_folder,
    log_folder,
    model_folders,
)


def test_names_and_help() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("CUTAWAY_") for name in names)
    assert all(setting.help for setting in SETTINGS)


def test_defaults_lie_in_the_home(own_home: Path) -> None:
    folders = [*model_folders(), cache_folder(), log_folder()]
    assert len(set(folders)) == 3
    for folder in folders:
        assert folder.is_relative_to(own_home)
        assert "cutaway" in folder.parts


def test_folders_of_the_environment(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own,) = model_folders()
    assert model_folders(tmp_path / "p") == [tmp_path / "p", own]
    monkeypatch.setenv("CUTAWAY_MODELS", str(tmp_path / "m"))
    monkeypatch.setenv("CUTAWAY_CACHE", "~/c")
    monkeypatch.setenv("CUTAWAY_LOG", "")
    assert model_folders() == model_folders(tmp_path / "p") == [tmp_path / "m", own]
    assert cache_folder() == own_home / "c"
    assert log_folder().name != ""
    monkeypatch.setenv("CUTAWAY_MODELS", str(own))
    assert model_folders() == [own]


@pytest.mark.parametrize("setting", [MODELS, CACHE, LOG], ids=lambda setting: setting.name)
def test_a_file_is_no_folder(
    setting: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        monkeypatch.setenv(setting.name, str(path))  # type: ignore[attr-defined]
        with pytest.raises(
            BadSetting, match=r"CUTAWAY_\w+: .* expected a folder; .*file is a file"
        ):
            setting.get()  # type: ignore[attr-defined]
    monkeypatch.setenv(setting.name, "~nobody-of-this-name/x")  # type: ignore[attr-defined]
    with pytest.raises(BadSetting, match="expected a folder"):
        setting.get()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "value"), [("", None), ("all", None), ("none", frozenset()), ("a,b", frozenset("ab"))]
)
def test_fusions(text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_FUSE", text)
    assert FUSE.get() == value
