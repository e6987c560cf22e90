"""Kinds of kept files x damages x doors: a sample in the normal run, all under `full`."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.checks.kept import TABLE, Kind, is_known
from tests.damage.damages import DAMAGES, PAGE
from tests.damage.doors import DOORS
from tests.damage.home import Home, Seen, filled_home

SEED = 149
UNSUMMED = ("one bit", "noise", "zeros")
UNTOUCHED = ("absent", "unreadable", "read-only", "on a full disk")
KINDS = {kind.name: kind for kind in TABLE}

pytestmark = [pytest.mark.device, pytest.mark.timeout(1800)]


READERS = {
    "doctor": ("measured speeds", "permissions of tools", "kept chats", "vectors of documents"),
    "models": ("headers of models",),
    "run": ("model files", "prepared weights", "tuning", "trials of devices", "makers' sampling"),
    "serve": ("built kernels",),
    "window": (
        "chats",
        "pictures of chats",
        "preferences",
        "servers of tools",
        "partial downloads",
    ),
}
"""A door that reads each kind, which another may leave alone."""


def drawn() -> list[tuple[str, str, str]]:
    """Cells that have each damage once, and each kind behind a door that reads it."""
    damages = list(DAMAGES)
    random.Random(SEED).shuffle(damages)
    read = [(kind, door) for door, kinds in READERS.items() for kind in kinds]
    count = max(len(read), len(damages))
    return [(*read[n % len(read)], damages[n % len(damages)]) for n in range(count)]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with filled_home() as home:
        yield home


class Answers:
    """What doors say of a home that is whole, or lacks a file."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, bool], tuple[str, ...]] = {}

    def of(self, home: Home, kind: Kind, door: str, absent: bool) -> tuple[str, ...]:
        """The answer, which is found out once."""
        name = kind.name if absent or kind.name == "model files" else ""
        key = door, name, absent
        if key not in self._known:
            home.put_back()
            if absent:
                home.damage(kind, "absent")
            self._known[key] = home.open(door, kind).answer
        return self._known[key]


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers()


def problem_of(home: Home, answers: Answers, kind: Kind, damage: str, door: str) -> str:
    """What is wrong with a cell, "" where nothing is."""
    home.put_back()
    path = home.damage(kind, damage)
    left = path.read_bytes() if path.is_file() and damage not in UNTOUCHED else b""
    is_found = bool(left) and kind.problem(path) != ""  # else the program writes it as its own
    seen = home.open(door, kind, damage)
    if seen.late:
        return "it hangs"
    if "Traceback" in seen.said or "unexpected" in seen.said.lower():
        return f"it breaks: {seen.said[-1500:]}"
    if is_found and not kind.cache and not _is_there(home, path, left):
        return "what could be rescued is gone"
    if damage == "a folder" and not list(home.home.rglob("of somebody")):
        return "another's folder is gone"
    if kind.name == "model files" and damage in UNSUMMED:
        return ""  # a GGUF file has no checksum: other numbers make another answer
    return "" if _is_right(home, answers, kind, door, path, seen) else f"it says {seen}"


def _is_right(home: Home, answers: Answers, kind: Kind, door: str, path: Path, seen: Seen) -> bool:
    if path.name in seen.said or str(home.top) in seen.said:
        return True
    return any(seen.answer == answers.of(home, kind, door, absent) for absent in (False, True))


def _is_there(home: Home, path: Path, content: bytes) -> bool:
    """True if the bytes are in some file, or most of them where they were, as in a database."""
    files = [one for one in home.home.rglob("*") if one.is_file()]
    if any(one.stat().st_size == len(content) and one.read_bytes() == content for one in files):
        return True
    now = path.read_bytes() if path.is_file() else b""
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    same = sum(page == now[n * PAGE :][:PAGE] for n, page in enumerate(pages))
    return len(now) >= len(content) > PAGE and same > len(pages) // 2


def test_all_that_is_written_has_a_row(home: Home) -> None:
    """By every door, the window too."""
    home.put_back()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in home.variables.items():
            patch.setenv(name, value)
        written = [path for path in home.home.rglob("*") if path.is_file()]
        assert [str(path) for path in written if not is_known(path)] == []
        assert {kind.name for kind in TABLE if not home.has(kind)} == set()


def test_each_kind_has_a_reader() -> None:
    assert {kind for kinds in READERS.values() for kind in kinds} == set(KINDS)
    assert set(READERS) == set(DOORS)


@pytest.mark.parametrize(
    ("kind", "door", "damage"), [pytest.param(*cell, id="-".join(cell)) for cell in drawn()]
)
def test_drawn(home: Home, answers: Answers, kind: str, door: str, damage: str) -> None:
    assert problem_of(home, answers, KINDS[kind], damage, door) == ""


@pytest.mark.full
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_cell(home: Home, answers: Answers, kind: str, door: str) -> None:
    """And `doctor --repair --yes` mends what it names."""
    wrong = {}
    for damage in DAMAGES:
        problem = problem_of(home, answers, KINDS[kind], damage, door)
        if not problem and damage not in UNTOUCHED:
            home.open("mend")
            again = home.open("doctor")
            problem = "" if again.status == 0 else f"not mended: {again.said}"
        if problem:
            wrong[damage] = problem
    assert wrong == {}
