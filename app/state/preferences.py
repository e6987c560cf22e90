"""What a person chose, typed, in one file that survives being corrupt."""

from typing import Any, Literal

import msgspec
from PySide6.QtCore import QObject, Signal

from app.state.presets import Preset
from engine.protocol import Sampling

Theme = Literal["system", "light", "dark", "contrast"]
SendKey = Literal["enter", "ctrl+enter"]


class ModelPreferences(msgspec.Struct, frozen=True):
    """Of one model; None leaves the choice to the engine or to the defaults."""

    device: str | None = None
    ctx: int | None = None
    kv: str = "f16"
    sampling: Sampling | None = None
    system: str | None = None
    preset: str | None = None


class WindowPreferences(msgspec.Struct, frozen=True):
    """`geometry` is base64 of Qt's own; `splitters` are sizes by the splitter's object name."""

    geometry: str = ""
    splitters: dict[str, list[int]] = {}
    chats_shown: bool = True
    inspector_shown: bool = True
    tab: str = "memory"


class Preferences(msgspec.Struct, frozen=True):
    """The file's content."""

    theme: Theme = "system"
    send_key: SendKey = "enter"
    font_scale: float = 1.0
    reduced_motion: bool = False
    last_model: str | None = None
    open_last_model: bool = True
    probabilities_shown: bool = False
    window: WindowPreferences = WindowPreferences()
    models: dict[str, ModelPreferences] = {}
    presets: list[Preset] = []


class PreferencesState(QObject):
    """The preferences, saved half a second after the last change and in `close`."""

    changed = Signal(str)  # name of the field of Preferences

    value: Preferences
    notice: str  # one line if the file could not be read; it was set aside

    def update(self, **fields: Any) -> None:
        """Change fields of `Preferences`."""

    def of_model(self, path: str) -> ModelPreferences:
        """What was chosen for a model; by its file's name, so that it may move."""
        ...

    def update_model(self, path: str, **fields: Any) -> None: ...
    def presets(self) -> list[Preset]:
        """The built-in ones, then the person's own."""
        ...

    def save_preset(self, preset: Preset) -> None:
        """Add it, or replace the own one of that name."""

    def delete_preset(self, name: str) -> None: ...
    def close(self) -> None:
        """Write what has changed."""
