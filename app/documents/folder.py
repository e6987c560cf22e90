"""A folder as one document: its tree first, then the text of its files."""

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from app.documents.document import BadDocument, Document, plain_name
from app.language import tr, tr_n
from engine.errors import Cancelled
from engine.kept import read_kept
from engine.units import MIB

LARGEST_FILE = MIB
MOST_FILES = 2000
MOST_BYTES = 32 * MIB
MOST_LISTED = 50_000  # entries looked at


def read_folder(folder: Path, stopped: Callable[[], bool]) -> Document:
    """Text files below it, but hidden ones and what `.gitignore` files name. Raises BadDocument
    where there are none, and Cancelled once `stopped`.
    """
    name = plain_name(folder.resolve().name)
    names: list[str] = []
    texts: list[str] = []
    skipped = size = 0
    for path in _files(folder, stopped):
        text = _text(path)
        if text is None or len(texts) == MOST_FILES or size + len(text) > MOST_BYTES:
            skipped += 1
            continue
        shown = "/".join(map(plain_name, path.relative_to(folder).parts))
        names.append(shown)
        texts.append(f"--- {shown} ---\n{text}")
        size += len(text)
    if not names:
        raise BadDocument(name, tr("this folder has no text files"))
    note = tr_n(
        "{n} file left out: binary or too large", "{n} files left out: binary or too large", skipped
    )
    whole = "\n".join(names) + "\n\n" + "\n\n".join(texts)
    return Document(name, "folder", whole, size, (note,) if skipped else ())


def _files(folder: Path, stopped: Callable[[], bool]) -> Iterator[Path]:
    """Regular files that are not ignored, by name; links are not followed."""
    looked = 0
    rules: dict[Path, list[str]] = {}
    for here, folders, files in os.walk(folder):
        at = Path(here)
        rules[at] = rules.get(at.parent, []) + _rules(at, folder)
        folders[:] = sorted(f for f in folders if not _is_ignored(at / f, folder, rules[at], True))
        for name in sorted(files):
            looked += 1
            if stopped():
                raise Cancelled("reading a folder")
            if looked > MOST_LISTED:
                return
            path = at / name
            is_plain = path.is_file() and not path.is_symlink()
            if is_plain and not _is_ignored(path, folder, rules[at], False):
                yield path


def _rules(at: Path, root: Path) -> list[str]:
    """The patterns of a folder's `.gitignore`, each from the root on."""
    try:
        text = read_kept(at / ".gitignore").decode("utf-8", "replace")
    except OSError:
        return []
    lines = text[: 1 << 16].splitlines()
    base = at.relative_to(root).as_posix()
    prefix = "" if base == "." else base + "/"
    found = []
    for line in lines:
        pattern = line.rstrip()
        if not pattern or pattern.startswith("#"):
            continue
        negated, pattern = pattern.startswith("!"), pattern.lstrip("!")
        anchored = "/" in pattern.rstrip("/")
        pattern = prefix + ("" if anchored else "**/") + pattern.lstrip("/")
        found.append(("!" if negated else "") + pattern)
    return found


def _is_ignored(path: Path, root: Path, rules: list[str], is_folder: bool) -> bool:
    if path.name.startswith("."):
        return True
    relative, ignored = path.relative_to(root).as_posix(), False
    for rule in rules:
        negated, pattern = rule.startswith("!"), rule.lstrip("!")
        if pattern.endswith("/") and not is_folder:
            continue
        if _matches(relative, pattern.rstrip("/")):
            ignored = not negated
    return ignored


def _matches(path: str, pattern: str) -> bool:
    """Git's patterns, part by part: `**` stands for any number of folders."""
    return _parts_match(PurePosixPath(path).parts, tuple(pattern.split("/")))


def _parts_match(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_parts_match(parts[n:], pattern[1:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], pattern[0]) and _parts_match(parts[1:], pattern[1:])


def _text(path: Path) -> str | None:
    """None for what is large or binary."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    if b"\0" in data:
        return None
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
