"""The program's knobs: every `CUTAWAY_*` environment variable, and the options of one engine.

A variable that is unset or empty means its default; any other value must be right (BadSetting).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.errors import BadSetting

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable. `parse` raises ValueError with what it expected."""

    name: str
    default: T
    parse: Callable[[str], T]
    help: str

    def get(self) -> T:
        """The value now; the environment is read at each call."""
        text = os.environ.get(self.name, "")
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise BadSetting(self.name, text, str(error)) from None


def _folder(text: str) -> Path:
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError as error:  # ~somebody
        raise ValueError(f"a folder; {error}") from None
    there = next((place for place in (path, *path.parents) if place.exists()), None)
    if there is not None and not there.is_dir():
        raise ValueError(f"a folder; {there} is a file")
    return path


MODELS: Setting[Path | None] = Setting(
    "CUTAWAY_MODELS",
    None,
    _folder,
    "folder of models, searched first and where `cutaway get` puts its files",
)
CACHE: Setting[Path | None] = Setting(
    "CUTAWAY_CACHE", None, _folder, "folder of built kernels and measurements; may be deleted"
)
LOG: Setting[Path | None] = Setting(
    "CUTAWAY_LOG", None, _folder, "folder where details of unexpected errors are written"
)


def _fusions(text: str) -> frozenset[str] | None:
    if text == "all":
        return None
    return frozenset() if text == "none" else frozenset(text.split(","))


FUSE: Setting[frozenset[str] | None] = Setting(
    "CUTAWAY_FUSE", None, _fusions, "operations made in one launch: all, none, or names (a,b)"
)


def _mib(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ValueError("a whole number of MiB")
    return int(text)


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


RESERVE: Setting[int] = Setting(
    "CUTAWAY_RESERVE", 457, _mib, "MiB that stay free on every GPU, unless --budget says more (457)"
)
OVERHEAD: Setting[int] = Setting(
    "CUTAWAY_OVERHEAD", 0, _mib, "MiB more to leave free on every GPU that layers are fitted to (0)"
)
SPREAD: Setting[bool] = Setting(
    "CUTAWAY_SPREAD", False, _switch, "1 spreads layers over all GPUs, not over as few as possible"
)
FULL_OFFLOAD: Setting[bool] = Setting(
    "CUTAWAY_FULL_OFFLOAD", False, _switch, "1 refuses models that do not fit on GPUs entirely"
)

SETTINGS: tuple[Setting[Any], ...] = (
    *(MODELS, CACHE, LOG, FUSE),
    *(RESERVE, OVERHEAD, SPREAD, FULL_OFFLOAD),
)


def model_folders() -> list[Path]:
    """Our own folders of models, the first being where new files go."""
    import platformdirs

    own = Path(platformdirs.user_data_dir("cutaway", appauthor=False)) / "models"
    extra = MODELS.get()
    return [extra, own] if extra and extra != own else [own]


def cache_folder() -> Path:
    """Where kernel binaries and measurements are kept."""
    import platformdirs

    return CACHE.get() or Path(platformdirs.user_cache_dir("cutaway", appauthor=False))


def log_folder() -> Path:
    """Where logs are written."""
    import platformdirs

    return LOG.get() or Path(platformdirs.user_log_dir("cutaway", appauthor=False))


KV_TYPES = ("f16", "q8_0", "q4_0", "f32")
"""What keys and values are kept in: half the memory with q8_0, a quarter with q4_0."""


@dataclass(frozen=True)
class EngineOptions:
    """What a person chooses about one engine; None leaves the choice to the engine.

    `device` may name several, with commas. `ctx` counts tokens; `kv` is one of KV_TYPES; `budget`
    maps a device to its most bytes. `place` says where layers and weights go, in words of
    engine.memory.placement; `gpu_layers` is how many of them GPUs take, the output block being one.
    """

    device: str | None = None
    ctx: int | None = None
    kv: str = "f16"
    flash_attention: bool | None = None
    threads: int | None = None
    budget: dict[str, int] = field(default_factory=dict)
    place: str = ""
    gpu_layers: int | None = None
