"""The models on this disk, our own and those of other programs, listed and found by name."""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from app import names, stores
from app.fetch.known import KNOWN
from app.stores import Origin, Place
from engine.errors import BadFile, CutawayError, ModelNotFound
from engine.settings import model_folders

ENDS = 1 << 18  # bytes at a file's start and end that tell it from others of its size


@dataclass(frozen=True)
class Stored:
    """One model on disk. `paths` has every split in order; `size` is their bytes together.

    `architecture` and `quantization` are None where the header could not be read; `problem`
    then says why. `projector` is the image encoder that lies beside it and fits it.
    """

    name: str
    paths: tuple[Path, ...]
    size: int
    origin: Origin
    is_projector: bool
    architecture: str | None = None
    quantization: str | None = None
    problem: str | None = None
    projector: Path | None = None


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

    Of a file that the cache holds in several revisions, the newest; of one that several programs
    keep, the first place's.
    """
    seen: set[object] = set()
    contents: dict[object, object] = {}  # of a model: the place that had it first
    stored: list[Stored] = []
    for place in stores.places():
        if place.problem:
            stored.append(Stored(place.name, (), 0, place.origin, False, problem=place.problem))
        found, where = names.groups(place.files), place.name or place.root
        here: list[_Described] = []
        for group, label in zip(found, names.labels(found), strict=True):
            paths = tuple(place.path(file) for file in group.files)
            try:
                stats = [path.stat() for path in paths]
                size = sum(s.st_size for s in stats)
                content = contents.setdefault((size, _ends(paths[0])), where)
            except OSError:
                continue  # a dangling link, or deleted meanwhile
            keys: set[object] = {(s.st_dev, s.st_ino) for s in stats}
            keys.add((where, group.stem))
            if not keys & seen and content == where:
                here.append(_describe(place, group, label, paths, size))
            seen |= keys
        stored += [_with_projector(model, here, bool(place.name)) for model in here]
    return sorted(stored, key=lambda model: model.name.lower())


def _matches(name: str) -> list[Path]:
    """Files that the name means, one a model, of the first place that has any."""
    wanted = names.stem(KNOWN[name].file_name if name in KNOWN else name).lower()
    repository = names.REPOSITORY.match(name)
    for place in stores.places():
        found = []
        if place.origin == "ollama":
            if name.lower() in (place.name, place.name.removesuffix(f":{stores.OLLAMA_TAG}")):
                found = names.choose(names.groups(place.files), None)
        elif not place.name:
            found = [
                group
                for group in names.groups(place.files)
                if wanted in (group.stem.lower(), names.label(group).lower())
            ]
        if repository and not found:
            inside = names.groups(_files_of(place, repository["repo"]))
            found = names.choose(inside, repository["quant"])
        if found:
            return [place.path(group.files[0]) for group in found]
    return []


def _files_of(place: Place, repo: str) -> tuple[str, ...]:
    """The place's files that belong to a repository: in our own folders those below `org/repo`."""
    if place.origin == "own":
        return tuple(f for f in place.files if f.lower().startswith(f"{repo.lower()}/"))
    return place.files if place.name.lower() == repo.lower() else ()


def _ends(path: Path) -> bytes:
    """What tells a file from others of its size: a digest of its start and its end."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(ENDS))
        file.seek(max(0, path.stat().st_size - ENDS))
        digest.update(file.read(ENDS))
    return digest.digest()


@dataclass(frozen=True)
class _Described:
    """A model with its folder in the place, its file's stem, and the width that both sides of a
    projector have: of its output, or of the language model's embedding.
    """

    stored: Stored
    folder: str
    stem: str
    width: int | None


def _describe(
    place: Place, group: names.Group, label: str, paths: tuple[Path, ...], size: int
) -> _Described:
    folder, _, stem = group.stem.rpartition("/")
    if place.origin == "ollama":
        name = place.name + (" (projector)" if names.is_projector(stem) else "")
    elif place.name:
        name = f"{place.name}:{label}"
    else:
        called = {model.file_name.lower(): name for name, model in KNOWN.items()}
        name = called.get(group.files[0].lower(), group.stem)
    header = _Header()
    problem = None
    if group.missing:
        problem = f"{group.missing} of {group.count} splits are missing"
    else:
        try:
            header = _read_header(paths[0])
        except (CutawayError, OSError) as error:
            problem = str(error)
    stored = Stored(
        name,
        paths,
        size,
        place.origin,
        names.is_projector(stem) or header.architecture == "clip",
        header.architecture,
        header.quantization,
        problem,
    )
    return _Described(stored, folder, stem, header.width)


def _with_projector(model: _Described, here: list[_Described], one_repository: bool) -> Stored:
    """The model with the projector that lies in its folder and has its width.

    In a folder of many models it must also have the first word of the name in common.
    """
    if model.stored.is_projector or model.width is None:
        return model.stored
    fitting = [
        other
        for other in here
        if other.stored.is_projector
        and (other.folder, other.width) == (model.folder, model.width)
        and (one_repository or _words(model.stem)[0] in _words(other.stem))
    ]
    best = min(
        fitting, key=lambda other: (other.stored.quantization != "F16", other.stem), default=None
    )
    return replace(model.stored, projector=best.stored.paths[0]) if best else model.stored


def _words(stem: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", stem.lower()) if word] or [""]


@dataclass(frozen=True)
class _Header:
    architecture: str | None = None
    quantization: str | None = None
    width: int | None = None


def _read_header(path: Path) -> _Header:
    """Architecture, the quantisation as the file calls it or else that of most bytes, and width."""
    from gguf import LlamaFileType

    from engine.gguf import open_gguf

    with open_gguf(path) as file:
        sizes: Counter[str] = Counter()
        for tensor in file.tensors.values():
            sizes[tensor.fmt.name] += tensor.nbytes
        number = file.metadata.get("general.file_type", int, -1)
        called = {int(kind): kind.name for kind in LlamaFileType if kind.name != "GUESSED"}
        name = called.get(number, max(sizes, key=lambda fmt: sizes[fmt], default="none"))
        architecture = file.metadata.architecture
        key = "vision.projection_dim" if architecture == "clip" else "embedding_length"
        width = file.metadata.get(f"{architecture}.{key}", int, None)
        return _Header(architecture, re.sub("^(ALL|MOSTLY)_", "", name), width)


def _next_step(name: str) -> str:
    stored = (group.stem for place in stores.own_places() for group in names.groups(place.files))
    known = sorted({*KNOWN, *stored})
    near = get_close_matches(name.lower(), known, n=3)
    searched = ", ".join(str(folder) for folder in model_folders())
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if name in KNOWN or names.REPOSITORY.match(name):
        hint = f"; fetch it with `cutaway get {name}`"
    return f"not a file, and not in {searched} or other programs' folders{hint or known_names()}"


def known_names() -> str:
    """The end of a sentence that names what can be fetched."""
    return f"; `cutaway get` fetches {', '.join(KNOWN)} or any Hugging Face `org/repo`"
