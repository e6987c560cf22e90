"""The models on this disk, our own and those of other programs, listed and found by name."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from app import names, stores
from app.fetch import bundled
from app.fetch.known import KNOWN
from app.headers import Header, Headers
from app.stores import Origin, Place
from engine.errors import BadFile, ModelNotFound
from engine.gguf import projectors
from engine.settings import EngineOptions, model_folders

ENDS = 1 << 18  # bytes at a file's start and end that identify it among others of its size


@dataclass(frozen=True)
class Stored:
    """One model on disk. `paths` has every split in order; `size` is their bytes together.

    `architecture` and `quantization` are None where the header could not be read; `problem`
    then says why. `projector` is the image encoder that lies beside it and fits it, `mismatch` why
    one that lies there does not; `n_ctx` the tokens of context it was trained for;
    `ranks`: it is a reranker or a classifier. `adapts` is as in `Header`.
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
    mismatch: str | None = None
    n_ctx: int | None = None
    ranks: bool = False
    adapts: str | None = None

    @property
    def is_adapter(self) -> bool:
        """True if it is a LoRA adapter of a model."""
        return self.adapts is not None

    @property
    def is_model(self) -> bool:
        """True if it can be opened by itself, as far as its header says."""
        return not self.problem and not (self.is_projector or self.is_adapter)


def with_draft(options: EngineOptions) -> EngineOptions:
    """The options with the file of the draft model, which may be named as in `resolve`."""
    if not options.model_draft:
        return options
    return replace(options, model_draft=str(resolve(options.model_draft)))


def resolve(name: str | Path) -> Path:
    """The file a person means: a path, a stored name, or `org/repo[:quant]`.

    Of a split model it is the first split. Raises BadFile for a path that is not a file and
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


def list_models(
    stopped: Callable[[], bool] = lambda: False,
    opened: Sequence[Path] = (),
    preferred: Path | None = None,
    watched: Sequence[Path] = (),
) -> list[Stored]:
    """Every model on this disk, each file once, broken ones with their problem; by name. Fewer
    once `stopped`. `opened` are files that were opened from elsewhere; `preferred` is the models
    folder that a person chose, `watched` are others to look in.

    Of a file that the cache holds in several revisions, the newest; of one that several programs
    keep, the first place's. Different files of one name: all but the first by their paths.
    """
    headers = Headers()
    found, stored = _look(opened, preferred, watched)
    copies = _copies(found)
    seen: set[object] = set()
    here: dict[object, list[_Described]] = {}  # by place
    for file in found:
        if stopped():
            return []
        keys: set[object] = {(s.st_dev, s.st_ino) for s in file.stats}
        keys.add((file.where, file.group.stem))
        if not keys & seen and file not in copies:
            here.setdefault(file.where, []).append(_describe(file, headers))
        seen |= keys
    headers.save(all_listed=True)
    for models in here.values():
        towers = [model for model in models if model.stored.is_projector]
        stored += [_with_projector(model, towers, models) for model in models]
    return sorted(_distinct(stored), key=lambda model: model.name.lower())


def first_usable() -> Path | None:
    """The file of the first model in the list that can be opened; no others are read after it."""
    headers = Headers()
    try:
        for file in sorted(_look()[0], key=lambda file: file.name.lower()):
            stored = _describe(file, headers).stored
            if stored.is_model:
                return stored.paths[0]
        return None
    finally:
        headers.save(all_listed=False)


@dataclass(frozen=True, eq=False)
class _ModelFile:
    """A model's files as they lie in a place, unread."""

    place: Place
    group: names.Group
    name: str
    paths: tuple[Path, ...]
    stats: tuple[os.stat_result, ...]

    @property
    def size(self) -> int:
        return sum(s.st_size for s in self.stats)

    @property
    def where(self) -> object:
        return self.place.name or self.place.root


def _look(
    opened: Sequence[Path] = (), preferred: Path | None = None, watched: Sequence[Path] = ()
) -> tuple[list[_ModelFile], list[Stored]]:
    """The files of all places, in their order; and what has a problem before it is read."""
    found: list[_ModelFile] = []
    broken: list[Stored] = []
    others = (*stores.watched_places(watched), *stores.opened_places(opened))
    for place in (*stores.places(preferred), *others):
        if place.problem:
            broken.append(Stored(place.name, (), 0, place.origin, False, problem=place.problem))
        groups = names.groups(place.files)
        for group, label in zip(groups, names.labels(groups), strict=True):
            paths = tuple(place.path(file) for file in group.files)
            try:
                stats = tuple(path.stat() for path in paths)
            except OSError:
                continue  # a dangling link, or deleted meanwhile
            found.append(_ModelFile(place, group, _name(place, group, label), paths, stats))
    return found, broken


def _name(place: Place, group: names.Group, label: str) -> str:
    stem = names.label(group)
    if place.origin == "ollama":
        return place.name + (" (projector)" if names.is_projector(stem) else "")
    if place.name:
        return f"{place.name}:{label}"
    called = {model.file_name.lower(): name for name, model in KNOWN.items()}
    return called.get(group.files[0].lower(), group.stem)


def _distinct(stored: list[Stored]) -> list[Stored]:
    """The models, those named as an earlier one by their paths, which `resolve` takes too."""
    taken: set[str] = set()
    apart = []
    for model in stored:
        if model.name.lower() in taken and model.paths:
            model = replace(model, name=_short(model.paths[0]))
        taken.add(model.name.lower())
        apart.append(model)
    return apart


def _short(path: Path) -> str:
    """The path from the home on, as a person writes it."""
    home = Path.home()
    return str(Path("~") / path.relative_to(home) if path.is_relative_to(home) else path)


def _copies(found: list[_ModelFile]) -> set[_ModelFile]:
    """Files that an earlier place has as well. Only files of one size are compared."""
    sizes: dict[int, list[_ModelFile]] = {}
    for file in found:
        sizes.setdefault(file.size, []).append(file)
    copies: set[_ModelFile] = set()
    for alike in sizes.values():
        if len({file.where for file in alike}) == 1:
            continue
        first: dict[bytes, object] = {}  # the place that had the content first
        for file in alike:
            try:
                if first.setdefault(_ends(file.paths[0]), file.where) != file.where:
                    copies.add(file)
            except OSError:
                continue
    return copies


def _matches(name: str) -> list[Path]:
    """Files that the name means, one per model, of the first place that has any."""
    wanted = names.stem(KNOWN[name].file_name if name in KNOWN else name).lower()
    repository = names.REPOSITORY.match(KNOWN[name].repository if name in KNOWN else name)
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
    return [bundled.model()] if name == bundled.NAME else []


def _files_of(place: Place, repo: str) -> tuple[str, ...]:
    """The place's files that belong to a repository: in our own folders those below `org/repo`."""
    if place.origin == "own":
        return tuple(f for f in place.files if f.lower().startswith(f"{repo.lower()}/"))
    return place.files if place.name.lower() == repo.lower() else ()


def _ends(path: Path) -> bytes:
    """Return a fingerprint of a file: a digest of its start and its end."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(ENDS))
        file.seek(max(0, path.stat().st_size - ENDS))
        digest.update(file.read(ENDS))
    return digest.digest()


@dataclass(frozen=True)
class _Described:
    """A model with its folder in the place, its file's stem, and its header's width."""

    stored: Stored
    one_repository: bool
    folder: str
    stem: str
    width: int | None


def _describe(file: _ModelFile, headers: Headers) -> _Described:
    group = file.group
    folder, _, stem = group.stem.rpartition("/")
    header = Header(problem=f"{group.missing} of {group.count} splits are missing")
    if not group.missing:
        header = headers.of(file.paths, file.stats)
    stored = Stored(
        file.name,
        file.paths,
        file.size,
        file.place.origin,
        names.is_projector(stem) or header.architecture == "clip",
        header.architecture,
        header.quantization,
        header.problem,
        n_ctx=header.n_ctx,
        ranks=header.ranks,
        adapts=header.adapts,
    )
    return _Described(stored, bool(file.place.name), folder, stem, header.width)


def _with_projector(model: _Described, towers: list[_Described], here: list[_Described]) -> Stored:
    """The model with the projector that goes with it: from its folder, or its repository.

    Of those of its width the one whose name has most in common, then in the order of `BEST`.
    """
    if not model.stored.is_model or model.width is None:
        return model.stored
    candidates = [
        tower
        for tower in towers
        if tower.stored.problem is None and (model.one_repository or tower.folder == model.folder)
    ]
    if candidates and not model.one_repository:
        beside = [other.stem for other in here if other.folder == model.folder]
        models = set(beside) - {tower.stem for tower in towers}
        candidates = [
            tower for tower in candidates if projectors.akin(model.stem, tower.stem, models)
        ]

    def rank(other: _Described) -> tuple[int, int, str]:
        quality = projectors.quality(other.stored.quantization)
        return -projectors.alike(model.stem, other.stem), quality, other.stem

    fitting = [other for other in candidates if other.width == model.width]
    if fitting:
        return replace(model.stored, projector=min(fitting, key=rank).stored.paths[0])
    if not candidates:
        return model.stored
    return replace(model.stored, mismatch=_mismatch(model, min(candidates, key=rank)))


def _mismatch(model: _Described, other: _Described) -> str:
    """Why the projector beside a model is not taken."""
    name = other.stored.paths[0].name
    if other.width is None:
        return f"{name} is for sound, not for pictures"
    wide = f"its embeddings have {other.width} numbers, this model's {model.width}"
    return f"{name} belongs to another model: {wide}"


def _next_step(name: str) -> str:
    stored = (group.stem for place in stores.own_places() for group in names.groups(place.files))
    known = sorted({*KNOWN, bundled.NAME, *stored})
    near = get_close_matches(name.lower(), known, n=3)
    searched = ", ".join(str(folder) for folder in model_folders())
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if name in KNOWN or names.REPOSITORY.match(name):
        hint = f"; fetch it with `cutaway get {name}`"
    return f"not a file, and not in {searched} or other programs' folders{hint or known_names()}"


def known_names() -> str:
    """The end of a sentence that names what can be fetched."""
    return f"; `cutaway get` fetches {', '.join(KNOWN)} or any Hugging Face `org/repo`"
