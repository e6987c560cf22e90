"""A chat that is deleted, or cannot be written, just when something is said in it."""

import sqlite3
from pathlib import Path

import pytest

from app.state.problem import Problem
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench
from tests.app.state.conftest import Until


@pytest.fixture
def asking(bench: Workbench, tmp_path: Path) -> Workbench:
    """A bench that takes questions: its model is on the way."""
    bench.open_model(tmp_path / "gone.gguf")
    assert bench.session.status == "loading"
    return bench


@pytest.mark.parametrize("for_good", [False, True])
def test_deleted_by_another_window(
    asking: Workbench, problems: list[Problem], tmp_path: Path, until: Until, for_good: bool
) -> None:
    chat = asking.chat
    assert chat.send("first")
    until(lambda: not chat.busy)
    first = chat.chat_id
    assert first is not None
    other = ChatStore(tmp_path / "data" / "chats.sqlite")
    other.delete(first)
    if for_good:
        other.close()
    asking.open_model(tmp_path / "gone.gguf")
    chat.details.set_draft("second")
    assert not chat.send("second")
    assert "deleted in another window; your message is kept" in problems[-1].text
    assert "constraint" not in problems[-1].text.lower()
    assert (chat.chat_id, chat.path, chat.details.draft) == (None, [], "second")
    assert chat.send("second")
    assert [message.text for message in chat.path] == ["second", ""]
    assert chat.details.draft == ""
    assert [row.title for row in asking.chats.rows] == ["second"]
    other.close()


def test_a_chat_that_is_gone_opens_as_a_new_one(asking: Workbench) -> None:
    chat = asking.chat
    chat.open(77)
    assert (chat.chat_id, chat.path) == (None, [])
    assert chat.send("hello")
    assert [row.title for row in asking.chats.rows] == ["hello"]


def test_a_chat_that_cannot_be_begun(
    asking: Workbench, problems: list[Problem], tmp_path: Path
) -> None:
    path, chat = tmp_path / "data" / "chats.sqlite", asking.chat
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER refused BEFORE INSERT ON messages"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    connection.close()
    assert not chat.send("hello")
    assert "make room" in problems[-1].text
    assert (chat.chat_id, chat.path, chat.details.draft, chat.busy) == (None, [], "hello", False)
    asking.chats.refresh()
    assert asking.chats.rows == []
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER refused")
    connection.close()
    assert chat.send("hello")
    assert [row.title for row in asking.chats.rows] == ["hello"]
