"""The sampling of a model: values from all places, in their order, with the origin of each."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from app.defaults.curated import entry_for
from app.defaults.places import OllamaSettings, generation_config_for, lm_studio, number
from app.language import mark, tr
from app.names import REPOSITORY
from engine.errors import BadSetting
from engine.gguf.general import general_values
from engine.gguf.metadata import Metadata
from engine.kept import read_kept
from engine.protocol import Loaded, Sampling

Origin = Literal[
    "yours", "saved", "file", "ollama", "lm studio", "generation_config", "curated", "program"
]
TEXTS: dict[Origin, str] = {
    "yours": mark("yours"),
    "saved": mark("yours, saved for this model"),
    "file": mark("from the model's file"),
    "ollama": mark("from Ollama"),
    "lm studio": mark("from LM Studio"),
    "generation_config": mark("from generation_config.json"),
    "program": mark("Cutaway's default"),
}
FIELDS = tuple(name for name in Sampling.__struct_fields__ if name != "seed")
WHOLE = ("top_k", "penalty_last_n")

PREFIX = "general.sampling."
KEYS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_last_n": "penalty_last_n",
    "penalty_repeat": "repeat_penalty",
}
NOT_APPLIED = ("xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau", "mirostat_eta")
ORDER: dict[str, dict[str, float]] = {
    "penalties": {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
    "top_k": {"top_k": 0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "temperature": {"temperature": 1.0},
}
"""Our samplers in their order, by llama.cpp's names, with the values that switch each off."""


@dataclass(frozen=True)
class ModelFacts:
    """The inputs of a suggestion: the first file, its architecture, its `general.*` values, and
    `Loaded.chat`: file, chatml, none or alone.
    """

    path: Path
    architecture: str
    general: Mapping[str, Any]
    chat: str

    @property
    def name(self) -> str:
        """The names that the table's words are looked for in: metadata first, the file's stem."""
        keys = ("basename", "name", "finetune", "size_label")
        names = [str(self.general.get(f"general.{key}", "")) for key in keys]
        return "-".join([*filter(None, names), self.path.stem]).lower().replace(" ", "-")

    @property
    def base_repositories(self) -> list[str]:
        """Repositories of the one model that it was made from; none for a merge."""
        if number(self.general.get("general.base_model.count")) not in (None, 1):
            return []
        found = []
        try:
            address = urlsplit(str(self.general.get("general.base_model.0.repo_url", "")))
        except ValueError:  # "http://["
            address = urlsplit("")
        if address.netloc.lower() in ("huggingface.co", "hf.co"):
            found.append("/".join(address.path.strip("/").split("/")[:2]))
        organization = self.general.get("general.base_model.0.organization")
        name = self.general.get("general.base_model.0.name")
        if isinstance(organization, str) and isinstance(name, str):
            found.append(f"{organization}/{name}".replace(" ", "-"))
        return [repo for repo in found if REPOSITORY.match(repo)]


@dataclass(frozen=True)
class Suggested:
    """A whole `Sampling` with the origin of each of its FIELDS. `family` is the table's name of the
    model, "" where it has none. `stop` and `system` are Ollama's; `notes` name what was ignored.
    """

    sampling: Sampling = Sampling()
    origins: Mapping[str, Origin] = field(default_factory=lambda: dict.fromkeys(FIELDS, "program"))
    family: str = ""
    stop: tuple[str, ...] = ()
    system: str = ""
    notes: tuple[str, ...] = ()

    def over(self, values: Mapping[str, Any], origin: Origin) -> "Suggested":
        """The same with values that come before these; None leaves a field as it is."""
        chosen = {name: value for name, value in values.items() if value is not None}
        origins = {**self.origins, **dict.fromkeys(set(chosen) & set(FIELDS), origin)}
        return replace(
            self, sampling=msgspec.structs.replace(self.sampling, **chosen), origins=origins
        )

    def text(self, field: str) -> str:
        """The origin of a field, for people."""
        origin = self.origins[field]
        if origin == "curated":
            return tr("suggested for {family}", family=self.family)
        return tr(TEXTS[origin])

    @property
    def line(self) -> str:
        """The values that are not the program's own, with their origins, in one line."""
        shown: dict[str, list[str]] = {}
        for name in FIELDS:
            if self.origins[name] != "program":
                value = f"{getattr(self.sampling, name):g}"
                label = "" if name == "temperature" else f"{name.replace('_', '-')} "
                shown.setdefault(self.text(name), []).append(label + value)
        if not shown:
            return f"{self.sampling.temperature:g} ({TEXTS['program']})"
        return "; ".join(f"{', '.join(values)} ({origin})" for origin, values in shown.items())

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Value and origin by field."""
        return {
            name: {"value": getattr(self.sampling, name), "origin": self.origins[name]}
            for name in FIELDS
        }


def suggested_for(
    loaded: Loaded, thinking: bool | None = None, with_saved: bool = True
) -> Suggested:
    """The suggestion for an open model; the program's defaults for one of a remote server."""
    if not loaded.general:
        return Suggested()
    facts = ModelFacts(Path(loaded.path), loaded.architecture, loaded.general, loaded.chat)
    return suggested(facts, thinking, with_saved)


def facts_of(path: Path) -> ModelFacts:
    """The facts of a file that is not open. Raises `BadFile`."""
    from engine.gguf import open_gguf

    with open_gguf(path) as file:
        return facts_in(path, file.metadata)


def facts_in(path: Path, metadata: Metadata) -> ModelFacts:
    """The facts of a file whose metadata was read. Raises `BadFile`."""
    chat = "file" if "tokenizer.chat_template" in metadata else "none"
    return ModelFacts(path, metadata.architecture, general_values(metadata), chat)


def suggested_sampling(path: str | Path) -> Sampling:
    """The sampling that suits a file. Raises `BadFile`."""
    return suggested(facts_of(Path(path))).sampling


def suggested(
    facts: ModelFacts, thinking: bool | None = None, with_saved: bool = True
) -> Suggested:
    """Values from every place but a person's choice now; `thinking` chooses among the table's
    entries of models that can think. `with_saved` includes what was saved for the model.
    """
    notes: list[str] = []
    of_file = _file_values(facts.general, notes)
    ollama = OllamaSettings(facts.path)
    entry = None
    if facts.chat not in ("none", "alone"):
        entry = entry_for(facts.architecture, facts.name, thinking)
    sources: list[tuple[Origin, dict[str, float]]] = [
        ("curated", entry.values if entry is not None else {}),
        ("generation_config", generation_config_for(facts.path, facts.base_repositories)),
        ("lm studio", lm_studio(facts.path)),
        ("ollama", ollama.values),
        ("file", of_file),
        ("saved", saved_values(facts.path) if with_saved else {}),
    ]
    made = Suggested(
        family=entry.family if entry is not None else "", stop=ollama.stop, system=ollama.system
    )
    for origin, values in sources:
        made = made.over(_in_range(values, origin, notes), origin)
    return replace(made, notes=tuple(notes))


def _in_range(values: Mapping[str, float], origin: Origin, notes: list[str]) -> dict[str, float]:
    """The values that `Sampling` takes; the others are noted."""
    found: dict[str, float] = {}
    for name, value in values.items():
        try:
            whole = int(value) if name in WHOLE else float(value)
            if name in WHOLE and whole != value:
                raise ValueError
            if name == "top_k":
                whole = max(0, whole)  # below 0 is off elsewhere
            msgspec.structs.replace(Sampling(), **{name: whole}).check()
            found[name] = whole
        except (BadSetting, ValueError, OverflowError):
            notes.append(f"{name} {value!r} {TEXTS.get(origin, '')} is out of range and ignored")
    return found


def _file_values(general: Mapping[str, Any], notes: list[str]) -> dict[str, float]:
    """Values of the file's `general.sampling.*`: llama.cpp's keys."""
    found: dict[str, float] = {}
    for key, name in KEYS.items():
        if PREFIX + key in general:
            value = number(general[PREFIX + key])
            if value is None:
                notes.append(f"{PREFIX}{key} is not a number and is ignored")
            else:
                found[name] = value
    if PREFIX + "sequence" in general:
        sequence = general[PREFIX + "sequence"]
        named = sequence.split(";") if isinstance(sequence, str) else []
        rest = iter(ORDER)
        if named and all(name in rest for name in named):  # a subsequence of ours
            for name, off in ORDER.items():
                if name not in named:
                    found |= off
        else:
            notes.append(f"{PREFIX}sequence {str(sequence)[:80]!r} is not our order and ignored")
    notes += [
        f"{PREFIX}{key} is not applied: Cutaway has no such sampler"
        for key in NOT_APPLIED
        if PREFIX + key in general
    ]
    return found


def saved_values(path: Path) -> dict[str, float]:
    """The values that the person saved for a model in the window, by its file's name."""
    import platformdirs

    place = Path(platformdirs.user_config_dir("cutaway", appauthor=False)) / "preferences.json"
    try:
        if place.stat().st_size > 64 << 20:
            return {}
        content = json.loads(read_kept(place))
        saved = content["models"][path.name]["sampling"]
        values = {name: number(saved.get(name)) for name in FIELDS}
        if content.get("version", 1) < 2:  # then all fields were kept, whoever had set them
            values = {n: v for n, v in values.items() if v != getattr(Sampling(), n)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: value for name, value in values.items() if value is not None}
