"""The program's knobs: every `CUTAWAY_*` environment variable, and the options of one engine.

A variable that is unset or empty means its default; any other value must be right (BadSetting).
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args

from engine.errors import BadSetting
from engine.units import MIB

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


def usable_folder(text: str) -> Path:
    """A folder that is there or can be made. Raises ValueError with what was expected."""
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError as error:  # ~somebody
        raise ValueError(f"a folder; {error}") from None
    there = next((place for place in (path, *path.parents) if os.path.exists(place)), None)
    if there is not None and not os.path.isdir(there):
        raise ValueError(f"a folder; {there} is a file")
    return path


MODELS: Setting[Path | None] = Setting(
    "CUTAWAY_MODELS",
    None,
    usable_folder,
    "folder of models, searched first; `cutaway get` saves there",
)
CACHE: Setting[Path | None] = Setting(
    "CUTAWAY_CACHE", None, usable_folder, "folder of built kernels and measurements; may be deleted"
)
LOG: Setting[Path | None] = Setting(
    "CUTAWAY_LOG", None, usable_folder, "folder where details of unexpected errors are written"
)


def _fusions(text: str) -> frozenset[str] | None:
    if text == "all":
        return None
    return frozenset() if text == "none" else frozenset(text.split(","))


FUSE: Setting[frozenset[str] | None] = Setting(
    "CUTAWAY_FUSE", None, _fusions, "operations to fuse into one launch: all, none, or names (a,b)"
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
    "CUTAWAY_RESERVE",
    457,
    _mib,
    "MiB to leave free on every GPU, unless --budget leaves more (457)",
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

VECTORS_KINDS = ("auto", "avx512", "avx2", "sse")


def _vectors(text: str) -> str:
    if text not in VECTORS_KINDS:
        raise ValueError(f"one of {', '.join(VECTORS_KINDS)}")
    return text


VECTORS: Setting[str] = Setting(
    "CUTAWAY_VECTORS",
    "auto",
    _vectors,
    "widest vectors of kernels on CPUs: avx512, avx2, sse, or auto, the processor's own (auto)",
)

PICTURE_ROWS: Setting[int] = Setting(
    "CUTAWAY_PICTURE_ROWS", 1024, _mib, "MiB of RAM for what towers make of pictures (1024)"
)


def _gigabytes(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise ValueError("a whole number of GB, 0 for none")
    return int(text)


AUTOMATIC = -1
"""In place of a size: what the engine finds right."""


def _size_or_auto(parse: Callable[[str], int]) -> Callable[[str], int]:
    def read(text: str) -> int:
        if text == "auto":
            return AUTOMATIC
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"auto, or {error}") from None

    return read


TRIALS: Setting[bool] = Setting(
    "CUTAWAY_TRIALS",
    True,
    _switch,
    "instructions of a GPU's vendor, tried on the device and then used: 1, or 0 for none (1)",
)

LANES: Setting[bool] = Setting(
    "CUTAWAY_LANES",
    False,
    _switch,
    "1 runs the kernels of GPUs on CPUs, to try them where no GPU is (0)",
)

PREPARED: Setting[int | None] = Setting(
    "CUTAWAY_PREPARED",
    None,
    _gigabytes,
    "GB of the disk for weights prepared for CPUs, unless --prepared is set; 0 stores none"
    " (a quarter of what is free, at most 100)",
)

API_KEY: Setting[str] = Setting(
    "CUTAWAY_API_KEY", "", str, "API key for `cutaway serve` and --server"
)

SETTINGS: tuple[Setting[Any], ...] = (
    *(MODELS, CACHE, LOG, FUSE),
    *(RESERVE, OVERHEAD, SPREAD, FULL_OFFLOAD, PICTURE_ROWS, VECTORS, TRIALS, LANES, PREPARED),
    API_KEY,
)


def model_folders(preferred: Path | None = None) -> list[Path]:
    """Our own folders of models; new files go into the first.

    That is the environment's, else the `preferred` one, else only the folder we always have.
    """
    import platformdirs

    own = Path(platformdirs.user_data_dir("cutaway", appauthor=False)) / "models"
    extra = MODELS.get() or preferred
    return [extra, own] if extra and extra != own else [own]


def cache_folder() -> Path:
    """Where kernel binaries and measurements are kept."""
    import platformdirs

    return CACHE.get() or Path(platformdirs.user_cache_dir("cutaway", appauthor=False))


def log_folder() -> Path:
    """Where logs are written."""
    import platformdirs

    return LOG.get() or Path(platformdirs.user_log_dir("cutaway", appauthor=False))


MOST_PICTURE_BYTES = 64 * MIB
"""Of a picture's file: a larger one is refused, wherever it comes from."""
KV_TYPES = ("f16", "q8_0", "q4_0", "f32")
"""What keys and values are kept in: half the memory with q8_0, a quarter with q4_0."""
ActivationBits = Literal[12, 8]
ACTIVATION_BITS: tuple[ActivationBits, ...] = get_args(ActivationBits)
"""What activations are rounded to for products with quantised weights."""
MOST = (1 << 31) - 1  # the engine counts in 32 bits
MOST_SCALE = 1000
"""Of an adapter: the largest, and with a minus the least."""
MOST_PARALLEL = 30
"""Sequences at once: a cell has so many bits for them, and one for what is looked at beside."""


@dataclass(frozen=True)
class Option:
    """How people write a field of `EngineOptions`: as `--flag`, and what it means.

    `parse` raises ValueError with what it expected. What may be `repeated` gives parts of one
    mapping; what is `kept` is remembered for each model. `also` are other names of the flag.
    """

    flag: str
    metavar: str
    help: str
    parse: Callable[[str], Any] = str
    repeated: bool = False
    kept: bool = False
    also: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """The value of a text. Raises `BadSetting`."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise BadSetting(f"--{self.flag}", text, str(error)) from None


def _counts_from(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > 10 or not least <= int(text) <= MOST:
            raise ValueError(f"a whole number from {least} to {MOST}")
        return int(text)

    return parse


def _sequences(text: str) -> int:
    n = _counts_from(1)(text)
    if n > MOST_PARALLEL:
        raise ValueError(f"a whole number from 1 to {MOST_PARALLEL}")
    return n


def _cells(text: str) -> int:
    return 0 if text == "each" else _counts_from(1)(text)


def _one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return values[text]

    return parse


DRAFTERS = ("ngram", "draft", "mtp")
"""What guesses tokens ahead: earlier matches of the text's end, a second, smaller model, and the
block of a model that predicts further tokens (multi-token prediction).
"""
_DRAFTERS_OF = {"none": (), "auto": DRAFTERS, **{name: (name,) for name in DRAFTERS}}


def drafters(text: str) -> frozenset[str]:
    """The drafters that --spec-type names, also as llama-server does. Raises ValueError."""
    known = r"^(ngram)-.*|^(draft)-simple$|^draft-(mtp)$"
    names = [re.sub(known, r"\1\2\3", name) for name in text.split(",")]
    if not set(names) <= _DRAFTERS_OF.keys() or ("none" in names and len(names) > 1):
        raise ValueError(f"{', '.join(_DRAFTERS_OF)}, or several with commas")
    return frozenset(kind for name in names for kind in _DRAFTERS_OF[name])


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def _spec_type(text: str) -> str:
    drafters(text)
    return text


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def _budget(text: str) -> dict[str, int]:
    device, equals, mib = text.rpartition("=")
    if not (device and equals and mib.isdecimal() and len(mib) < 10):
        raise ValueError("DEVICE=MiB, such as intel:0=4096")
    return {device: int(mib) * MIB}


def adapters(text: str) -> dict[str, float]:
    """Files with their scales of --lora: FILE or FILE:SCALE, 1 being the default, or several with
    commas. Raises ValueError.
    """
    found = {}
    for part in text.split(","):
        file, colon, scale = part.rpartition(":")
        if colon and _NUMBER.fullmatch(scale):
            found[file] = float(scale)
        else:
            found[part] = 1.0
    if not all(found):
        raise ValueError("FILE or FILE:SCALE, or several with commas")
    return found


def _option(default: Any, *facts: Any, **more: Any) -> Any:
    declared = {"option": Option(*facts, **more)}
    if default == {}:
        return field(default_factory=dict, metadata=declared)
    return field(default=default, metadata=declared)


@dataclass(frozen=True)
class EngineOptions:
    """A person's options of one engine; None leaves the choice to the engine.

    The one place where an option is declared: command lines, preferences and the Python API follow.
    `device` may name several, with commas. `ctx` counts tokens; `kv` is one of KV_TYPES; `budget`
    maps a device to its most bytes. `activations` are bits: 12, or 8 in products of a prompt's many
    rows on CPUs where that is quicker; all others keep 12, or are of floats. `place` says where
    layers and weights go, in words of engine.memory.placement; `gpu_layers` is how many of them
    GPUs take, the output block being one. `mmproj` is a path, "none" for text alone, or empty
    for a file in the model's folder. `lora` maps paths of adapters to their scales. So many as
    `parallel` are answered at once; all together have `cells` tokens in the cache, None as many
    as `ctx`, 0 each as many. `prepared` and `kept_chats` are in GB, `cache_ram` in MiB, both of
    these also AUTOMATIC. `spec_type` is read by `drafters`. `model_draft` is a path, empty for
    none.
    """

    device: str | None = _option(
        None, "device", "NAME", "devices to use, a,b, as `devices` names them", kept=True
    )
    ctx: int | None = _option(None, "ctx", "N", "tokens of context", _counts_from(1), kept=True)
    kv: str = _option(
        "f16",
        *("kv", "TYPE", f"cache type: {', '.join(KV_TYPES)} (f16)"),
        _one_of({name: name for name in KV_TYPES}),
        kept=True,
    )
    flash_attention: bool | None = _option(
        None,
        *("flash-attn", "WHEN", "fused attention: on, off or auto (auto)"),
        _one_of({"on": True, "off": False, "auto": None}),
    )
    threads: int | None = _option(None, "threads", "N", "cores of a CPU device", _counts_from(1))
    budget: dict[str, int] = _option(
        {},
        *("budget", "DEVICE=MiB", "most memory to use on a device; may be repeated"),
        _budget,
        repeated=True,
    )
    place: str = _option(
        "",
        *("place", "WHERE"),
        r"layers and weights: 0-11=intel:0,12-=pocl:0,out=host,ffn_.*=host, or shares: 3,1",
        kept=True,
    )
    gpu_layers: int | None = _option(
        None,
        *("gpu-layers", "N", "layers for GPUs, one being the output block"),
        _counts_from(0),
    )
    mmproj: str = _option(
        "",
        *("mmproj", "FILE", "vision file (mmproj), or none (default: a file beside the model)"),
        kept=True,
    )
    lora: dict[str, float] = _option(
        {},
        *("lora", "FILE[:SCALE]", "LoRA adapter for the model, scaled by 1; may be repeated"),
        adapters,
        repeated=True,
        kept=True,
        also=("--lora-scaled",),
    )
    image_tokens: int | None = _option(
        None,
        *("image-tokens", "N", "maximum tokens per picture (the model's own limit)"),
        _counts_from(1),
    )
    parallel: int = _option(1, *("parallel", "N", "parallel sequences (1)"), _sequences)
    cells: int | None = _option(
        None,
        *("cells", "N", "KV cache size in tokens, shared by all sequences, or `each` (--ctx)"),
        _cells,
    )
    prepared: int | None = _option(
        None,
        *("prepared", "GB"),
        "most of the disk for weights prepared for CPUs, which open at once; 0 keeps none"
        " (a quarter of what is free, at most 100)",
        _gigabytes,
    )
    kept_chats: int = _option(
        0,
        *("kept-chats", "GB"),
        "most of the disk for what the model has read, so that a chat continues at once after a"
        " restart; auto: a tenth of what is free, at most 20 (0)",
        _size_or_auto(_gigabytes),
    )
    cache_ram: int = _option(
        AUTOMATIC,
        *("cache-ram", "MiB"),
        "most RAM for prompts that have left the context, to be read again at once; 0 for none"
        " (auto: a twentieth, at most 4096)",
        _size_or_auto(_mib),
    )
    spec_type: str = _option(
        "none",
        *("spec-type", "TYPE"),
        "what guesses tokens ahead, to check several in one step: none, auto, ngram, draft, mtp"
        " (none; draft with --model-draft)",
        _spec_type,
    )
    model_draft: str = _option(
        "",
        *("model-draft", "FILE", "a smaller model of the same vocabulary, which guesses ahead"),
        kept=True,
        also=("-md", "--spec-draft-model"),
    )
    device_draft: str | None = _option(
        None,
        *("device-draft", "NAME", "devices of the draft model (--device)"),
        also=("-devd", "--spec-draft-device"),
    )
    draft_min: int = _option(
        0,
        *("draft-min", "N", "fewest tokens of a draft model's guess (0)"),
        _counts_from(0),
        also=("--spec-draft-n-min",),
    )
    draft_p_min: float = _option(
        0.0,
        *("draft-p-min", "P", "least probability of a token that the draft model guesses (0)"),
        _fraction,
        also=("--spec-draft-p-min",),
    )
    draft_max: int | None = _option(
        None,
        *("draft-max", "N", "maximum guessed tokens in a step (what measures fastest, up to 15)"),
        _counts_from(0),
        also=("--draft", "--spec-draft-n-max"),
    )
    activations: ActivationBits = _option(
        12,
        *("activations", "BITS"),
        "bits of activations: 12, or 8 where CPUs then read prompts faster;"
        " about 1 in 40 top tokens changes, with 12 bits 1 in 400 (12)",
        _one_of({str(bits): bits for bits in ACTIVATION_BITS}),
        kept=True,
    )


OPTIONS: Mapping[str, Option] = {f.name: f.metadata["option"] for f in fields(EngineOptions)}
"""By the field's name."""
KEPT = tuple(name for name, option in OPTIONS.items() if option.kept)
"""The fields that are remembered for each model."""
