"""Typed preferences in one file; a corrupt file is set aside."""

import logging
import time
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import platformdirs
from PySide6.QtCore import QObject, QTimer, Signal

from app.files import write_atomically
from app.language import Language, tr
from app.remote.connection import Connection
from app.state.presets import (
    BUILT_IN,
    AnswerLimits,
    OwnSampling,
    Preset,
    SavedPrompt,
    own_of_whole,
)
from engine.errors import CutawayError
from engine.kept import UNREADABLE, read_kept
from engine.protocol import PictureLimits
from engine.settings import AUTOMATIC, KV_TYPES, MOST_SCALE, ActivationBits, usable_folder

VERSION = 2  # before 2, samplings were kept whole, also the fields that nobody had set
SAVE_MS = 500
AGAIN_MS = 10_000  # after a save that failed
LARGEST = 64 << 20  # bytes of a file that is read
MOST_RECENT = 12  # files
MOST_PROMPTS = 1000
SHOWN_WRONG = 3  # values that the notice names

Theme = Literal["system", "light", "dark", "contrast"]
SendKey = Literal["enter", "ctrl+enter"]
Density = Literal["comfortable", "compact"]
Drafting = Literal["auto", "none", "ngram", "draft", "mtp"]
ChosenLanguage = Literal["system", "en", "de"]
log = logging.getLogger("window")

# What is out of range is not understood, like what is of another type.
Context = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
Gigabytes = Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)]
OrAutomatic = Annotated[int, msgspec.Meta(ge=AUTOMATIC, lt=1_000_000)]
PathText = Annotated[str, msgspec.Meta(pattern=r"^[^\0]+$", max_length=4096)]
Name = Annotated[str, msgspec.Meta(max_length=1000)]
PlaceRule = Annotated[str, msgspec.Meta(max_length=50_000)]
Base64 = Annotated[str, msgspec.Meta(pattern=r"^([\w+/]{4})*([\w+/]{2}==|[\w+/]{3}=)?$")]
KvType = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(KV_TYPES)})$")]
Scale = Annotated[float, msgspec.Meta(ge=-MOST_SCALE, le=MOST_SCALE)]
MOST_ADAPTERS = 32
Size = Annotated[int, msgspec.Meta(ge=0, le=100_000)]


class ModelPreferences(msgspec.Struct, frozen=True):
    """Preferences for one model; None leaves the choice to the engine or to the defaults.
    `sampling` is what was saved for the model, `picture` is what each picture that is added may
    take.
    """

    device: Name | None = None
    ctx: Context | None = None
    kv: KvType = "f16"
    activations: ActivationBits = 12
    place: PlaceRule = ""
    mmproj: Name = ""
    model_draft: Name = ""
    lora: Annotated[dict[Name, Scale], msgspec.Meta(max_length=MOST_ADAPTERS)] = {}
    sampling: OwnSampling | None = None
    limits: AnswerLimits | None = None
    system: str | None = None
    preset: Name | None = None
    picture: PictureLimits = PictureLimits()


class WindowPreferences(msgspec.Struct, frozen=True):
    """`geometry` is base64 of Qt's own, `windows` those of views in windows of their own, by page;
    `splitters` are sizes by the splitter's object name. `chats_listed` is the person's choice
    between the list of chats and icons; None leaves it to the window's width.
    """

    geometry: Base64 = ""
    windows: dict[str, Base64] = {}
    splitters: dict[str, list[Size]] = {}
    chats_listed: bool | None = None
    inspector_shown: bool = False
    inspector_wide: bool = False
    advanced_shown: bool = False
    tab: Name = "token"


MOST_LENSES = 8


class Preferences(msgspec.Struct, frozen=True):
    """The file's content. `models` is by file name, `recent` has files, the latest first; `draft`
    is of the chat not begun yet; `connections` are the servers, without their keys. `prepared_gb`
    is how much of the disk prepared weights may take, None for what the engine finds right;
    `kept_chats` is the same for what chats have read, in GB or AUTOMATIC;
    `speculation` is what guesses tokens ahead.
    `lenses` are files that layers were read with, the latest first, `autoencoder` is the folder of
    the features that the Token view shows.
    `last_folder` is where dialogs for files start.
    `folded_folders` are the folders of chats whose chats the list does not show.
    """

    theme: Theme = "system"
    language: ChosenLanguage = "system"
    send_key: SendKey = "enter"
    font_scale: Annotated[float, msgspec.Meta(ge=0.5, le=4.0)] = 1.0
    density: Density = "comfortable"
    last_model: PathText | None = None
    recent: list[PathText] = []
    open_last_model: bool = True
    last_chat: Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)] | None = None
    models_folder: PathText | None = None
    last_folder: PathText | None = None
    watched_folders: list[PathText] = []
    default_ctx: Context | None = None
    prepared_gb: Gigabytes | None = None
    kept_chats: OrAutomatic = AUTOMATIC
    speculation: Drafting = "none"
    probabilities_shown: bool = False
    served_chats: bool = False
    folded_folders: list[Name] = []
    token_live: bool = True
    lenses: Annotated[list[PathText], msgspec.Meta(max_length=MOST_LENSES)] = []
    autoencoder: PathText | None = None
    draft: str = ""
    window: WindowPreferences = WindowPreferences()
    models: dict[str, ModelPreferences] = {}
    presets: list[Preset] = []
    prompts: Annotated[list[SavedPrompt], msgspec.Meta(max_length=MOST_PROMPTS)] = []
    connections: list[Connection] = []


class _Chosen(msgspec.Struct):
    language: ChosenLanguage = "system"


def config_folder() -> Path:
    """Where the preferences are."""
    return Path(platformdirs.user_config_dir("cutaway", appauthor=False))


def preferences_file(folder: Path | None = None) -> Path:
    return (folder or config_folder()) / "preferences.json"


def chosen_language() -> Language | None:
    """The language of the preferences; None for the system's. Read before the window is imported,
    whose tables are made in that language.
    """
    try:
        chosen = msgspec.json.decode(read_kept(preferences_file()), type=_Chosen).language
    except (OSError, *UNREADABLE):
        return None
    return chosen if chosen != "system" else None


class PreferencesState(QObject):
    """The preferences, saved half a second after the last change and in `close`.

    Only fields that were changed here are written, so that two windows do not undo each other.
    `notice` is one line if (a part of) the file could not be used.
    """

    changed = Signal(str)  # name of the field of Preferences
    tried = Signal(str)  # to save: why that failed, or empty

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path, self.notice = path, ""
        self._unsaved: set[str] = set()
        self.value = self._read()
        self._timer = QTimer(self, singleShot=True, interval=SAVE_MS)
        self._timer.timeout.connect(self.save)

    @property
    def models_folder(self) -> Path | None:
        """The chosen folder of models; None where none is chosen, or `folder_problem`."""
        chosen = self.value.models_folder
        return usable_folder(chosen) if chosen and not self.folder_problem else None

    @property
    def folder_problem(self) -> str:
        """One line where the chosen models folder cannot be used, else empty."""
        try:
            usable_folder(self.value.models_folder or ".")
        except ValueError as error:
            return tr(
                "the models folder is not used: expected {error}; choose one in the preferences",
                error=error,
            )
        return ""

    def update(self, **fields: Any) -> None:
        """Change fields of `Preferences`; what stays the same makes no noise."""
        changed = [name for name, value in fields.items() if getattr(self.value, name) != value]
        if changed:
            self.value = msgspec.structs.replace(self.value, **fields)
            self._unsaved.update(changed)
            self._timer.start(SAVE_MS)
        for name in changed:
            self.changed.emit(name)

    def of_model(self, path: str) -> ModelPreferences:
        """Return the preferences for a model, found by its file's name: the file may move."""
        return self.value.models.get(Path(path).name, ModelPreferences())

    def update_model(self, path: str, **fields: Any) -> None:
        """Change fields of the model's `ModelPreferences`."""
        chosen = msgspec.structs.replace(self.of_model(path), **fields)
        self.update(models=self.value.models | {Path(path).name: chosen})

    def remember_opened(self, path: str) -> None:
        """A model was opened: it is the last one, and the first of the recent ones."""
        others = [other for other in self.value.recent if other != path]
        self.update(last_model=path, recent=[path, *others][:MOST_RECENT])

    def presets(self) -> list[Preset]:
        """The built-in ones, then the person's own."""
        return [*BUILT_IN, *self.value.presets]

    def save_preset(self, preset: Preset) -> None:
        """Add it, or replace the own one of that name."""
        others = [own for own in self.value.presets if own.name != preset.name]
        self.update(presets=[*others, preset])

    def save_prompt(self, prompt: SavedPrompt) -> None:
        """Keep a prompt in place of one of its name."""
        others = [other for other in self.value.prompts if other.name != prompt.name]
        prompts = sorted([*others, prompt], key=lambda one: one.name.casefold())
        self.update(prompts=prompts[:MOST_PROMPTS])

    def delete_prompt(self, name: str) -> None:
        """Forget a prompt."""
        self.update(prompts=[other for other in self.value.prompts if other.name != name])

    def delete_preset(self, name: str) -> None:
        """Remove an own preset."""
        self.update(presets=[own for own in self.value.presets if own.name != name])

    def save(self) -> None:
        """Write what has changed. Where that fails, `notice` says so, and it is tried again."""
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
            self.tried.emit("")
        except (OSError, ValueError) as error:  # ValueError: half a character in a draft
            problem = error.strerror if isinstance(error, OSError) else str(error)
            self.notice = tr(
                "preferences are not saved: {path}: {problem}", path=self.path, problem=problem
            )
            self._timer.start(AGAIN_MS)
            self.tried.emit(self.notice)

    def close(self) -> None:
        """Write what has changed."""
        self.save()
        self._timer.stop()

    def _load(self) -> dict[str, Any] | None:
        """The file's content as it is; None where there is none or it is no JSON object."""
        try:
            if not self.path.is_file() or self.path.stat().st_size > LARGEST:
                return None
            return msgspec.json.decode(read_kept(self.path), type=dict[str, Any])
        except (OSError, *UNREADABLE):
            return None

    def _read(self) -> Preferences:
        content = self._load()
        if content is None:
            self._set_aside()
            return Preferences()
        if _version(content) < 2:
            self._unsaved.update(_without_defaults(content))
        wrong: dict[str, str] = {}
        value: Preferences = _understood(content, Preferences, "", wrong)
        if wrong:
            more = (
                tr(" and {wrong} more", wrong=len(wrong) - SHOWN_WRONG)
                if len(wrong) > SHOWN_WRONG
                else ""
            )
            named = ", ".join(list(wrong)[:SHOWN_WRONG]) + more
            self.notice = tr("invalid preferences, using defaults instead: {named}", named=named)
            for where, reason in wrong.items():
                log.warning("preferences: %s: %s", where, reason)
        return value

    def _set_aside(self) -> None:
        if not self.path.exists():
            return
        aside = self.path.with_name(f"{self.path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            self.path.rename(aside)
            self.notice = tr(
                "preferences could not be read, using defaults; the old file is kept as {aside}",
                aside=aside,
            )
        except OSError as error:
            self.notice = tr(
                "preferences could not be read: {path}: {strerror}",
                path=self.path,
                strerror=error.strerror,
            )


def _version(content: dict[str, Any]) -> int:
    version = content.get("version")
    return version if isinstance(version, int) else VERSION


def _without_defaults(content: dict[str, Any]) -> set[str]:
    """Leave out of samplings that were kept whole what nobody had set; returns changed fields."""
    models, presets = content.get("models"), content.get("presets")
    listed = {
        "models": list(models.values()) if isinstance(models, dict) else [],
        "presets": presets if isinstance(presets, list) else [],
    }
    changed = set()
    for name, items in listed.items():
        for item in items:
            sampling = item.get("sampling") if isinstance(item, dict) else None
            if isinstance(sampling, dict):
                item["sampling"] = own_of_whole(sampling)
                changed.add(name)
    return changed


def _understood(content: Any, kind: Any, where: str, wrong: dict[str, str]) -> Any:
    """`content` as a `kind`, so far as it is one: what is not costs only itself, and is named in
    `wrong` with the reason. A part of which nothing is understood is None.
    """
    if _is_struct(kind) and isinstance(content, dict):
        types = {field.name: field.type for field in msgspec.structs.fields(kind)}
        parts = {
            name: _understood(content[name], type, f"{where}.{name}", wrong)
            for name, type in types.items()
            if name in content
        }
        return kind(**{name: part for name, part in parts.items() if part is not None})
    if get_origin(kind) is dict and isinstance(content, dict):
        inner = get_args(kind)[1]
        items = {
            key: _understood(item, inner, f"{where}.{key[:40]}", wrong)
            for key, item in content.items()
        }
        return {key: item for key, item in items.items() if item is not None}
    if kind in (list[Preset], list[PathText], list[Connection]) and isinstance(content, list):
        (inner,) = get_args(kind)
        listed = [
            _understood(item, inner, f"{where}[{n}]", wrong) for n, item in enumerate(content)
        ]
        return [item for item in listed if item is not None]
    try:
        value = msgspec.convert(content, kind)
        for part in (value, getattr(value, "sampling", None)):
            if isinstance(part, OwnSampling | Connection):
                part.check()
        return value
    except (msgspec.ValidationError, CutawayError) as error:
        wrong[where.removeprefix(".")] = str(error)
        return None


def _is_struct(kind: Any) -> bool:
    return kind in (Preferences, WindowPreferences, ModelPreferences)


def _merged(before: Any, value: Any) -> Any:
    """`value` as JSON has it, with what `before` had in structs beyond the fields known here."""
    known = before if isinstance(before, dict) else {}
    if isinstance(value, OwnSampling):
        return value.values
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return known | {name: _merged(known.get(name), getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {key: _merged(known.get(key), item) for key, item in value.items()}
    return msgspec.to_builtins(value)
