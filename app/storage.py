"""Deleting and moving models on this disk. Stores of other programs are theirs to change."""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.library import Stored
from engine.errors import CutawayError
from engine.kept import remove, sync_folder
from engine.units import GB

CHUNK = 1 << 22  # bytes
MARGIN = 16 << 20  # bytes that stay free on a disk
Report = Callable[[int, int], None]


class StorageError(CutawayError):
    """A model that cannot be deleted or moved; it is where it was."""


@dataclass(frozen=True)
class Deletion:
    """The files that deleting a model removes, and the bytes that become free."""

    name: str
    files: tuple[Path, ...]
    size: int


def deletion(model: Stored, others: Sequence[Stored] = ()) -> Deletion:
    """The files that go with a model: all its parts, and its projector where none of `others` uses
    it. Raises StorageError, with the next step, where it is not ours to delete.
    """
    _check_ours(model)
    files = list(model.paths)
    shared = {other.projector for other in others if other.paths != model.paths}
    if model.projector is not None and model.projector not in shared:
        files.append(model.projector)
    for file in list(files):
        files += _other_names(file)
    blobs = {file.resolve() for file in files}
    size = sum(_size(blob) for blob in blobs)
    return Deletion(model.name, tuple(dict.fromkeys(files)), size)


def delete(planned: Deletion) -> None:
    """Delete files; of the Hugging Face cache also the blobs that no other revision links to.
    Raises StorageError.
    """
    rest = _whole_revisions(planned.files)
    try:
        for file in rest:
            blob = file.resolve() if file.is_symlink() else None
            file.unlink(missing_ok=True)
            if blob is not None and blob.parent.name == "blobs" and not _linked(blob):
                blob.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(_sentence("deleted", error)) from None


def move(
    model: Stored,
    folder: Path,
    report: Report = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    others: Sequence[Stored] = (),
) -> Path:
    """Copy a model into `folder`, check size and hash of each copy, then delete the old files; the
    new path of its first file.

    Until all copies are right, nothing of the old files is touched, and what was copied of it is
    deleted if it fails or is cancelled. Raises StorageError.
    """
    going = deletion(model, others)
    sources = [*model.paths, *([model.projector] if model.projector in going.files else [])]
    targets = {source: folder / _place_in(source) for source in sources if source is not None}
    _check_targets(targets, going.size)
    total, done = sum(_size(source) for source in targets), 0
    made: list[Path] = []
    try:
        for source, target in targets.items():
            made.append(target)

            def on_size(size: int, before: int = done) -> None:
                report(before + size, total)

            _copy(source, target, on_size, cancelled)
            done += _size(source)
    except BaseException as error:
        for target in made:
            remove(target)
        if isinstance(error, OSError):
            raise StorageError(_sentence("copied", error)) from None
        raise
    delete(going)
    return targets[model.paths[0]]


def _copy(
    source: Path, target: Path, on_size: Callable[[int], None], cancelled: Callable[[], bool]
) -> None:
    """One file, under another name until it was read back and is the same."""
    part = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    try:
        with source.open("rb") as old, part.open("wb") as new:
            while chunk := old.read(CHUNK):
                if cancelled():
                    raise StorageError(
                        f"{source.name}: moving was cancelled; the file is still in its old place"
                    )
                new.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                on_size(size)
            new.flush()
            os.fsync(new.fileno())
        with part.open("rb") as new:
            copied = hashlib.file_digest(new, "sha256").digest()
        if copied != digest.digest() or part.stat().st_size != source.stat().st_size:
            raise StorageError(
                f"{target} differs from {source} after copying and was deleted; check the disk"
            )
        os.replace(part, target)
        sync_folder(target.parent)  # before the old file is deleted, which may be on another disk
    finally:
        remove(part)


def _check_targets(targets: dict[Path, Path], size: int) -> None:
    for source, target in targets.items():
        if target.exists():
            where = (
                "it is already there" if target.samefile(source) else "another file has that name"
            )
            raise StorageError(f"{source.name} cannot be moved to {target.parent}: {where}")
    place = next(iter(targets.values())).parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free - MARGIN
    if size > free:
        needs, has = f"{size / GB:.1f} GB", f"{max(free, 0) / GB:.1f} GB"
        raise StorageError(f"moving needs {needs} in {place}, where {has} are free")


def _check_ours(model: Stored) -> None:
    if not model.paths:
        raise StorageError(
            f"{model.name} has no file of its own; delete it with the program that stored it"
        )
    if model.origin == "ollama":
        step = f"delete it with `ollama rm {model.name}`"
        raise StorageError(f"{model.name} belongs to Ollama; {step}")
    programs = {"lm studio": "LM Studio (My Models)", "gpt4all": "GPT4All (Installed models)"}
    if model.origin in programs:
        raise StorageError(f"{model.name} belongs to {programs[model.origin]}; delete it there")


def _place_in(source: Path) -> Path:
    """Where a file goes below the new folder: `org/repo/file` out of the Hugging Face cache."""
    revision = _revision(source)
    if revision is None:
        return Path(source.name)
    repository = revision.parent.parent.name.removeprefix("models--").split("--", 1)
    return Path(*repository, source.name)


def _revision(file: Path) -> Path | None:
    """The snapshot's folder in the Hugging Face cache that a file lies in."""
    for parent in file.parents:
        if parent.parent.name == "snapshots" and parent.parent.parent.name.startswith("models--"):
            return parent
    return None


def _links(blob: Path) -> list[Path]:
    """The links of all revisions to a blob of the Hugging Face cache."""
    found = []
    for parent, _, files in os.walk(blob.parent.parent / "snapshots"):
        for name in files:
            link = Path(parent, name)
            if link.is_symlink() and Path(os.path.realpath(link)) == blob:
                found.append(link)
    return found


def _linked(blob: Path) -> bool:
    return bool(_links(blob))


def _other_names(file: Path) -> list[Path]:
    """Links of other revisions to the same blob: it is one model."""
    if _revision(file) is None or not file.is_symlink():
        return []
    return [link for link in _links(file.resolve()) if link != file]


def _whole_revisions(files: Sequence[Path]) -> list[Path]:
    """Delete, by the library of the cache, the revisions that hold nothing but `files`; gives back
    the files that are left.
    """
    from huggingface_hub import CacheNotFound, scan_cache_dir

    revisions = {revision for file in files if (revision := _revision(file)) is not None}
    gone = set()
    for revision in revisions:
        if {path for path in revision.rglob("*") if not path.is_dir()} <= set(files):
            gone.add(revision)
    if gone:
        with suppress(CacheNotFound, ValueError):
            cache = scan_cache_dir(next(iter(gone)).parents[2])
            cache.delete_revisions(*(revision.name for revision in gone)).execute()
    return [file for file in files if os.path.lexists(file)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sentence(what: str, error: OSError) -> str:
    return f"{error.filename or 'a file'} cannot be {what}: {error.strerror or error}"
