"""The models on this disk: our own folders and the Hugging Face cache, listed and found by name."""

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
    """A folder whose files are named relative to it; `name` is put before those of a repository."""

    root: Path
    origin: Origin
    name: str
    files: tuple[str, ...]


def resolve(name: str | Path) -> Path:
    """The file a person means: a path, a stored name, or `org/repo[:quant]`.

    Of a split model it is the first split. Raises BadFile for a path that is no file and
    ModelNotFound, with the next step, for a name that leads to none or to several.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir() or isinstance(name, Path) or names.is_gguf(name) and path.is_absolute():
        problem = "is a folder; name one of its files" if path.is_dir() else "no such file"
        raise BadFile(path, problem)
    found = list(dict.fromkeys(_matches(name)))
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(str(p) for p in found)
        raise ModelNotFound(name, f"there are several; give one's path or quantisation: {listed}")
    raise ModelNotFound(name, _next_step(name))


def list_models() -> list[Stored]:
    """Every model on this disk, each file once, broken ones with their problem; by name."""
    seen: set[tuple[int, int]] = set()
    stored = []
    for place in _places():
        for group in names.groups(place.files):
            paths = tuple(place.root / file for file in group.files)
            try:
                stats = [path.stat() for path in paths]
            except OSError:
                continue  # a dangling link, or deleted meanwhile
            keys = {(s.st_dev, s.st_ino) for s in stats}
            if keys & seen:
                continue
            seen |= keys
            stored.append(_describe(place, group, paths, sum(s.st_size for s in stats)))
    return sorted(stored, key=lambda model: model.name.lower())


def _matches(name: str) -> Iterator[Path]:
    """Files that the name means, one a model; our own folders before the cache."""
    places = _places()
    own = [place for place in places if place.origin == "own"]
    wanted = names.stem(KNOWN[name].file_name if name in KNOWN else name).lower()
    for place in own:
        for group in names.groups(place.files):
            if wanted in (group.stem.lower(), group.stem.rpartition("/")[2].lower()):
                yield place.root / group.files[0]
                return
    repository = names.REPOSITORY.match(name)
    if not repository:
        return
    repo, quant = repository["repo"], repository["quant"]
    for place in places:
        inside = f"{repo.lower()}/"
        if place.origin == "own":
            files = tuple(f for f in place.files if f.lower().startswith(inside))
        else:
            files = place.files if place.name.lower() == repo.lower() else ()
        found = names.choose(names.groups(files), quant)
        yield from (place.root / group.files[0] for group in found)
        if found:
            return


def _places() -> list[_Place]:
    places = []
    for folder in model_folders():
        files = tuple(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        places.append(_Place(folder, "own", "", files))
    return places + list(_hub_places())


def _hub_places() -> Iterator[_Place]:
    """One place for each repository of the Hugging Face cache: its newest revision with models."""
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
            if any(map(names.is_gguf, files)):
                yield _Place(root, "hugging face", repo.repo_id, files)
                break


def _describe(place: _Place, group: names.Group, paths: tuple[Path, ...], size: int) -> Stored:
    label = group.stem
    if place.origin == "hugging face":
        quant = names.quant(group.files[0])
        label = f"{place.name}:{quant}" if quant else f"{place.name}/{group.stem}"
    architecture, quantization, problem = None, None, None
    if group.missing:
        problem = f"{group.missing} of {group.count} splits are missing"
    else:
        try:
            architecture, quantization = _header(paths[0])
        except (CutawayError, OSError) as error:
            problem = str(error)
    return Stored(
        label,
        paths,
        size,
        place.origin,
        names.is_projector(group.stem) or architecture == "clip",
        architecture,
        quantization,
        problem,
    )


def _header(path: Path) -> tuple[str, str]:
    """Architecture and the format of most of the file's bytes."""
    from engine.gguf import open_gguf

    with open_gguf(path) as file:
        sizes: dict[str, int] = {}
        for tensor in file.tensors.values():
            sizes[tensor.fmt.name] = sizes.get(tensor.fmt.name, 0) + tensor.nbytes
        return file.metadata.architecture, max(sizes, key=lambda name: sizes[name], default="none")


def _next_step(name: str) -> str:
    known = sorted({*KNOWN, *(model.stem for model in _own_groups())})
    near = get_close_matches(name.lower(), known, n=3)
    searched = ", ".join(str(folder) for folder in model_folders())
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if name in KNOWN or names.REPOSITORY.match(name):
        hint = f"; fetch it with `cutaway get {name}`"
    return f"not a file, and not in {searched} or the Hugging Face cache{hint or known_names()}"


def known_names() -> str:
    """The end of a sentence that names what can be fetched."""
    return f"; `cutaway get` fetches {', '.join(KNOWN)} or any Hugging Face `org/repo`"


def _own_groups() -> list[names.Group]:
    return [g for p in _places() if p.origin == "own" for g in names.groups(p.files)]
