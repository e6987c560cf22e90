"""Chats on disk when something fails: between two writes, by another window, by a kill."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.state.talk.disk import database
from app.state.talk.disk.database import Database
from app.state.talk.disk.store import ChatGone, ChatStore, StoreError
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from tests.app.state.talk.disk.test_store import say, titles


def chain(store: ChatStore, chat: int, n: int) -> list[Message]:
    """Messages each of which answers the one before."""
    messages = [Message(0, chat, None, "user", f"message {i}", 1.0) for i in range(n)]
    store.add_all([(m, messages[i - 1] if i else None, None) for i, m in enumerate(messages)])
    return messages


def test_a_long_chat_can_be_deleted(tmp_path: Path) -> None:
    """SQLite itself follows 1,000 messages from parent to child, and refuses a longer chat."""
    store = ChatStore(tmp_path / "chats.sqlite")
    chat, other = store.create("long"), store.create("other")
    messages = chain(store, chat, 1200)
    beside = say(store, chat, "another answer", messages[9])
    assert len(store.tree(chat).messages) == 1201
    store.remove(messages[10], beside)
    assert [m.text for m in store.tree(chat).path()][-2:] == ["message 9", "another answer"]
    assert store.chats("1199") == []
    chain(store, chat, 1200)
    store.delete(chat)
    store.close()
    store = ChatStore(tmp_path / "chats.sqlite")
    assert [row.id for row in store.chats()] == [other]
    assert store.db.read("SELECT count(*) FROM messages")[0][0] == 0
    store.close()


def test_a_locked_file_does_not_keep_the_window_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due to be deleted for good goes another time."""
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    kept, old = store.create("kept"), store.create("old")
    say(store, old, "text")
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("UPDATE chats SET deleted = 1.0 WHERE id = ?", (old,))
    other.execute("BEGIN IMMEDIATE")
    store = ChatStore(path)
    assert ([row.id for row in store.chats()], store.notice) == ([kept], "")
    with pytest.raises(StoreError):
        store.delete(kept)
    store.close()
    other.execute("ROLLBACK")
    ChatStore(path).close()
    assert other.execute("SELECT id FROM chats").fetchall() == [(kept,)]
    other.close()


def refuse(path: Path, change: str) -> None:
    """From now on the file refuses a kind of change: a disk that fails between two writes."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"CREATE TRIGGER refused BEFORE {change} BEGIN SELECT RAISE(ABORT, 'broken'); END"
        )
    connection.close()


def allow(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER refused")
    connection.close()


def test_what_belongs_together_is_written_together(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    chat = store.create("a")
    question = say(store, chat, "q")
    answers = [say(store, chat, text, question, "assistant") for text in ("one", "two")]
    before = store.tree(chat).path(), store.chats()
    new = Message(0, chat, answers[1].id, "user", "new")
    for change, act in (
        ("UPDATE OF chosen ON messages", lambda: store.add(new)),
        ("UPDATE OF changed ON chats", lambda: store.add(new)),
        ("UPDATE OF chosen ON messages", lambda: store.remove(answers[1], answers[0])),
        ("INSERT ON tokens", lambda: store.finish(answers[1], Tokens())),
        ("UPDATE OF model ON chats", lambda: store.finish(answers[1], Tokens())),
    ):
        answers[1].text = "half an answer"
        refuse(path, change)
        with pytest.raises(StoreError, match="broken"):
            act()
        allow(path)
        assert (store.tree(chat).path(), store.chats()) == before, change
        assert new.id == 0
    with pytest.raises(StoreError), store.together():
        say(store, store.create("not saved"), "\ud800")
    assert titles(store) == ["a"]
    store.finish(answers[1], Tokens())
    assert store.tree(chat).path()[1].text == "half an answer"
    store.close()


def test_a_commit_that_fails_ends_its_transaction(tmp_path: Path) -> None:
    """Else no other could ever begin."""

    class Failing:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection

        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
            if statement == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return self.connection.execute(statement, *values)

        def __getattr__(self, name: str) -> object:
            return getattr(self.connection, name)

    db = Database(tmp_path / "chats.sqlite")
    connection = db.connection
    db.connection = Failing(connection)  # type: ignore[assignment]
    with pytest.raises(StoreError, match="make room"), db.transaction() as inside:
        inside.execute("DELETE FROM chats")
    db.connection = connection
    with db.transaction() as inside:
        inside.execute("DELETE FROM chats")
    db.close()


def test_what_no_database_holds_is_an_error_of_ours(store: ChatStore) -> None:
    chat = store.create("a")
    for text, created in (("\ud800", 1.0), ("x", 1 << 70)):
        with pytest.raises(StoreError):
            store.add(Message(0, chat, None, "user", text, created))
    assert store.tree(chat).path() == []
    store.update(chat, title="works")
    assert titles(store) == ["works"]


def test_a_chat_that_another_window_deleted(tmp_path: Path) -> None:
    one, two = ChatStore(tmp_path / "chats.sqlite"), ChatStore(tmp_path / "chats.sqlite")
    chat = one.create("a")
    question = say(one, chat, "q")
    answer = say(one, chat, "half", question, "assistant")
    two.delete(chat)
    for _ in ("deleted", "gone for good"):
        with pytest.raises(ChatGone, match="deleted in another window"):
            say(one, chat, "more", answer)
        one.finish(answer, Tokens())
        one.update(chat, draft="x")
        two.close()
    one.close()


def test_long_messages_are_found_beyond_what_the_index_takes(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    far = "x " * database.INDEXED + "needle"
    say(store, store.create("a"), far)
    say(store, store.create("b"), "a needle")
    late = say(store, store.create("c"), "", role="assistant")
    late.text, late.finish = far, "length"
    store.save(late)
    assert titles(store, "needle") == ["c", "b", "a"]
    assert titles(store, "nowhere") == []
    ((size,),) = store.db.read("SELECT max(length(text)) FROM search")
    assert size == database.INDEXED  # so that a write takes no longer than that
    store.close()


KILLED = """
import sys
from pathlib import Path
from app.state.talk.disk.exchange import import_chat
from app.state.talk.disk.store import ChatStore
store = ChatStore(Path(sys.argv[1]))
print("begins", flush=True)
while True:
    with store.elsewhere() as other:
        import_chat(other, Path(sys.argv[2]))
"""


@pytest.mark.parametrize("n", [2, pytest.param(150, marks=pytest.mark.full)])
def test_killed_while_chats_are_imported(tmp_path: Path, n: int) -> None:
    path, file = tmp_path / "chats.sqlite", tmp_path / "chat.json"
    messages = [{"role": "user", "text": "x", "parent": i - 1 if i else None} for i in range(350)]
    file.write_text(
        json.dumps({"format": "cutaway-chat", "version": 1, "title": "all", "messages": messages})
    )
    draw = random.Random(n)
    for _ in range(n):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(file)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"begins\n"
        time.sleep(draw.random() * 0.2)
        child.kill()
        child.wait()
        child.stdout.close()
        store = ChatStore(path)
        assert store.notice == ""
        for row in store.chats():
            assert (row.title, len(store.tree(row.id).path())) == ("all", 350)
            store.delete(row.id)
        store.close()
