"""A chat that is deleted, or cannot be written, just when something is said in it."""

import sqlite3
from pathlib import Path

import pytest

from app.state.problem import Problem
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench
from tests.app.state.conftest import Until


def load(bench: Workbench, tmp_path: Path) -> None:
    """Let `bench` take questions until the next turn of the event loop: its model is on the way.

    Called by the test itself: events run between a fixture and its test, and this file is none.
    """
    bench.open_model(tmp_path / "gone.gguf")
    assert bench.session.status == "loading"


@pytest.mark.parametrize("for_good", [False, True])
def test_deleted_by_another_window(
    bench: Workbench, problems: list[Problem], tmp_path: Path, until: Until, for_good: bool
) -> None:
    chat = bench.chat
    load(bench, tmp_path)
    assert chat.send("first")
    until(lambda: not chat.busy)
    first = chat.chat_id
    assert first is not None
    other = ChatStore(tmp_path / "data" / "chats.sqlite")
    other.delete(first)
    if for_good:
        other.close()
    load(bench, tmp_path)
    chat.details.set_draft("second")
    assert not chat.send("second")
    assert "deleted in another window; your message is kept" in problems[-1].text
    assert "constraint" not in problems[-1].text.lower()
    assert (chat.chat_id, chat.path, chat.details.draft) == (None, [], "second")
    assert chat.send("second")
    assert [message.text for message in chat.path] == ["second", ""]
    assert chat.details.draft == ""
    assert [row.title for row in bench.chats.rows] == ["second"]
    other.close()


def test_a_chat_that_is_gone_opens_as_a_new_one(bench: Workbench, tmp_path: Path) -> None:
    chat = bench.chat
    load(bench, tmp_path)
    chat.open(77)
    assert (chat.chat_id, chat.path) == (None, [])
    assert chat.send("hello")
    assert [row.title for row in bench.chats.rows] == ["hello"]


def test_a_chat_that_cannot_be_begun(
    bench: Workbench, problems: list[Problem], tmp_path: Path
) -> None:
    path, chat = tmp_path / "data" / "chats.sqlite", bench.chat
    load(bench, tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER refused BEFORE INSERT ON messages"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    connection.close()
    assert not chat.send("hello")
    assert "make room" in problems[-1].text
    assert (chat.chat_id, chat.path, chat.details.draft, chat.busy) == (None, [], "hello", False)
    bench.chats.refresh()
    assert bench.chats.rows == []
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER refused")
    connection.close()
    assert chat.send("hello")
    assert [row.title for row in bench.chats.rows] == ["hello"]
