"""What a file of chats may hold that no window of ours has written."""

import sqlite3
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message
from app.views.talk.chats import ChatsView
from tests.app.helpers.gui import Talk


def test_times_that_no_calendar_holds(talk: Talk, tmp_path: Path, qapp: QApplication) -> None:
    store = ChatStore(tmp_path / "data" / "chats.sqlite")
    made = []
    for when in (1e308, 1e18, -1e18):
        chat = store.create(f"made at {when}")
        question = Message(0, chat, None, "user", "hello", when)
        store.add(question)
        store.add(Message(0, chat, question.id, "assistant", "hello", when, finish="stop"))
        made.append((when, chat))
    store.close()
    with sqlite3.connect(tmp_path / "data" / "chats.sqlite") as connection:
        connection.executemany("UPDATE chats SET created = ?1, changed = ?1 WHERE id = ?2", made)
    connection.close()
    talk.bench.chats.refresh()
    chats = ChatsView(talk.bench)
    chats.show()
    for _, chat in made:
        talk.bench.chat.open(chat)
        qapp.processEvents()
        assert not talk.grab().isNull()
        assert not chats.grab().isNull()
    chats.close()
    chats.deleteLater()
