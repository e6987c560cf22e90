"""Settings that other programs keep beside a model's file: each as values of `Sampling`'s fields.

Every reader takes files of at most 64 KiB, and ignores what it does not understand. Formats:
`generation_config.json` is transformers' GenerationConfig; Ollama's parameters are the layer
`application/vnd.ollama.image.params` of a manifest; LM Studio's `model.yaml` is described at
lmstudio.ai/docs/app/modelyaml.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.kept import read_sealed, write_sealed

MOST_BYTES = 1 << 16
GENERATION_CONFIG = "generation_config.json"
MAGIC = b"CutawaySampling1\n"
MODEL_YAML = "model.yaml"
OLLAMA_LAYER = "application/vnd.ollama.image."

GENERATION = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
OLLAMA = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repeat_penalty",
    "repeat_last_n": "penalty_last_n",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
LM_STUDIO = {
    "llm.prediction.temperature": "temperature",
    "llm.prediction.topKSampling": "top_k",
    "llm.prediction.topPSampling": "top_p",
    "llm.prediction.minPSampling": "min_p",
    "llm.prediction.repeatPenalty": "repeat_penalty",
    "llm.prediction.presencePenalty": "presence_penalty",
    "llm.prediction.llama.presencePenalty": "presence_penalty",
}


def number(value: object) -> float | None:
    """A number, but no truth value; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def picked(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    """The numbers of `content` under our names; null counts as missing."""
    found = ((names[key], number(content.get(key))) for key in names)
    return {name: value for name, value in found if value is not None}


def small_file(path: Path) -> bytes | None:
    """A file's bytes; None where it is missing, no plain file, or larger than `MOST_BYTES`."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= MOST_BYTES else None


def json_object(data: bytes | None) -> dict[str, Any]:
    """A JSON object; empty where `data` is none."""
    try:
        content = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def generation_config(data: bytes | None) -> dict[str, float]:
    """The values of a `generation_config.json`. `do_sample: false` means temperature 0, where no
    temperature stands beside it.
    """
    content = json_object(data)
    found = picked(content, GENERATION)
    if content.get("do_sample") is False and "temperature" not in found:
        found["temperature"] = 0.0
    return found


def generation_config_for(path: Path, base: Iterable[str]) -> dict[str, float]:
    """The values of the first `generation_config.json` for a model's file: beside it, in a snapshot
    of its repository, in a snapshot of one of the `base` repositories, kept when it was fetched.
    """
    for place in _config_places(path, base):
        found = generation_config(small_file(place))
        if found:
            return found
    return generation_config(_kept_content(path))


def _config_places(path: Path, base: Iterable[str]) -> Iterator[Path]:
    yield path.parent / GENERATION_CONFIG
    snapshots = next((p for p in path.parents if p.name == "snapshots"), None)
    if snapshots is not None:
        yield from _in_snapshots(snapshots)
    for repository in base:
        folder = "models--" + repository.replace("/", "--")
        yield from _in_snapshots(_hub_cache() / folder / "snapshots")


def _in_snapshots(folder: Path) -> list[Path]:
    """The file in each revision, the newest first."""
    try:
        found = [place / GENERATION_CONFIG for place in folder.iterdir()]
        return sorted(
            (p for p in found if p.is_file()), key=lambda p: p.stat().st_mtime, reverse=True
        )
    except OSError:
        return []


def _hub_cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def kept_generation_config(path: Path) -> Path | None:
    """Where `keep_generation_config` puts the one of a model's file; None for files that do not lie
    under their hash.
    """
    try:
        blob = path.resolve().name
    except (OSError, RuntimeError):
        return None
    return _kept(blob) if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob) else None


def _kept_content(path: Path) -> bytes | None:
    kept = kept_generation_config(path)
    if kept is None:
        return None
    try:
        return read_sealed(kept, MAGIC)
    except OSError:
        return None


def keep_generation_config(blob: str, data: bytes) -> None:
    """Keep the `generation_config.json` of a fetched file, by the hash that is its blob's name.

    Raises `OSError`, and `ValueError` for a name that is no hash or more than `MOST_BYTES`.
    """
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob) or len(data) > MOST_BYTES:
        raise ValueError(f"{blob[:80]!r}: {len(data)} bytes")
    place = _kept(blob)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(place, MAGIC, data)


def _kept(blob: str) -> Path:
    import platformdirs

    data = Path(platformdirs.user_data_dir("cutaway", appauthor=False))
    return data / "generation_config" / f"{blob}.sealed"


class OllamaSettings:
    """The parameters, stops and system prompt of the first manifest that names a blob."""

    def __init__(self, path: Path) -> None:
        self.values: dict[str, float] = {}
        self.stop: tuple[str, ...] = ()
        self.system = ""
        blobs = path.parent
        if blobs.name != "blobs" or not path.name.startswith("sha256-"):
            return
        for manifest in _manifests(blobs.parent / "manifests"):
            layers = _layers(manifest)
            if layers.get("model") == path.name:
                self._take(blobs, layers)
                return

    def _take(self, blobs: Path, layers: Mapping[str, str]) -> None:
        if "params" in layers:
            content = json_object(small_file(blobs / layers["params"]))
            self.values = picked(content, OLLAMA)
            stop = content.get("stop")
            if isinstance(stop, list):
                self.stop = tuple(text for text in stop if isinstance(text, str) and text)
        if "system" in layers:
            data = small_file(blobs / layers["system"]) or b""
            self.system = data.decode("utf-8", "replace").strip()


def _manifests(root: Path) -> list[Path]:
    try:
        return sorted(root.glob("*/*/*/*"))
    except OSError:
        return []


def _layers(manifest: Path) -> dict[str, str]:
    """The blob of each kind of layer."""
    layers = json_object(small_file(manifest)).get("layers")
    found: dict[str, str] = {}
    for layer in layers if isinstance(layers, list) else ():
        if not isinstance(layer, dict):
            continue
        kind, digest = str(layer.get("mediaType")), str(layer.get("digest"))
        if kind.startswith(OLLAMA_LAYER) and re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            found.setdefault(kind.removeprefix(OLLAMA_LAYER), digest.replace(":", "-"))
    return found


def lm_studio(path: Path) -> dict[str, float]:
    """The values of the `model.yaml` that belongs to a model's file: beside it, or in LM Studio's
    hub folder, where its `base` names the file's `publisher/model`.
    """
    beside = _yaml(path.parent / MODEL_YAML)
    if beside:
        return _fields(beside)
    root = next((p for p in path.parents if p.name in (".lmstudio", "lm-studio")), None)
    if root is None:
        return {}
    key = f"{path.parent.parent.name}/{path.parent.name}".lower()
    try:
        files = sorted((root / "hub" / "models").glob(f"*/*/{MODEL_YAML}"))
    except OSError:
        return {}
    for file in files:
        content = _yaml(file)
        if key in _bases(content.get("base")):
            return _fields(content)
    return {}


def _yaml(path: Path) -> dict[str, Any]:
    import yaml

    data = small_file(path)
    try:
        content = yaml.safe_load(data) if data else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _bases(base: object) -> set[str]:
    """Keys of the models that a `model.yaml` is about."""
    keys = [base] if isinstance(base, str) else base if isinstance(base, list) else []
    named = (item.get("key") if isinstance(item, dict) else item for item in keys)
    return {key.lower() for key in named if isinstance(key, str)}


def _fields(content: Mapping[str, Any]) -> dict[str, float]:
    """`config.operation.fields`: each has a key and a value, plain or with a check mark."""
    config = content.get("config")
    operation = config.get("operation") if isinstance(config, dict) else None
    fields = operation.get("fields") if isinstance(operation, dict) else None
    found: dict[str, Any] = {}
    for item in fields if isinstance(fields, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            continue
        value = item.get("value")
        if isinstance(value, dict):
            value = value.get("value") if value.get("checked", True) else None
        found[item["key"]] = value
    return picked(found, LM_STUDIO)
