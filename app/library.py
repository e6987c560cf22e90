"""The models on this disk: our own folders and the Hugging Face cache, listed and found by name."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from app import names
from app.fetch.known import KNOWN
from engine.errors import BadFile, CutawayError, ModelNotFound
from engine.settings import model_folders

Origin = Literal["own", "hugging face"]


@dataclass(frozen=True)
class Stored:
    """One model on disk. `paths` has every split in order; `size` is their bytes together.

    `architecture` and `quantization` are None where the header could not be read; `problem`
    then says why.
    """

    name: str
    paths: tuple[Path, ...]
    size: int
    origin: Origin
    is_projector: bool
    architecture: str | None = None
    quantization: str | None = None
    problem: str | None = None


@dataclass(frozen=True)
class _Place:
    """A folder and its GGUF files, relative to it; `name` is the repository's, of our own empty."""

    root: Path
    origin: Origin
    name: str
    files: tuple[str, ...]


def resolve(name: str | Path) -> Path:
    """The file a person means: a path, a stored name, or `org/repo[:quant]`.

    Of a split model it is the first split. Raises BadFile for a path that is no file and
    ModelNotFound, with the next step, for a name that leads to none or to several.
    """
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # `~someone` who has no home here
        path = Path(name)
    if path.is_file():
        return path
    found = [] if isinstance(name, Path) else _matches(name)
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(str(p) for p in found)
        raise ModelNotFound(str(name), f"there are several; give one's path: {listed}")
    if path.is_dir():
        raise BadFile(path, "is a folder; name one of its files")
    if isinstance(name, Path) or names.is_gguf(name):
        raise BadFile(path, "no such file")
    raise ModelNotFound(name, _next_step(name))


def list_models() -> list[Stored]:
    """Every model on this disk, each file once, broken ones with their problem; by name.

    Of a file that the cache holds in several revisions, the newest.
    """
    seen: set[object] = set()
    stored = []
    for place in _places():
        found = names.groups(place.files)
        for group, label in zip(found, names.labels(found), strict=True):
            paths = tuple(place.root / file for file in group.files)
            try:
                stats = [path.stat() for path in paths]
            except OSError:
                continue  # a dangling link, or deleted meanwhile
            keys: set[object] = {(s.st_dev, s.st_ino) for s in stats}
            keys.add((place.name or place.root, group.stem))
            if not keys & seen:
                seen |= keys
                stored.append(_describe(place, group, label, paths, sum(s.st_size for s in stats)))
    return sorted(stored, key=lambda model: model.name.lower())


def _matches(name: str) -> list[Path]:
    """Files that the name means, one a model, of the first place that has any."""
    wanted = names.stem(KNOWN[name].file_name if name in KNOWN else name).lower()
    repository = names.REPOSITORY.match(name)
    for place in _places():
        found = []
        if place.origin == "own":
            found = [
                group
                for group in names.groups(place.files)
                if wanted in (group.stem.lower(), names.label(group).lower())
            ]
        if repository and not found:
            inside = names.groups(_files_of(place, repository["repo"]))
            found = names.choose(inside, repository["quant"])
        if found:
            return [place.root / group.files[0] for group in found]
    return []


def _files_of(place: _Place, repo: str) -> tuple[str, ...]:
    """The place's files that belong to a repository: in our own folders those below `org/repo`."""
    if place.origin == "own":
        return tuple(f for f in place.files if f.lower().startswith(f"{repo.lower()}/"))
    return place.files if place.name.lower() == repo.lower() else ()


def _places() -> Iterator[_Place]:
    """Our own folders, then the cache's repositories."""
    yield from _own_places()
    yield from _hub_places()


def _own_places() -> Iterator[_Place]:
    for folder in model_folders():
        found = (p for p in folder.rglob("*") if names.is_gguf(p.name) and p.is_file())
        yield _Place(folder, "own", "", tuple(p.relative_to(folder).as_posix() for p in found))


def _hub_places() -> Iterator[_Place]:
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
            yield _Place(root, "hugging face", repo.repo_id, tuple(filter(names.is_gguf, files)))


def _describe(
    place: _Place, group: names.Group, label: str, paths: tuple[Path, ...], size: int
) -> Stored:
    if place.origin == "own":
        called = {model.file_name.lower(): name for name, model in KNOWN.items()}
        name = called.get(group.files[0].lower(), group.stem)
    else:
        name = f"{place.name}:{label}"
    architecture, quantization, problem = None, None, None
    if group.missing:
        problem = f"{group.missing} of {group.count} splits are missing"
    else:
        try:
            architecture, quantization = _header(paths[0])
        except (CutawayError, OSError) as error:
            problem = str(error)
    return Stored(
        name,
        paths,
        size,
        place.origin,
        names.is_projector(group.stem) or architecture == "clip",
        architecture,
        quantization,
        problem,
    )


def _header(path: Path) -> tuple[str, str]:
    """Architecture, and the quantisation as the file calls it or else that of most bytes."""
    from gguf import LlamaFileType

    from engine.gguf import open_gguf

    with open_gguf(path) as file:
        sizes: Counter[str] = Counter()
        for tensor in file.tensors.values():
            sizes[tensor.fmt.name] += tensor.nbytes
        number = file.metadata.get("general.file_type", int, -1)
        called = {int(kind): kind.name for kind in LlamaFileType if kind.name != "GUESSED"}
        name = called.get(number, max(sizes, key=lambda fmt: sizes[fmt], default="none"))
        return file.metadata.architecture, re.sub("^(ALL|MOSTLY)_", "", name)


def _next_step(name: str) -> str:
    stored = (group.stem for place in _own_places() for group in names.groups(place.files))
    known = sorted({*KNOWN, *stored})
    near = get_close_matches(name.lower(), known, n=3)
    searched = ", ".join(str(folder) for folder in model_folders())
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if name in KNOWN or names.REPOSITORY.match(name):
        hint = f"; fetch it with `cutaway get {name}`"
    return f"not a file, and not in {searched} or the Hugging Face cache{hint or known_names()}"


def known_names() -> str:
    """The end of a sentence that names what can be fetched."""
    return f"; `cutaway get` fetches {', '.join(KNOWN)} or any Hugging Face `org/repo`"
