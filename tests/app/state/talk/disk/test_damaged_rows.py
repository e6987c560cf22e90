"""Damage inside the chats' database: a row that cannot be read as it was hides no other."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.state.talk.disk.database import Database, StoreError
from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message
from app.widgets.numbers import local_time

CHATS, QUESTIONS = 5, 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Five chats of some messages each."""
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    for n in range(CHATS):
        chat = store.create(f"Chat number {n}", system="Be brief.")
        parent: int | None = None
        for at in range(QUESTIONS):
            for role in ("user", "assistant"):
                message = Message(0, chat, parent, role, f"{role} word {at} of {n}", 1.7e9)
                store.add(message)
                parent = message.id
    store.close()
    return path


@pytest.fixture
def rows(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def read_all(store: ChatStore) -> int:
    """Do all that the window does with the list; how many messages there are."""
    count = 0
    for query in ("", "word", "number"):
        for chat in store.chats(query):
            assert isinstance(chat.title, str)
            local_time(chat.changed)
            tree = store.tree(chat.id)
            for message in tree.path():
                store.tokens(message)
                count += 1
    return count


DAMAGES = {
    "a title that is not UTF-8": ("chats", "title", b"Chat \xff\xfe", "CAST(? AS TEXT)"),
    "a title as a blob": ("chats", "title", b"Chat \xff", "?"),
    "a sampling that is not UTF-8": ("chats", "sampling", b'{"own": \xff}', "CAST(? AS TEXT)"),
    "a sampling that is a number": ("chats", "sampling", 7, "?"),
    "a sampling that is a list": ("chats", "sampling", "[1, 2]", "?"),
    "a form as a blob": ("chats", "form", b"\xff", "?"),
    "a time that is text": ("chats", "changed", "yesterday", "?"),
    "a time beyond all calendars": ("chats", "changed", 1e300, "?"),
    "a head that is text": ("chats", "head", "first", "?"),
    "a text as a blob": ("messages", "text", b"word \xff", "?"),
    "a text that is not UTF-8": ("messages", "text", b"word \xff", "CAST(? AS TEXT)"),
    "a parent of its own": ("messages", "parent", None, "id"),
    "a younger parent": ("messages", "parent", None, "id + 1"),
    "a role of nobody": ("messages", "role", "ghost", "?"),
    "a number of tokens that is text": ("messages", "n_tokens", "many", "?"),
    "statistics as a blob": ("messages", "stats", b"\xff\x00", "?"),
    "a chosen answer that is text": ("messages", "chosen", "best", "?"),
}


@pytest.mark.parametrize(("table", "column", "value", "how"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_value_hides_no_other(
    path: Path, rows: sqlite3.Connection, table: str, column: str, value: object, how: str
) -> None:
    where = "id = 3" if table == "chats" else "id = 19"
    rows.execute("PRAGMA foreign_keys = OFF")
    given = () if value is None else (value,)
    rows.execute(f"UPDATE {table} SET {column} = {how} WHERE {where}", given)
    rows.close()
    with closing(ChatStore(path)) as store:
        assert store.notice == ""
        chats = store.chats()
        assert len(chats) == CHATS
        shown = column in ("title", "changed")
        assert [chat.id for chat in chats if chat.damaged] == [3] * shown
        read_all(store)
        store.add(Message(0, 3, None, "user", "and on", 1.7e9))
        store.delete(3)
        assert len(store.chats()) == CHATS - 1


@pytest.mark.parametrize("flips", [60, pytest.param(1200, marks=pytest.mark.full)])
def test_one_bit_anywhere(path: Path, tmp_path: Path, flips: int) -> None:
    """Whatever bit it is: the window starts, what cannot be read is said, and nothing is raised
    that no view expects.
    """
    whole, draw = path.read_bytes(), random.Random(1)
    readable = 0
    for flip in range(flips):
        data = bytearray(whole)
        at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(8)
        folder = tmp_path / str(flip)
        folder.mkdir()
        (folder / "chats.sqlite").write_bytes(data)
        with closing(ChatStore(folder / "chats.sqlite")) as store:
            try:
                count = read_all(store)
            except StoreError:
                continue
            readable += count > 0 or store.notice != ""
    assert readable >= flips * 0.97


@pytest.mark.parametrize("database", ["empty", "gone"])
def test_changes_without_their_database_are_set_aside(tmp_path: Path, database: str) -> None:
    path, wal = tmp_path / "chats.sqlite", tmp_path / "chats.sqlite-wal"
    if database == "empty":
        path.touch()
    wal.write_bytes(b"changes" * 100)
    with closing(ChatStore(path)) as store:
        assert "its last changes are kept in" in store.notice
        assert store.chats() == []
    (aside,) = tmp_path.glob("chats.sqlite-wal.left-*")
    assert aside.read_bytes() == b"changes" * 100


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
        other.commit()
    before = path.read_bytes()
    with closing(ChatStore(path)) as store:
        assert "another program" in store.notice
        store.create("kept in memory")
    assert path.read_bytes() == before


def test_a_full_disk_shows_the_chats(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their log of changes cannot be written: they are read as they are."""

    def full(self: Database, path: Path | str) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Database, "_open", full)
    with closing(ChatStore(path)) as store:
        assert "is full: chats can be read, but nothing is saved" in store.notice
        assert len(store.chats()) == CHATS
        assert read_all(store) > 0
        with pytest.raises(StoreError):
            store.create("one more")
    assert len(list(path.parent.glob("chats.sqlite*"))) == 1
