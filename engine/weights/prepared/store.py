"""The folder of prepared weights: a file for each model, of a bounded size together."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from engine.device.backend import Backend
from engine.errors import BadFile
from engine.gguf import GGUFFile
from engine.kept import (
    free_on_disk,
    prepared_files,
    prepared_folder,
    remove_parts,
)
from engine.settings import PREPARED, EngineOptions
from engine.units import GB

MOST = 100 * GB
"""What the folder may hold where nobody says: this, or a quarter of what the disk has left."""
SPARE = GB
"""What stays free on the disk."""
WHOLE = ".weights"


def path_for(model: GGUFFile, options: EngineOptions, backends: Iterable[Backend]) -> Path | None:
    """The file for a model, as it is now, and for devices like these; None where none is wanted, or
    no device takes it. Raises `BadSetting`.
    """
    packing = next((backend.packing for backend in backends if backend.packing), "")
    if not (packing and limit(options)):
        return None
    facts = repr([identity[1:] for identity in model.identity])
    return prepared_folder() / f"{sha256(facts.encode()).hexdigest()[:32]}-{packing}{WHOLE}"


def limit(options: EngineOptions) -> int:
    """The most bytes of the folder, 0 where nothing is kept. Raises `BadSetting`."""
    wanted = options.prepared if options.prepared is not None else PREPARED.get()
    if wanted is not None:
        return wanted * GB
    folder = prepared_folder()
    kept = sum(one.size for one in prepared_files())
    return min(MOST, (free_on_disk(folder) + kept) // 4)


def make_room(path: Path, size: int, most: int) -> None:
    """Remove what was used longest ago until `size` bytes fit below `most`; first of all what
    stands in place of `path`, or is another packing's. Raises `BadFile` where they do not fit.
    """
    if size > most:
        raise BadFile(path, f"{size / GB:.1f} GB would pass the limit of {most / GB:.1f} GB")
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    remove_parts(folder)
    for one in folder.glob(f"{path.name.rpartition('-')[0]}-*{WHOLE}"):
        one.unlink(missing_ok=True)
    keep_within(most - size)
    free = free_on_disk(folder)
    if free < size + SPARE:
        left = f"the disk has {free / GB:.1f} GB left, they need {size / GB:.1f} GB"
        raise BadFile(path, left)


def keep_within(most: int) -> None:
    """Remove what was used longest ago, until the rest is no more than that."""
    kept = prepared_files()
    size = sum(one.size for one in kept)
    for one in kept:
        if size > most and one.path.suffix == WHOLE:
            one.path.unlink(missing_ok=True)
            size -= one.size
