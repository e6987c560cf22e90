"""The table of everything that the program keeps on the disk, and the search for damage in it.

A new kind of file gets a row in `TABLE`: its name, its folder and pattern, the module that owns it,
what its loss costs, and how damage is found: at a glance, and by reading a large file whole.
Caches are deleted, since they are made again; what a person wrote is renamed and never deleted, and
single rows of a database are restored in their place.
"""

import errno
import fnmatch
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from app.checks.row_sums import find_changed, restore_changed
from engine.errors import BadFile, CutawayError
from engine.gguf import open_gguf
from engine.kept import DIGEST, PART, is_sealed, prepared_folder, read_kept
from engine.prefixes import folder as prefixes
from engine.prefixes import problem_of
from engine.settings import cache_folder, log_folder, model_folders
from engine.units import MIB
from engine.weights.prepared.file import PIECE, PreparedFile

LARGEST = 256 << 20  # bytes of a file that is read whole
ASIDE = ".damaged-"
SHORTAGES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of this process, not of a file
FIRST = 4 << 20  # bytes of a large file that are looked at


@dataclass(frozen=True)
class Kind:
    """A kind of file. `pattern` is relative to `folder()`; `problem` says what is wrong with one,
    "" if nothing is, and `deep` the same of one that is read whole, as are its `parts`. `cache` is
    true of what is made again by itself.
    """

    name: str
    folder: Callable[[], Path]
    pattern: str
    owner: str
    loss: str
    problem: Callable[[Path], str]
    cache: bool = True
    deep: Callable[["Reading", Path], str] | None = None
    parts: "Parts | None" = None


class Parts(NamedTuple):
    """Damage of single parts of a file that is whole otherwise, mended within the file: `find` says
    what is damaged, "" if nothing is, and `mend` what was done.
    """

    find: Callable[[Path], str]
    mend: Callable[[Path], str]
    repair: str


@dataclass(frozen=True)
class Reading:
    """How files are read whole: `report` is called with a file's name, the bytes done and all of
    them; `sums` are the SHA-256 of model files, by name and size.
    """

    report: Callable[[str, int, int], object]
    sums: Mapping[tuple[str, int], str]


@dataclass(frozen=True)
class Damage:
    """A file that is not as it was written."""

    kind: Kind
    path: Path
    problem: str
    parts: Parts | None = None

    @property
    def is_deleted(self) -> bool:
        """True for a cache's file, but not for a folder in its place that holds something."""
        path = self.path
        is_full = path.is_dir() and not path.is_symlink() and any(path.iterdir())
        return self.kind.cache and not is_full

    @property
    def repair(self) -> str:
        """The repair that `mend` makes."""
        if self.parts is not None:
            return self.parts.repair
        if self.is_deleted:
            return f"delete it ({self.kind.loss})"
        return f"rename it to {self.path.name}{ASIDE}… ({self.kind.loss})"


def find_damage(reading: Reading | None = None) -> Iterator[Damage]:
    """All damaged files, in the order of the table; with `reading`, large ones are read whole.
    Nothing is changed.
    """
    for kind in TABLE:
        for path in _files(kind):
            problem = _problem(path, kind.problem)
            if not problem and reading is not None and kind.deep is not None:
                problem = _problem(path, partial(kind.deep, reading))
            if problem:
                yield Damage(kind, path, problem)
            elif reading is not None and kind.parts is not None:
                problem = _problem(path, kind.parts.find)
                if problem:
                    yield Damage(kind, path, problem, kind.parts)


def find_unfinished() -> Iterator[str]:
    """Yield a sentence for each file that a stopped program left. That is no damage: what began it
    goes on with it, or removes it.
    """
    for folder, pattern, following in UNFINISHED:
        for path in sorted(folder().glob(pattern)):
            with suppress(OSError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    yield f"{path}: {status.st_size / MIB:.1f} MiB of an unfinished {following}"


def mend(damage: Damage) -> str:
    """Delete a cache's file, or set what is not ours aside; a sentence of what was done. Raises
    CutawayError where that fails.
    """
    path = damage.path
    try:
        if damage.parts is not None:
            return damage.parts.mend(path)
        if damage.is_deleted:
            _delete(path)
            return f"deleted {path}"
        aside = path.with_name(f"{path.name}{ASIDE}{time.strftime('%Y%m%d-%H%M%S')}")
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            beside = path.with_name(path.name + ending)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + ending))
        return f"renamed {path} to {aside.name}"
    except OSError as error:
        raise CutawayError(f"{path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise CutawayError(f"{path}: {error}") from None


def kind_of(path: Path) -> Kind | None:
    """The row that a file belongs to; None where there is none."""
    for kind in TABLE:
        folder = kind.folder()
        if path.is_relative_to(folder) and path.relative_to(folder).match(kind.pattern):
            return kind
    return None


def _files(kind: Kind) -> Iterator[Path]:
    """Also links to nothing, which `glob` leaves out; not what was set aside."""
    within = kind.folder() / kind.pattern
    with suppress(OSError):
        names = fnmatch.filter(sorted(os.listdir(within.parent)), within.name)
        yield from (within.parent / name for name in names if ASIDE not in name)


def _problem(path: Path, check: Callable[[Path], str]) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) and not path.exists():
            return "a link to nothing"
        if not stat.S_ISREG(path.stat().st_mode):
            return "not a regular file"
        return check(path)
    except FileNotFoundError:  # it was there a moment ago
        return ""
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            return ""
        why = error.strerror if isinstance(error, OSError) else "a loop of links"
        return f"it cannot be read: {why}"


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def _content(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise OSError(None, f"larger than {LARGEST >> 20} MB", str(path))
    return read_kept(path)


def _json(path: Path) -> str:
    try:
        return "" if isinstance(json.loads(_content(path)), dict | list) else "it is not JSON"
    except (ValueError, RecursionError):
        return "it is not JSON"


def _sealed(path: Path) -> str:
    return "" if is_sealed(_content(path)) else "its checksum is wrong"


def _prepared(path: Path) -> str:
    """The list of its buffers has a checksum; their bytes are checked while a model is open."""
    if path.suffix == ".part":
        return ""  # being written, or left by a run that was stopped: the next one removes it
    with path.open("rb") as file:
        head = file.read(FIRST)
    if b"\n" not in head[:64]:
        return "it has no header"
    start = head.index(b"\n") + 1
    size = int.from_bytes(head[start : start + 4], "little")
    text = head[start + 4 + DIGEST : start + 4 + DIGEST + size]
    if len(text) < size or sha256(text).digest() != head[start + 4 : start + 4 + DIGEST]:
        return "the checksum of its list is wrong"
    ends = [entry["start"] + entry["size"] for entry in json.loads(text)]
    return "it was cut" if max(ends, default=0) > path.stat().st_size else ""


def _prepared_deep(reading: Reading, path: Path) -> str:
    """The sums of its buffers."""
    if path.suffix == PART:
        return ""
    try:
        file, done = PreparedFile(path, used=False), 0
        for entry in file.entries.values():
            for _ in file.check(entry):
                reading.report(path.name, done, path.stat().st_size)
                done += PIECE
    except BadFile as error:
        return error.problem
    return ""


def _prefix(path: Path) -> str:
    """The header has a checksum; rows are checked whenever they are read."""
    return "" if path.suffix == PART else problem_of(path)


def _prefix_deep(reading: Reading, path: Path) -> str:
    """The sums of its rows."""
    return "" if path.suffix == PART else problem_of(path, partial(reading.report, path.name))


def _model(path: Path) -> str:
    try:
        with open_gguf(path):
            return ""
    except BadFile as error:
        cause = error.__context__
        if isinstance(cause, OSError) and cause.errno in SHORTAGES:
            return ""
        return str(error).removeprefix(f"{path}: ")
    except CutawayError:  # of a kind that is not supported: not damage
        return ""


def _model_deep(reading: Reading, path: Path) -> str:
    """Its SHA-256, if it is a file of which that is known."""
    size, done, digest = path.stat().st_size, 0, sha256()
    known = reading.sums.get((path.name, size))
    if known is None:
        return ""
    with path.open("rb") as file:
        while piece := file.read(FIRST):
            digest.update(piece)
            done += len(piece)
            reading.report(path.name, done, size)
    return "" if digest.hexdigest() == known else f"its SHA-256 is not {known}"


def _picture(path: Path) -> str:
    digest = sha256(_content(path)).hexdigest()
    return "" if digest == path.name else "its bytes are not those that were stored"


def _chats(path: Path) -> str:
    return _checked(path, "quick_check(1)")


def _chats_deep(reading: Reading, path: Path) -> str:
    """Its pages and indexes."""
    reading.report(path.name, 0, path.stat().st_size)
    return _checked(path, "integrity_check(1)")


def _checked(path: Path, check: str) -> str:
    """The verdict of a check of SQLite's, "" if it finds nothing."""

    def verdict(path: Path) -> str:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=2)) as database:
            (found,) = database.execute(f"PRAGMA {check}").fetchone()
        return "" if found == "ok" else str(found)

    return _database_problem(path, verdict)


def _database_problem(path: Path, check: Callable[[Path], str]) -> str:
    """The verdict of a check of a database, which another process may be writing."""
    if path.stat().st_size == 0:
        return ""  # a new one
    try:
        return check(path)
    except sqlite3.OperationalError as error:
        return "" if "locked" in str(error) or "readonly" in str(error) else str(error)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)


def _fine(path: Path) -> str:
    return ""


def _data() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("cutaway", appauthor=False))


def _config() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("cutaway", appauthor=False))


def _hub() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _models() -> Path:
    return model_folders()[0]


TABLE = (
    Kind(
        *("chats", _data, "chats.sqlite", "app/state/talk/disk/database.py"),
        *("the chats are kept in that file; the list begins empty", _chats, False, _chats_deep),
        Parts(
            *(partial(_database_problem, check=find_changed), restore_changed),
            "restore each message that the index of search has; the rest stays as it is now",
        ),
    ),
    Kind(
        *("pictures of chats", _data, "pictures/*", "app/state/talk/disk/picture_files.py"),
        *("chats show its name without the picture", _picture, False),
    ),
    Kind(
        *("preferences", _config, "preferences.json", "app/state/preferences.py"),
        *("settings are the defaults again", _json, False),
    ),
    Kind(
        *("servers of tools", _config, "mcp.json", "app/tools/config.py"),
        *("they are offered again once they are imported", _json, False),
    ),
    Kind(
        *("permissions of tools", _config, "tools.json", "app/tools/consent.py"),
        *("each tool must be allowed again", _json, False),
    ),
    Kind(
        *("model files", _models, "*.gguf", "app/fetch/transfer.py"),
        *("cutaway get downloads it again", _model, False, _model_deep),
    ),
    Kind(
        *("vectors of documents", _data, "vectors/*.sealed", "app/state/talk/embedder.py"),
        *("they are computed again when parts are searched", _sealed),
    ),
    Kind(
        *("partial downloads", _models, "*.part", "app/storage.py"),
        *("the file is moved again", _fine),
    ),
    Kind(
        *("prepared weights", cache_folder, "prepared/*", "engine/weights/prepared"),
        *("the next load takes longer", _prepared, True, _prepared_deep),
    ),
    Kind(
        *("kept chats", cache_folder, "prefixes/*", "engine/prefixes.py"),
        *("the chat is read again when it continues", _prefix, True, _prefix_deep),
    ),
    Kind(
        *("built kernels", cache_folder, "programs/*.bin", "engine/backends/opencl/program.py"),
        *("the next load takes longer", _sealed),
    ),
    Kind(
        *("tuning", cache_folder, "tuning/*.json", "engine/backends/opencl/tuned.py"),
        *("cutaway tune measures again", _json),
    ),
    Kind(
        *("trials of devices", cache_folder, "trials/*.sealed"),
        *("engine/backends/opencl/drivers/trials.py", "they are made again", _sealed),
    ),
    Kind(
        *("measured speeds", cache_folder, "speed/*.sealed", "engine/runner/placing/speed.py"),
        *("they are measured again", _sealed),
    ),
    Kind(
        *("makers' sampling", _data, "generation_config/*.sealed", "app/defaults/places.py"),
        *("a model's sampling is the default; cutaway get writes it again", _sealed),
    ),
    Kind(
        *("headers of models", cache_folder, "headers.sealed", "app/headers.py"),
        *("they are read again", _sealed),
    ),
)
"""What is checked, in the order in which damage is listed."""

UNFINISHED = (
    (_models, ".*.partial/*.part", "download; cutaway get resumes it"),
    (_hub, "models--*/blobs/*.part", "download; cutaway get resumes it"),
    (_models, "*.part", "move of a model; the next one removes it"),
    (prepared_folder, "*.part", "file of prepared weights; the next model that opens removes it"),
    (prefixes, "*.part", "file of a kept chat; the next one that is written removes it"),
)
"""Where stopped programs leave files, and what happens to them."""

UNCHECKED = (
    (_data, "chats.sqlite-*", "SQLite's log of changes, checked with the chats"),
    (_data, "chats.sqlite.*", "chats that were set aside"),
    (_data, "pictures/*.damaged-*", "pictures that were set aside"),
    (_config, "preferences.json.*", "preferences that were set aside"),
    (_models, "*.damaged-*", "models that were set aside"),
    (_models, ".*.partial/*", "unfinished downloads; their hash is checked at the end"),
    (cache_folder, "heads/*", "headers from the network, checked when they are read"),
    (cache_folder, "locks/*", "empty files"),
    (cache_folder, "drivers/*", "caches of drivers"),
    (cache_folder, "pocl/*", "the cache of a driver"),
    (log_folder, "*", "logs"),
)
"""Files that need no check, and why."""


def is_known(path: Path) -> bool:
    """True if a file that the program wrote stands in one of the tables."""
    if kind_of(path) is not None:
        return True
    for folder, pattern, _ in UNCHECKED:
        if path.is_relative_to(folder()):
            first = Path(*path.relative_to(folder()).parts[: pattern.count("/") + 1])
            if first.match(pattern):
                return True
    return False
