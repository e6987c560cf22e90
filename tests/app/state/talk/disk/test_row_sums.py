"""One changed bit in the chats' database: it is found, and the text of a message is restored."""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.checks import row_sums
from app.checks.kept import TABLE, Reading, find_damage, mend
from app.checks.row_sums import COLUMNS, find_changed, restore_changed
from app.documents.document import Document
from app.state.talk.disk import database
from app.state.talk.disk.database import Database
from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from engine.protocol import TokenInfo

LONG = "words of an answer " * 400
FLIPS = 150
READING = Reading(lambda *_: None, {})


@pytest.fixture
def path(own_home: Path) -> Path:
    """Three chats with a document, tokens, directions and a result, where the program has them."""
    path = TABLE[0].folder() / "chats.sqlite"
    store = ChatStore(path)
    for n in range(3):
        chat, parent = store.create(f"chat {n}", "be brief"), None
        for at in range(6):
            role: Any = "assistant" if at % 2 else "user"
            message = Message(0, chat, parent, role, f"{at} of {n}: {LONG}", 5.0, finish="stop")
            message.documents = (Document("a.txt", "text", f"document {n} {LONG}", 9),)
            store.add(message)
            store.save_tokens(message, Tokens([TokenInfo(1, "words", 0.5, [])]))
            parent = message.id
        store.update(chat, draft="half a thought", vectors={f"{n}": b"directions"})
    with store.db.transaction() as connection:
        connection.execute("INSERT INTO runs (made, model, title, data) VALUES (5, 'm', 'a', '{}')")
    store.db.close()
    return path


@pytest.fixture
def rows(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection, without triggers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def all_of(path: Path) -> list[object]:
    """What the window would show."""
    store = ChatStore(path)
    shown: list[object] = []
    for chat in store.chats():
        shown.append((chat.title, chat.system, chat.sampling, chat.draft))
        for message in store.tree(chat.id).path():
            texts = [document.text for document in message.documents]
            shown.append((message.id, message.role, message.text, message.finish, texts))
            shown.append(store.tokens(message).data())
    store.db.close()
    return shown


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def test_what_is_written_is_summed(path: Path) -> None:
    store = ChatStore(path)
    (chat, *others) = store.chats()
    first, *_, last = store.tree(chat.id).path()
    last.text, last.finish = "another text", "cancelled"
    store.save(last)
    store.update(chat.id, title="renamed", pinned=True, draft="")
    assert find_changed(path) == ""
    store.delete(others[0].id)
    hidden = store.remove(last)
    store.restore(last, hidden, chosen=True)
    store.remove(first)
    store.close()
    assert find_changed(path) == ""
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in COLUMNS.items():
            key = columns.split()[0]
            (summed,) = connection.execute(
                "SELECT count(*) FROM sums WHERE name = ?", (table,)
            ).fetchone()
            stray = f"SELECT count(*) FROM {table} WHERE {key} IS NOT NULL"
            assert connection.execute(stray).fetchone() == (summed,), table


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table, columns in COLUMNS.items() for column in columns.split()[1:]],
)
def test_each_column_is_summed(
    rows: sqlite3.Connection, path: Path, table: str, column: str
) -> None:
    key = COLUMNS[table].split()[0]
    (number,) = rows.execute(f"SELECT max({key}) FROM {table}").fetchone()
    rows.execute(f"UPDATE {table} SET {column} = '7f' WHERE {key} = ?", (number,))
    assert str(number) in find_changed(path)


def test_a_bit_of_a_text_is_restored(path: Path) -> None:
    before = all_of(path)
    flip(path, path.read_bytes().index(b"4 of 1: words") + 10, 2)
    assert all_of(path) != before
    assert list(find_damage()) == []  # at a glance
    (found,) = find_damage(READING)
    assert "message 11 of the chat 'chat 1'" in found.problem
    assert "restore" in found.repair
    assert "restored 1 of 1 changed rows" in mend(found)
    assert all_of(path) == before
    assert list(find_damage(READING)) == []


def test_what_cannot_be_restored_is_named_and_stays(rows: sqlite3.Connection, path: Path) -> None:
    rows.execute("UPDATE chats SET title = 'other' WHERE id = 2")
    rows.execute("UPDATE messages SET text = text || '?', role = 'assistant' WHERE id = 7")
    rows.execute("DELETE FROM search WHERE rowid = 9")
    rows.execute("UPDATE messages SET text = 'short' WHERE id = 9")
    before = all_of(path)
    said = restore_changed(path)
    assert "restored 0 of 3" in said
    assert "chat 2 of the chat 'other', message 7 of the chat 'other', message 9" in said
    assert all_of(path) == before
    assert find_changed(path) == ""


def test_a_bit_anywhere_is_found_or_changes_nothing(path: Path) -> None:
    """But in a time, or in pages that are free or of the search."""
    seed = os.environ.get("CUTAWAY_SEED") or str(random.randrange(1 << 32))
    print(f"CUTAWAY_SEED={seed}")
    draw, content, before = random.Random(seed), path.read_bytes(), all_of(path)
    found = 0
    for _ in range(FLIPS):
        path.write_bytes(content)
        at, bit = draw.randrange(len(content)), draw.randrange(8)
        flip(path, at, bit)
        if list(find_damage(READING)):
            found += 1
        else:
            assert all_of(path) == before, (at, bit)
        for beside in path.parent.glob("chats.sqlite?*"):
            beside.unlink()
    assert found > FLIPS // 10  # the others are in free bytes


def test_rows_of_an_older_cutaway_are_summed_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, older = tmp_path / "chats.sqlite", database.MIGRATIONS[:-1]
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", older)
        patch.setattr(database, "VERSION", len(older))
        patch.setattr(database, "COLUMNS", {})
        patch.setattr(row_sums, "COLUMNS", {})
        store = ChatStore(path)
        store.add(Message(0, store.create("old"), None, "user", "an old text", 5.0))
        store.close()
    assert find_changed(path) == ""  # it has no sums
    with monkeypatch.context() as patch:  # the disk is full meanwhile
        patch.setattr(database, "sum_all", lambda connection: connection.execute("SELECT nothing"))
        with pytest.raises(sqlite3.OperationalError):
            Database(path)
    Database(path).close()
    assert find_changed(path) == ""
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.execute("UPDATE messages SET text = 'an odd text'")
    assert "message 1 of the chat 'old'" in find_changed(path)
