"""Chats that are requests of programs: marked, and the oldest of them deleted by their number."""

from pathlib import Path

from app.state.talk.disk.exchange import duplicate_chat
from app.state.talk.disk.store import ChatStore


def test_the_oldest_go_and_a_persons_own_stay(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    own = store.create("mine")
    served = [store.create(f"theirs {n}", served="127.0.0.1 curl") for n in range(5)]
    copy = duplicate_chat(store, served[0])
    store.prune_served(2)
    left = {row.id: row.served for row in store.chats()}
    assert left == {own: "", copy: "", served[3]: "127.0.0.1 curl", served[4]: "127.0.0.1 curl"}
    store.close()
