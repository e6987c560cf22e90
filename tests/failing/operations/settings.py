"""Preferences, with the window's state, presets and the draft of a chat not begun."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QCoreApplication

from app.state.preferences import PreferencesState, WindowPreferences
from app.state.presets import OwnSampling, Preset
from engine.errors import CutawayError
from tests.failing.sweep import Operation, refused

Change = Callable[[PreferencesState], object]


def _opened(root: Path) -> PreferencesState:
    QCoreApplication.instance() or QCoreApplication([])
    return PreferencesState(root / "config" / "preferences.json")


def _setup(root: Path) -> None:
    preferences = _opened(root)
    preferences.update(theme="dark", draft="before", default_ctx=4096)
    preferences.update_model("model.gguf", system="Be brief.")
    preferences.close()


def _changed(change: Change) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        preferences = _opened(root)
        before = preferences.value
        change(preferences)
        if preferences.value == before:
            preferences.update(font_scale=1.5)  # something else, later
        preferences.save()
        if preferences.notice:
            refused(preferences.notice)
            preferences.notice = ""
            preferences.close()  # with what was not saved
        if preferences.notice:
            raise CutawayError(preferences.notice)

    return do


def _state(root: Path) -> Any:
    preferences = _opened(root)
    assert not preferences.notice, preferences.notice
    return msgspec.to_builtins(preferences.value)


CHANGES: dict[str, Change] = {
    "theme": lambda p: p.update(theme="light"),
    "draft": lambda p: p.update(draft="a thought that is long " * 1000),
    "window": lambda p: p.update(window=WindowPreferences(tab="memory", splitters={"a": [1, 2]})),
    "model": lambda p: p.update_model("model.gguf", ctx=512, sampling=OwnSampling(top_k=7)),
    "preset": lambda p: p.save_preset(Preset("mine", OwnSampling(temperature=0.3))),
}
OPERATIONS = tuple(
    Operation(f"settings-{name}", _setup, _changed(change), _state)
    for name, change in CHANGES.items()
)
