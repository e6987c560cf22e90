"""Chats on disk: what is kept, found, deleted, and what becomes of a file that is broken."""

import os
import sqlite3
from pathlib import Path

import pytest

from app.state.presets import OwnSampling
from app.state.talk.disk import database
from app.state.talk.disk.database import MIGRATIONS, Database
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Message, Role
from app.state.talk.tokens import Tokens
from engine.protocol import Alternative, Stats, TokenInfo

STATS = Stats(10, 2, 3, 0.1, 0.2, 0.3, 0.4, 2**63 + 5, 13)


def say(
    store: ChatStore, chat: int, text: str, parent: Message | None = None, role: Role = "user"
) -> Message:
    message = Message(0, chat, parent.id if parent else None, role, text, 5.0, finish="stop")
    store.add(message)
    return message


def titles(store: ChatStore, query: str = "") -> list[str]:
    return [chat.title for chat in store.chats(query)]


def test_what_was_written_is_read_by_another(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "chats.sqlite"
    store = ChatStore(path)
    chat = store.create("A", "be kind", OwnSampling(temperature=0.1, seed=2**63))
    question = say(store, chat, "q")
    answer = say(store, chat, "", question, "assistant")
    answer.text, answer.finish, answer.stats, answer.n_tokens = "né 🦀\0", "stop", STATS, 3
    answer.model, answer.problem = "m", "p"
    store.save(answer)
    tokens = Tokens()
    tokens.append([TokenInfo(4, -1.0, "x", [Alternative(5, "y", -2.0)])], 1)
    store.save_tokens(answer, tokens)
    store.update(chat, model="m", draft="half a thou")
    store.close()

    store = ChatStore(path)
    assert oct(path.stat().st_mode)[-3:] == "600"
    (row,) = store.chats()
    assert row == store.chat(chat)
    assert (row.title, row.system, row.model, row.draft) == ("A", "be kind", "m", "half a thou")
    assert row.sampling == OwnSampling(temperature=0.1, seed=2**63)
    path_read = store.tree(chat).path()
    assert path_read == [question, answer]
    assert store.tokens(answer)[0] == tokens[0]
    assert len(store.tokens(question)) == 0
    assert store.chat(chat + 1) is None
    store.close()


def test_branches_are_remembered(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    chat = store.create()
    first, other = say(store, chat, "first"), say(store, chat, "other")
    a, b = say(store, chat, "a", first), say(store, chat, "b", first)
    store.choose(a)
    store.choose(first)
    store.close()
    store = ChatStore(tmp_path / "chats.sqlite")
    tree = store.tree(chat)
    assert [m.text for m in tree.path()] == ["first", "a"]
    store.choose(b)
    store.remove(a)
    assert [m.text for m in store.tree(chat).path()] == ["first", "b"]
    store.remove(first)
    assert [m.text for m in store.tree(chat).path()] == ["other"]
    assert set(store.tree(chat).messages) == {other.id}
    store.close()


def test_the_chat_changed_last_is_first(store: ChatStore) -> None:
    a, b = store.create("a"), store.create("b")
    assert titles(store) == ["b", "a"]
    store.update(a, model="m")
    assert titles(store) == ["a", "b"]
    store.update(b, touch=False, title="c")
    assert titles(store) == ["a", "c"]


@pytest.mark.parametrize("with_index", [True, False])
def test_search(tmp_path: Path, with_index: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_index:
        monkeypatch.setattr(database, "SEARCH", ("CREATE VIRTUAL TABLE search USING nothing()",))
    store = ChatStore(tmp_path / "chats.sqlite")
    sea, sky, other = store.create("The Sea"), store.create("Sky"), store.create("Other")
    say(store, sea, "Wie heißt die ÄLTESTE Schildkröte?\n" + "weit " * 50 + "unten: ahoy")
    late = say(store, sky, "", role="assistant")
    late.text, late.finish = '天空很蓝 says "ok" 100%_sure', "stop"
    store.save(late)
    say(store, other, "ok ahoy")
    for query, expected in (
        ("", {"The Sea", "Sky", "Other"}),
        ("sea", {"The Sea"}),
        ("älteste", {"The Sea"}),
        ("schild älte", {"The Sea"}),
        ("älteste nowhere", set()),
        ("天空", {"Sky"}),
        ("很", {"Sky"}),
        ("ok", {"Sky", "Other"}),
        ('"ok"', {"Sky"}),
        ("100%_", {"Sky"}),
        ("%", {"Sky"}),
        ("ahoy", {"The Sea", "Other"}),
        ("ahoy NOT ok", set()),
    ):
        assert set(titles(store, query)) == expected, query
    (found,) = [chat for chat in store.chats("ahoy") if chat.id == sea]
    assert "unten: ahoy" in found.snippet
    assert found.snippet.startswith("…")
    assert "\n" not in found.snippet
    late.text = "grey"
    store.save(late)
    assert titles(store, "天空") == []
    store.remove(late)
    assert titles(store, "grey") == []
    store.close()


def test_an_index_that_missed_something_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    say(store, store.create("a"), "hello there")
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM search")
    connection.close()
    store = ChatStore(path)
    assert titles(store, "hello") == ["a"]
    store.close()


def test_delete_undo_and_for_good(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    kept, gone = store.create("kept"), store.create("gone")
    say(store, gone, "a secret thing")
    store.delete(kept)
    store.delete(gone)
    assert (titles(store), titles(store, "secret"), store.chat(gone)) == ([], [], None)
    store.undelete(kept)
    assert titles(store) == ["kept"]
    store.close()
    store.close()
    with sqlite3.connect(path) as connection:
        for table in ("chats", "messages", "search"):
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            assert "secret" not in str(rows)
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    connection.close()
    assert b"a secret thing" not in path.read_bytes()


def test_a_corrupt_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    path.write_bytes(b"this is no database" * 1000)
    store = ChatStore(path)
    store.create("new")
    assert titles(store) == ["new"]
    (aside,) = tmp_path.glob("chats.sqlite.corrupt-*")
    assert aside.read_bytes().startswith(b"this is no database")
    assert str(aside) in store.notice
    assert "\n" not in store.notice
    store.close()
    store = ChatStore(path)
    assert (store.notice, titles(store)) == ("", ["new"])
    store.close()


def test_a_damaged_page_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    for n in range(50):
        say(store, store.create(f"chat {n}"), "text " * 300)
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(4, len(content) // 4096, 3):
        content[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(content)
    store = ChatStore(path)
    assert "could not be read" in store.notice
    assert titles(store) == []
    store.close()


def test_what_cannot_be_opened_is_not_touched(tmp_path: Path) -> None:
    newer = tmp_path / "newer.sqlite"
    Database(newer).close()
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = newer.read_bytes()
    (tmp_path / "file").write_text("")
    for path, reason in (
        (newer, "newer Cutaway"),
        (tmp_path / "file" / "chats.sqlite", "not saved"),
        (tmp_path, "not saved"),
    ):
        store = ChatStore(path)
        assert reason in store.notice
        assert "chats are not saved in this session" in store.notice
        store.create("works")
        assert titles(store) == ["works"]
        store.close()
    assert newer.read_bytes() == before
    assert [p.name for p in tmp_path.glob("*corrupt*")] == []


def test_an_older_format_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    store.create("old")
    store.close()
    monkeypatch.setattr(
        database, "MIGRATIONS", (*MIGRATIONS, ("ALTER TABLE chats ADD COLUMN colour TEXT",))
    )
    monkeypatch.setattr(database, "VERSION", len(MIGRATIONS) + 1)
    store = ChatStore(path)
    assert (titles(store), store.notice) == (["old"], "")
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
        assert connection.execute("SELECT colour FROM chats").fetchall() == [(None,)]
    connection.close()


def test_two_windows(tmp_path: Path) -> None:
    one, two = ChatStore(tmp_path / "chats.sqlite"), ChatStore(tmp_path / "chats.sqlite")
    version = two.version()
    chat = one.create("from one")
    assert two.version() != version
    question = say(two, chat, "question")
    say(one, chat, "a", question)
    say(two, chat, "b", question)
    assert len(one.tree(chat).messages) == 3
    assert titles(one, "question") == ["from one"]
    one.close()
    assert titles(two) == ["from one"]
    two.close()


def test_a_lock_held_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    store = ChatStore(tmp_path / "chats.sqlite")
    chat = store.create("a")
    other = sqlite3.connect(tmp_path / "chats.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program is writing"):
        store.update(chat, title="b")
    other.execute("COMMIT")
    other.close()
    assert titles(store) == ["a"]
    store.update(chat, title="b")
    assert titles(store) == ["b"]
    store.close()


def test_values_of_another_version_do_not_stop_reading(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    chat = store.create("a")
    message = say(store, chat, "x")
    with sqlite3.connect(tmp_path / "chats.sqlite") as connection:
        connection.execute('UPDATE chats SET sampling = \'{"temperature": "hot"}\'')
        connection.execute("UPDATE messages SET stats = '[1]'")
        connection.execute("INSERT INTO tokens VALUES (?, x'00')", (message.id,))
    connection.close()
    (row,) = store.chats()
    assert row.sampling == OwnSampling()
    with sqlite3.connect(tmp_path / "chats.sqlite") as connection:  # all fields, whoever set them
        whole = '{"temperature": 0.8, "top_k": 5, "min_p": 0.05, "seed": null}'
        connection.execute("UPDATE chats SET sampling = ?", (whole,))
    connection.close()
    assert store.chats()[0].sampling == OwnSampling(top_k=5)
    assert store.tree(chat).messages[message.id].stats is None
    assert len(store.tokens(message)) == 0
    store.close()


def test_thousands_of_messages_go_in_a_few_statements(tmp_path: Path) -> None:
    """Out of the search's index, which takes a while, when the store is closed. Until then they
    come back in as few.
    """
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    chat = store.create("A")
    first = say(store, chat, "kept")
    below: list[Message] = []
    for n in range(3000):
        below.append(Message(0, chat, None, "user", f"gone {n}", 5.0, finish="stop"))
    parents = [first, *below[:-1]]
    store.add_all([(m, parent, None) for m, parent in zip(below, parents, strict=True)])
    statements: list[str] = []
    store.db.connection.set_trace_callback(statements.append)
    hidden = store.remove(below[0])
    assert [m.text for m in store.tree(chat).path()] == ["kept"]
    store.restore(below[0], hidden, chosen=True)
    assert len(statements) < 40
    assert [m.id for m in store.tree(chat).path()] == [first.id, *(m.id for m in below)]
    assert titles(store, "gone") == ["A"]
    store.remove(below[0])
    store.db.connection.set_trace_callback(None)
    assert titles(store) == ["A"]
    assert titles(store, "gone") == []
    assert titles(store, "kept") == ["A"]
    assert [m.text for m in store.tree(chat).path()] == ["kept"]
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT text FROM messages").fetchall() == [("kept",)]
        assert connection.execute("SELECT text FROM search").fetchall() == [("kept",)]
        assert connection.execute("SELECT count(*) FROM chats").fetchone() == (1,)


def test_deleting_thousands_of_messages_is_as_much_work_for_each(tmp_path: Path) -> None:
    """SQLite's own steps, also where a statement is one: without an index they are the square."""

    def steps(count: int) -> int:
        store = ChatStore(tmp_path / f"{count}.sqlite")
        chat = store.create("A")
        below = [Message(0, chat, None, "user", str(n), 5.0) for n in range(count)]
        parents = [None, *below[:-1]]
        store.add_all([(m, parent, None) for m, parent in zip(below, parents, strict=True)])
        counted = 0

        def count_hundred() -> int:
            nonlocal counted
            counted += 1
            return 0

        store.db.connection.set_progress_handler(count_hundred, 100)
        store.remove(below[0])
        shown = counted
        store.close()  # deletes them for good
        assert counted > shown
        return counted

    assert steps(2000) < 5 * steps(500)


def test_what_is_gone_for_good_is_not_put_back(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    chat = store.create("A")
    first = say(store, chat, "kept")
    below = say(store, chat, "gone", first)
    hidden = store.remove(below)
    with sqlite3.connect(tmp_path / "chats.sqlite") as other:
        other.execute("DELETE FROM messages WHERE id = ?", (below.id,))
    other.close()
    with pytest.raises(StoreError, match="no longer in the file"):
        store.restore(below, hidden, chosen=True)
    assert [m.text for m in store.tree(chat).path()] == ["kept"]
    store.close()


def test_a_pipe_in_the_place_of_chats_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "chats.sqlite")
    store = ChatStore(tmp_path / "chats.sqlite")
    assert "it is not a file; `cutaway doctor --repair` sets it aside" in store.notice
    store.create("a chat that is not kept")
    store.close()
    assert (tmp_path / "chats.sqlite").is_fifo()
