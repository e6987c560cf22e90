"""What a person chose, typed, in one file that survives being corrupt."""

import time
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.files import write_atomically
from app.state.presets import BUILT_IN, Preset
from engine.protocol import Sampling

VERSION = 1
SAVE_MS = 500

Theme = Literal["system", "light", "dark", "contrast"]
SendKey = Literal["enter", "ctrl+enter"]
Density = Literal["comfortable", "compact"]
T = TypeVar("T", bound=msgspec.Struct)


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
    """The file's content. `models` is by file name, `draft` is of the chat not begun yet."""

    theme: Theme = "system"
    send_key: SendKey = "enter"
    font_scale: float = 1.0
    density: Density = "comfortable"
    reduced_motion: bool = False
    last_model: str | None = None
    open_last_model: bool = True
    models_folder: str | None = None
    default_ctx: int | None = None
    probabilities_shown: bool = False
    draft: str = ""
    window: WindowPreferences = WindowPreferences()
    models: dict[str, ModelPreferences] = {}
    presets: list[Preset] = []


class PreferencesState(QObject):
    """The preferences, saved half a second after the last change and in `close`.

    Only fields that were changed here are written, so that two windows do not undo each other.
    `notice` is one line if (a part of) the file could not be used.
    """

    changed = Signal(str)  # name of the field of Preferences

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path, self.notice = path, ""
        self._unsaved: set[str] = set()
        self.value = self._read()
        self._timer = QTimer(self, singleShot=True, interval=SAVE_MS)
        self._timer.timeout.connect(self.save)

    def update(self, **fields: Any) -> None:
        """Change fields of `Preferences`; what stays the same makes no noise."""
        changed = [name for name, value in fields.items() if getattr(self.value, name) != value]
        if changed:
            self.value = msgspec.structs.replace(self.value, **fields)
            self._unsaved.update(changed)
            self._timer.start()
        for name in changed:
            self.changed.emit(name)

    def update_window(self, **fields: Any) -> None:
        """Change fields of `WindowPreferences`."""
        self.update(window=msgspec.structs.replace(self.value.window, **fields))

    def of_model(self, path: str) -> ModelPreferences:
        """What was chosen for a model; by its file's name, so that it may move."""
        return self.value.models.get(Path(path).name, ModelPreferences())

    def update_model(self, path: str, **fields: Any) -> None:
        """Change fields of the model's `ModelPreferences`."""
        chosen = msgspec.structs.replace(self.of_model(path), **fields)
        self.update(models=self.value.models | {Path(path).name: chosen})

    def presets(self) -> list[Preset]:
        """The built-in ones, then the person's own."""
        return [*BUILT_IN, *self.value.presets]

    def save_preset(self, preset: Preset) -> None:
        """Add it, or replace the own one of that name."""
        others = [own for own in self.value.presets if own.name != preset.name]
        self.update(presets=[*others, preset])

    def delete_preset(self, name: str) -> None:
        """Remove an own preset."""
        self.update(presets=[own for own in self.value.presets if own.name != name])

    def save(self) -> None:
        """Write what has changed; `notice` where that fails."""
        self._timer.stop()
        if not self._unsaved:
            return
        content = self._load() or {}
        for name in self._unsaved:
            content[name] = _merged(content.get(name), getattr(self.value, name))
        content["version"] = max(VERSION, _version(content))
        try:
            write_atomically(self.path, msgspec.json.format(msgspec.json.encode(content)))
            self._unsaved.clear()
        except OSError as error:
            self.notice = f"preferences are not saved: {self.path}: {error.strerror}"

    def close(self) -> None:
        """Write what has changed."""
        self.save()

    def _load(self) -> dict[str, Any] | None:
        """The file's content as it is; None where there is none or it is no JSON object."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _read(self) -> Preferences:
        content = self._load()
        if content is None:
            self._set_aside()
            return Preferences()
        value, wrong = Preferences(), []
        for field in msgspec.structs.fields(Preferences):
            if field.name in content:
                try:
                    read = msgspec.convert(content[field.name], field.type)
                    value = msgspec.structs.replace(value, **{field.name: read})
                except msgspec.ValidationError as error:
                    wrong.append(f"{field.name} ({error})")
        if wrong:
            self.notice = f"preferences not understood, defaults are used: {', '.join(wrong)}"
        return value

    def _set_aside(self) -> None:
        if not self.path.exists():
            return
        aside = self.path.with_name(f"{self.path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            self.path.rename(aside)
            self.notice = f"preferences could not be read, defaults are used; kept as {aside}"
        except OSError as error:
            self.notice = f"preferences could not be read: {self.path}: {error.strerror}"


def _version(content: dict[str, Any]) -> int:
    version = content.get("version")
    return version if isinstance(version, int) else VERSION


def _merged(before: Any, value: Any) -> Any:
    """`value` as JSON has it, with what `before` had in structs beyond the fields known here."""
    known = before if isinstance(before, dict) else {}
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return known | {name: _merged(known.get(name), getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {key: _merged(known.get(key), item) for key, item in value.items()}
    return cast(Any, msgspec.to_builtins(value))
