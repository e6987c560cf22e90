"""Where models lie on a disk: our own folders and other programs', only ever read.

Layouts: Hugging Face's by its library; Ollama's manifests name blobs by digest; LM Studio keeps
`publisher/model/*.gguf`; GPT4All one flat folder.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import platformdirs

from app import names
from engine.settings import model_folders

Origin = Literal["own", "hugging face", "ollama", "lm studio", "gpt4all", "opened"]

OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")  # where its Linux service keeps them
OLLAMA_DEFAULTS = ("registry.ollama.ai", "library")
OLLAMA_TAG = "latest"
LAYER = "application/vnd.ollama.image."


@dataclass(frozen=True)
class Place:
    """A folder and its GGUF files, relative to it.

    `name` is the repository's, empty where there is none. Files of other names on the disk are in
    `blobs`. `problem` says why there is no file to open.
    """

    root: Path
    origin: Origin
    name: str
    files: tuple[str, ...]
    blobs: Mapping[str, Path] = field(default_factory=dict)
    problem: str = ""

    def path(self, file: str) -> Path:
        """Where a file really is."""
        return self.blobs.get(file, self.root / file)


def places(preferred: Path | None = None) -> Iterator[Place]:
    """Our own folders (`model_folders`), then the stores of others."""
    yield from own_places(preferred)
    yield from _hub_places()
    yield from _lm_studio_places()
    yield from _ollama_places()
    folder = Path(platformdirs.user_data_dir()) / "nomic.ai" / "GPT4All"
    yield Place(folder, "gpt4all", "", _gguf_files(folder))


def opened_places(paths: Sequence[Path]) -> Iterator[Place]:
    """The folders of files that were opened by their paths, with all splits of each."""
    for path in paths:
        try:
            beside = sorted(p.name for p in path.parent.iterdir() if names.is_gguf(p.name))
        except OSError:
            continue
        groups = names.groups(tuple(beside) if path.name in beside else (path.name,))
        files = next((group.files for group in groups if path.name in group.files), ())
        yield Place(path.parent, "opened", "", tuple(files))


def own_places(preferred: Path | None = None) -> Iterator[Place]:
    """Our own folders (`model_folders`); fetched models are put into the first."""
    for folder in model_folders(preferred):
        yield Place(folder, "own", "", _gguf_files(folder))


def _gguf_files(folder: Path) -> tuple[str, ...]:
    """What lies in a folder and below; what may not be read is left out."""
    found = []
    for parent, _, files in os.walk(folder):
        paths = [Path(parent, name) for name in files if names.is_gguf(name)]
        found += [path.relative_to(folder).as_posix() for path in paths if path.is_file()]
    return tuple(found)


def _hub_places() -> Iterator[Place]:
    """One place for each repository and revision of the Hugging Face cache, the newest first."""
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except (CacheNotFound, ValueError):  # no cache, or a file in its place
        return
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        if repo.repo_type != "model":
            continue
        newest_first = sorted(
            repo.revisions, key=lambda r: ("main" in r.refs, r.last_modified), reverse=True
        )
        for revision in newest_first:
            root = revision.snapshot_path
            files = tuple(f.file_path.relative_to(root).as_posix() for f in revision.files)
            yield Place(root, "hugging face", repo.repo_id, tuple(filter(names.is_gguf, files)))


def _lm_studio_places() -> Iterator[Place]:
    for root in (Path.home() / ".lmstudio", Path.home() / ".cache" / "lm-studio"):
        for folder in sorted((root / "models").glob("*/*/")):
            name = f"{folder.parent.name}/{folder.name}"
            yield Place(folder, "lm studio", name, _gguf_files(folder))


def _ollama_places() -> Iterator[Place]:
    """One place per tag; its files are called as our own would be."""
    own = os.environ.get("OLLAMA_MODELS")
    for root in (Path(own) if own else Path.home() / ".ollama" / "models", OLLAMA_SERVICE):
        for path in sorted((root / "manifests").glob("*/*/*/*")):
            layers = _layers(path)
            if layers:
                yield _ollama_place(root, path, layers)


def _ollama_place(root: Path, manifest: Path, layers: list[tuple[str, str]]) -> Place:
    host, owner, model, tag = manifest.parts[-4:]
    named = [model] if (host, owner) == OLLAMA_DEFAULTS else [owner, model]
    if host != OLLAMA_DEFAULTS[0]:
        named.insert(0, host)
    blobs: dict[str, Path] = {}
    for kind, digest in layers:
        if kind in ("model", "projector"):
            name = f"{'mmproj-' if kind == 'projector' else ''}{model}-{tag}.gguf"
            blobs.setdefault(name, root / "blobs" / digest.replace(":", "-"))
    apart = any(kind == "tensor" for kind, _ in layers)
    problem = "Ollama keeps it as separate tensors, which are no GGUF file" if apart else ""
    name = f"{'/'.join(named)}:{tag}"
    return Place(root / "blobs", "ollama", name, tuple(blobs), blobs, problem)


def _layers(manifest: Path) -> list[tuple[str, str]]:
    """(kind, digest) of the layers; none where it is no manifest that can be read."""
    try:
        content: Any = json.loads(manifest.read_bytes())
        layers = [(str(item["mediaType"]), str(item["digest"])) for item in content["layers"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return [(kind.removeprefix(LAYER), digest) for kind, digest in layers if "/" not in digest]
