"""`cutaway doctor --repair`: each kind of kept file, damaged in each way, is found and mended."""

import ast
import errno
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace as replace_fields
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from app.checks.kept import TABLE, UNCHECKED, Kind, Reading, find_damage, is_known, kind_of
from app.cli import main
from app.fetch.known import KNOWN, SMOLLM2
from app.state.talk.disk.store import ChatStore
from engine import prefixes
from engine.kept import seal
from engine.settings import cache_folder, model_folders
from engine.weights.prepared.file import PIECE, START, Entry, add_piece, ends_of, head_of
from tests.goldens.tiny import write_tiny
from tests.parsed import nodes
from tests.program import ROOT, run

LONG = json.dumps({"version": 2} | {f"name {n}": n for n in range(200)})
PICTURE = os.urandom(9000)
SEALED = seal(b"Cutaway1\n", os.urandom(9000))


def chats(path: Path) -> None:
    store = ChatStore(path)
    for n in range(40):
        store.create(f"chat {n} " + "words " * 300)
    store.close()


def prepared(path: Path) -> None:
    data = np.frombuffer(os.urandom(3 << 20), np.uint8)
    total = add_piece(add_piece(0, data[:PIECE]), data[PIECE:])
    head = head_of([Entry("a", START, data.size, ends_of(data), total)])
    path.write_bytes(head.ljust(START, b"\0") + data.tobytes())


def kept_chat(path: Path) -> None:
    head = prefixes.Head([7] * 300, [prefixes.Part("cache_k_l0", 0, 8000)])
    prefixes.write(path, prefixes.Saved(head, memoryview(bytes(8192))), 1 << 30)


MADE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "chats": ("chats.sqlite", chats),
    "pictures of chats": (sha256(PICTURE).hexdigest(), lambda path: path.write_bytes(PICTURE)),
    "preferences": (
        "preferences.json",
        lambda path: path.write_text(LONG),
    ),
    "model files": ("tiny.gguf", lambda path: write_tiny(path, "llama")),
    "partial downloads": ("a.gguf.part", lambda path: path.write_bytes(b"part")),
    "prepared weights": ("tiny-1.weights", prepared),
    "kept chats": ("0f.kv", kept_chat),
    "servers of tools": ("mcp.json", lambda path: path.write_text(LONG)),
    "permissions of tools": ("tools.json", lambda path: path.write_text(LONG)),
    "makers' sampling": ("0f.sealed", lambda path: path.write_bytes(SEALED)),
    "built kernels": ("0f.bin", lambda path: path.write_bytes(SEALED)),
    "tuning": ("intel-a-cpu.json", lambda path: path.write_text(json.dumps({"values": {}}))),
    "trials of devices": ("0f.sealed", lambda path: path.write_bytes(SEALED)),
    "measured speeds": ("0f.sealed", lambda path: path.write_bytes(SEALED)),
    "vectors of documents": ("0f.sealed", lambda path: path.write_bytes(SEALED)),
    "headers of models": ("headers.sealed", lambda path: path.write_bytes(SEALED)),
}


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def change(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut at the start": lambda path: path.write_bytes(path.read_bytes()[:10]),
    "noise at the start": lambda path: change(path, 0, b"\xc1\xff" * 600),
    "zeros at the start": lambda path: change(path, 0, bytes(1200)),
    "of another kind": lambda path: path.write_bytes(b"\xffsomething else\n" * 40),
    "a folder": lambda path: replace(path, Path.mkdir),
    "a pipe": lambda path: replace(path, os.mkfifo),
    "a link to nothing": lambda path: replace(path, lambda p: p.symlink_to("/nowhere/at/all")),
    "a loop": lambda path: replace(path, lambda p: p.symlink_to(p)),
}


def place(kind: Kind) -> Path:
    name, make = MADE[kind.name]
    path = kind.folder() / Path(kind.pattern).with_name(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    return path


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_a_whole_file_is_not_damaged(kind: Kind, own_home: Path) -> None:
    path = place(kind)
    assert kind_of(path) == kind
    assert list(find_damage()) == []
    assert kind.loss
    assert (Path(__file__).parents[3] / kind.owner).exists()


@pytest.mark.each_value
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_damage_is_found_and_mended(
    kind: Kind, damage: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place(kind)
    DAMAGES[damage](path)
    if kind.name == "partial downloads" and path.is_file():
        return  # a part is whatever has arrived; its hash is checked at the end
    before = path.read_bytes() if path.is_file() else b""
    (found,) = find_damage()
    assert (found.kind, found.path) == (kind, path)
    assert main(["doctor", "--repair", "--yes"]) == 0
    said = capsys.readouterr().out
    assert str(path) in said
    assert found.problem in said
    assert list(find_damage()) == []
    if not kind.cache:
        (aside,) = path.parent.glob(f"{path.name}.damaged-*")
        assert not aside.is_file() or aside.read_bytes() == before
    assert main(["doctor", "--repair"]) == 0
    assert "no file of Cutaway's is damaged" in capsys.readouterr().out


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE])
def test_what_this_process_lacks_is_no_damage(
    number: int, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little memory made whole models "damaged", and offered to rename them."""
    for kind in TABLE:
        place(kind)

    def refused(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("engine.kept.open_to_read", refused)
    monkeypatch.setattr("engine.gguf.splits.mmap.mmap", refused)
    assert list(find_damage()) == []


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_a_folder_that_holds_something_is_set_aside(kind: Kind, own_home: Path) -> None:
    path = place(kind)
    replace(path, Path.mkdir)
    (path / "mine").write_text("a file of somebody")
    assert main(["doctor", "--repair", "--yes"]) == 0
    assert list(find_damage()) == []
    (mine,) = path.parent.glob(f"{path.name}.damaged-*/mine")
    assert mine.read_text() == "a file of somebody"


def test_nothing_is_mended_without_consent(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place(TABLE[2])
    path.write_text("{")
    assert main(["doctor", "--repair"]) == 1
    assert "1 left as they are" in capsys.readouterr().out
    assert path.read_text() == "{"
    assert main(["doctor", "--repair", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["damaged"][0]["kind"] == "preferences"
    assert told["done"] == []
    assert path.read_text() == "{"


def test_what_a_kill_leaves_is_named_and_stays(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(own_home / "hub"))
    weights, models = cache_folder() / "prepared", model_folders()[0]
    parts = [
        models / ".smollm2-135m.partial" / "wheel-0f.whl.part",
        own_home / "hub" / "models--a--b" / "blobs" / "0f.part",
        models / "moved.gguf.part",
        weights / "0f-auto-1.weights.part",
    ]
    for part in parts:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"part")
    assert main(["doctor", "--repair", "--yes"]) == 0
    said = capsys.readouterr().out
    assert all(str(part) in said and part.exists() for part in parts)
    assert said.count("unfinished") == 4
    assert main(["doctor", "--repair", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["unfinished"]) == 4


NO_CHECKSUM = ("partial downloads",)  # that of the whole file is compared when it is there


@pytest.mark.parametrize(
    "kind", [kind for kind in TABLE if kind.name not in NO_CHECKSUM], ids=lambda kind: kind.name
)
def test_one_bit_is_listed(
    kind: Kind, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle of a file with a checksum, which is read whole; in JSON, where it begins; in a
    word of a chat.
    """
    path = place(kind)
    content = path.read_bytes()
    if kind.name == "model files":  # as one of those that `cutaway get` knows
        digest = sha256(content).hexdigest()
        model = replace_fields(SMOLLM2, file_name=path.name, size=len(content), sha256=digest)
        monkeypatch.setitem(KNOWN, "tiny", model)
    used = path.stat().st_mtime_ns
    assert main(["doctor", "--repair"]) == 0
    assert path.stat().st_mtime_ns == used
    at = 0 if path.suffix == ".json" else len(content) // 2
    at = content.index(b"words") if kind.name == "chats" else at
    change(path, at, bytes([content[at] ^ 4]))
    assert main(["doctor", "--repair"]) == 1
    assert str(path) in capsys.readouterr().out


def test_an_index_of_the_chats_is_compared_with_its_rows(own_home: Path) -> None:
    path = place(TABLE[0])
    name = "messages_by_chat"
    with sqlite3.connect(path) as database:
        (row,) = database.execute("SELECT * FROM sqlite_master WHERE name = ?", (name,)).fetchall()
        database.execute("PRAGMA writable_schema = ON")
        database.execute("DELETE FROM sqlite_master WHERE name = ?", (name,))
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO messages SELECT 1,1,NULL,'user','a',1,'','','',NULL,0,NULL,'','',''"
        )
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("INSERT INTO sqlite_master VALUES (?,?,?,?,?)", row)
    assert list(find_damage()) == []
    (found,) = find_damage(Reading(lambda *_: None, {}))
    assert name in found.problem
    assert found.parts is None  # the file is set aside


def test_pages_inside_the_chats_are_checked(own_home: Path) -> None:
    path = place(TABLE[0])
    change(path, path.stat().st_size // 2, os.urandom(8192))
    (found,) = find_damage()
    assert found.kind.name == "chats"


def test_open_chats_are_not_in_the_way(own_home: Path) -> None:
    path = place(TABLE[0])
    with sqlite3.connect(path) as busy:
        busy.execute("BEGIN EXCLUSIVE")
        assert list(find_damage()) == []
        busy.rollback()


@pytest.mark.parametrize(
    "device",
    [("--device", "host"), pytest.param((), marks=[pytest.mark.device, pytest.mark.full])],
    ids=["host", "kernels"],
)
def test_all_that_is_written_stands_in_a_table(
    own_home: Path, tiny_path: Path, device: tuple[str, ...]
) -> None:
    """A new kind of kept file needs a row."""
    ended = run("run", str(tiny_path), "-p", "hi", "--max-tokens", "2", *device)
    assert ended.returncode == 0, ended.stderr
    run("models")
    written = [path for path in cache_folder().rglob("*") if path.is_file()]
    assert written
    assert [str(path) for path in written if not is_known(path)] == []
    assert all(reason for _, _, reason in UNCHECKED)


WRITE = re.compile(
    "write_atomically|write_named|output|new_beside|open_new|tempfile[.]mkd?s?temp"
    "|shutil[.]copy(file)?|sqlite3[.]connect|.*[.]write_(text|bytes)"
)
MAY_WRITE = re.compile(r"open\(|_open|write_|\.mk|shutil|sqlite3|output\(|new_beside")
MODE = re.compile("[wax]b?[+]?|r?b?[+]b?")
NO_KEPT_FILE = {
    "app/checks/kept.py": "chats, which are opened to be read",
    "app/checks/row_sums.py": "chats, whose damaged rows are mended",
    "app/cli.py": "its log of errors",
    "app/commands/bench.py": "a file that a person named",
    "app/commands/embed.py": "a file that a person named",
    "app/commands/install_desktop.py": "the menu of the desktop",
    "app/commands/patch.py": "a file that a person named",
    "app/commands/perplexity.py": "a file that a person named",
    "app/commands/report.py": "a file that a person named",
    "app/fetch/heads.py": "headers from the network",
    "app/fetch/index.py": "unfinished downloads",
    "app/fetch/ranges.py": "unfinished downloads",
    "app/files.py": "the ways of writing",
    "app/state/report.py": "a file that a person named",
    "app/state/talk/disk/exchange.py": "a file that a person named",
    "app/state/talk/disk/packed_pictures.py": "beside a file that a person named",
    "app/state/tensors/saving.py": "a file that a person named",
    "app/terminal/dumped.py": "a file that a person named",
    "app/report/first_run.py": "a folder that a person named",
    "app/views/graph/graph.py": "a file that a person named",
    "app/views/profile/profile.py": "a file that a person named",
    "app/views/talk/pictures/viewer.py": "a file that a person named",
    "app/window/reporting.py": "a file that a person named",
    "engine/backends/opencl/drivers/loader.py": "a folder for the length of a call",
    "engine/backends/opencl/drivers/vectors.py": "drivers with narrower functions",
    "engine/kept.py": "the ways of writing",
    "engine/laboratory/record.py": "a folder that a person named",
    "engine/runner/programs.py": "the folder of a first run",
    "engine/tuner/__main__.py": "tuning, which opencl/tuned.py owns",
}
"""Modules that write files, but none that needs a row in the table, and why."""


def writes(module: Path) -> Iterator[int]:
    """The lines of a module where it opens a file to write it."""
    text = module.read_text("utf-8")
    for node in nodes(ast.parse(text)) if MAY_WRITE.search(text) else ():
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        words = [a.value for a in (*node.args, *(k.value for k in node.keywords)) if is_text(a)]
        opens = re.fullmatch("(.*[.])?open", name) and any(map(MODE.fullmatch, words))
        if opens or WRITE.fullmatch(name):
            yield node.lineno


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def test_a_module_that_writes_a_file_owns_a_kind() -> None:
    """What is not written by the doors of tests/damage would be missed there."""
    modules = [path for top in ("app", "engine") for path in (ROOT / top).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): list(writes(path)) for path in modules}
    owners = [kind.owner for kind in TABLE]
    wrote = {name for name, lines in found.items() if lines}
    rows = {name for name in wrote if any(name.startswith(owner) for owner in owners)}
    assert wrote - rows - set(NO_KEPT_FILE) == set(), "needs a row in app/checks/kept.py"
    assert set(NO_KEPT_FILE) - wrote == set()
