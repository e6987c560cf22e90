"""Answers on a disk that is full when they end, and has room later."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.state.problem import Problem
from app.state.talk.answering import AnswerSaver
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench
from tests.app.helpers.scripted import ScriptedEngine

REFUSED = """CREATE TRIGGER refused BEFORE UPDATE ON messages
    BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"""


class Window:
    """The state behind a window, of which the test says when seconds have gone by."""

    def __init__(self, folder: Path) -> None:
        self.engine = ScriptedEngine()
        self.bench = Workbench(self.engine, folder / "config", folder / "data")
        self.file = folder / "data" / "chats.sqlite"
        self.problems: list[Problem] = []
        self.engine.deliver = self.bench.client.drain
        self.bench.chat.problem.connect(self.problems.append)
        self.bench.open_model(folder / "model.gguf")
        self.engine.load_done()

    def is_full(self, full: bool) -> None:
        with sqlite3.connect(self.file) as connection:
            connection.execute(REFUSED if full else "DROP TRIGGER refused")
        connection.close()

    def later(self) -> None:
        self.bench.chat.findChild(AnswerSaver).save()

    @property
    def kept(self) -> list[tuple[str, str]]:
        store = ChatStore(self.file)
        chat = self.bench.chat.chat_id
        assert chat is not None
        found = [(m.text, m.finish) for m in store.tree(chat).path()]
        store.close()
        return found


@pytest.fixture
def window(qapp: object, tmp_path: Path) -> Iterator[Window]:
    made = Window(tmp_path)
    yield made
    made.bench.close()


def test_an_answer_is_saved_when_there_is_room_again(window: Window) -> None:
    chat, engine = window.bench.chat, window.engine
    assert chat.send("Where?")
    window.is_full(True)
    engine.write("In ", "the ", "haystack.")
    engine.end()
    assert "make room" in window.problems[-1].text
    assert "the answer is kept here, and saved as soon as that works" in window.problems[-1].text
    assert chat.writers.is_unsaved(chat.path[1])
    number = len(window.problems)
    window.later()
    assert window.kept[1] == ("", "")
    assert len(window.problems) == number  # it is said once
    first = chat.chat_id
    chat.open(None)
    chat.open(first)
    assert chat.path[1].text == "In the haystack."
    window.is_full(False)
    window.later()
    assert window.kept[1] == ("In the haystack.", "stop")
    assert not chat.writers.is_unsaved(chat.path[1])
    assert len(chat.tokens(1)) == 3


def test_closing_saves_it_too(window: Window) -> None:
    chat = window.bench.chat
    assert chat.send("Where?")
    window.is_full(True)
    window.engine.write("Here.")
    window.engine.end()
    window.is_full(False)
    chat.close()
    assert window.kept[1] == ("Here.", "stop")


def test_what_is_written_is_saved_where_the_engine_stalls(window: Window) -> None:
    """Not only when the next piece comes."""
    assert window.bench.chat.send("Where?")
    window.engine.write("In ", "the ")
    window.later()
    assert window.kept[1] == ("In the ", "")
