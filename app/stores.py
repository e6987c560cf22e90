"""Where models lie on a disk: our own folders and other programs', only ever read.

Layouts: Hugging Face's by its library; Ollama's manifests name blobs by digest; LM Studio keeps
`publisher/model/*.gguf`; GPT4All one flat folder.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import platformdirs

from app import names
from engine.kept import read_kept
from engine.settings import model_folders

Origin = Literal["own", "hugging face", "ollama", "lm studio", "gpt4all", "watched", "opened"]

OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")  # where its Linux service keeps them
OLLAMA_DEFAULTS = ("registry.ollama.ai", "library")
OLLAMA_TAG = "latest"
LAYER = "application/vnd.ollama.image."
MOST_MANIFEST = 1 << 20  # bytes
MOST_WALKED = 5000  # folders below one that is watched, which may be a whole disk
DIGEST = re.compile(r"[a-z0-9]+[:-][0-9a-zA-Z]{1,128}")
HUB_MODELS = "models--"

Refused = Callable[[OSError], None]


@dataclass(frozen=True)
class Place:
    """A folder and its GGUF files, relative to it.

    `name` is the repository's, empty where there is none. Files of other names on the disk are in
    `blobs`. `problem` says why there is not a file to open.
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


def _ignore(_: OSError) -> None:
    return


def places(preferred: Path | None = None, refused: Refused = _ignore) -> Iterator[Place]:
    """Our own folders (`model_folders`), then the stores of others. A folder that may not be read
    is left out; `refused` gets the error.
    """
    yield from own_places(preferred, refused)
    yield from _hub_places(refused)
    yield from _lm_studio_places(refused)
    yield from _ollama_places(refused)
    folder = Path(platformdirs.user_data_dir()) / "nomic.ai" / "GPT4All"
    yield Place(folder, "gpt4all", "", _gguf_files(folder, refused))


def unreadable(preferred: Path | None = None) -> list[str]:
    """The folders of models that may not be read, each with the reason."""
    errors: list[OSError] = []
    for _ in places(preferred, errors.append):
        pass
    return list(dict.fromkeys(f"{error.filename}: {error.strerror}" for error in errors))


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


def watched_places(folders: Sequence[Path]) -> Iterator[Place]:
    """Folders that a person added, with the folders below."""
    for folder in folders:
        yield Place(folder, "watched", "", _gguf_files(folder, _ignore, MOST_WALKED))


def own_places(preferred: Path | None = None, refused: Refused = _ignore) -> Iterator[Place]:
    """Our own folders (`model_folders`); fetched models are put into the first."""
    for folder in model_folders(preferred):
        yield Place(folder, "own", "", _gguf_files(folder, refused))


def _gguf_files(folder: Path, refused: Refused, most: int | None = None) -> tuple[str, ...]:
    """Files in a folder and below, in at most so many folders; links that lead nowhere are left
    out.
    """
    found = []
    for parent, _, files in islice(os.walk(folder, onerror=partial(_log_refused, refused)), most):
        paths = [Path(parent, name) for name in files if names.is_gguf(name)]
        found += [p.relative_to(folder).as_posix() for p in paths if os.path.isfile(p)]
    return tuple(found)


def _folders(folder: Path, refused: Refused, depth: int = 1) -> list[Path]:
    """The folders so many levels below, by name."""
    try:
        with os.scandir(folder) as entries:
            inside = sorted(Path(entry.path) for entry in entries if os.path.isdir(entry.path))
    except OSError as error:
        _log_refused(refused, error)
        return []
    if depth == 1:
        return inside
    return [below for one in inside for below in _folders(one, refused, depth - 1)]


def _log_refused(refused: Refused, error: OSError) -> None:
    """Pass on that a folder may not be read; one that is not there is no news."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        refused(error)


def _hub_places(refused: Refused) -> Iterator[Place]:
    """One place for each repository and revision of the Hugging Face cache, the newest first.

    Its library's own scan leaves out a whole repository for one broken link, and the whole cache
    for one broken name.
    """
    from huggingface_hub import constants

    for repo in _folders(Path(constants.HF_HUB_CACHE), refused):
        if not repo.name.startswith(HUB_MODELS):
            continue
        name = repo.name.removeprefix(HUB_MODELS).replace("--", "/")
        main = _main_revision(repo)
        found = [
            Place(folder, "hugging face", name, _gguf_files(folder, refused))
            for folder in _folders(repo / "snapshots", refused)
        ]
        yield from sorted(found, key=lambda p: (p.root.name == main, _written(p)), reverse=True)


def _main_revision(repo: Path) -> str:
    try:
        return read_kept(repo / "refs" / "main")[:100].decode("ascii", "replace").strip()
    except OSError:
        return ""


def _written(place: Place) -> float:
    """When the newest of its files was written."""
    times = []
    for file in place.files:
        with suppress(OSError):
            times.append(place.path(file).stat().st_mtime)
    return max(times, default=0.0)


def _lm_studio_places(refused: Refused) -> Iterator[Place]:
    for root in (Path.home() / ".lmstudio", Path.home() / ".cache" / "lm-studio"):
        for folder in _folders(root / "models", refused, depth=2):
            name = f"{folder.parent.name}/{folder.name}"
            yield Place(folder, "lm studio", name, _gguf_files(folder, refused))


def _ollama_places(refused: Refused) -> Iterator[Place]:
    """One place per tag; its files are called as our own would be."""
    own = os.environ.get("OLLAMA_MODELS")
    for root in (Path(own) if own else Path.home() / ".ollama" / "models", OLLAMA_SERVICE):
        for folder in _folders(root / "manifests", refused, depth=3):
            for path in _manifests(folder, refused):
                layers = _layers(path)
                if layers:
                    yield _ollama_place(root, path, layers)


def _manifests(folder: Path, refused: Refused) -> list[Path]:
    """The regular files of a folder; opening a pipe would wait for its other end."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if os.path.isfile(entry.path))
    except OSError as error:
        _log_refused(refused, error)
        return []


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
    problem = "Ollama keeps it as separate tensors, not as a GGUF file" if apart else ""
    name = f"{'/'.join(named)}:{tag}"
    return Place(root / "blobs", "ollama", name, tuple(blobs), blobs, problem)


def _layers(manifest: Path) -> list[tuple[str, str]]:
    """(kind, digest) of the layers; none where it is no manifest that can be read."""
    try:
        with manifest.open("rb") as file:
            content: Any = json.loads(file.read(MOST_MANIFEST))
        layers = [(str(item["mediaType"]), str(item["digest"])) for item in content["layers"]]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    return [(kind.removeprefix(LAYER), d) for kind, d in layers if DIGEST.fullmatch(d)]
