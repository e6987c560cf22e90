"""Pictures on disk: kept once, as long as a chat uses them, whatever fails in between."""

import os
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.checks import row_sums
from app.state.talk.disk import database, picture_files
from app.state.talk.disk import store as store_module
from app.state.talk.disk.database import StoreError
from app.state.talk.disk.exchange import BadChatFile, duplicate_chat, export_chat, import_chat
from app.state.talk.disk.picture_files import PictureError, PictureFiles, read_picture
from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message, Picture
from app.state.talk.thread import Thread, put_back, take_out
from engine.errors import Cancelled
from engine.protocol import PictureLimits, Sampling
from tests.app.state.talk.disk.test_store_failures import allow, refuse

CAT, DOG = b"\x89PNG cat" * 50_000, b"GIF89a dog"


def kept(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in (folder / "pictures").iterdir()}


def ask(store: ChatStore, *data: bytes, text: str = "what is it?") -> tuple[Thread, Message]:
    """A new chat whose first question has these pictures."""
    for number, one in enumerate(data):
        store.pictures.add_to_draft(None, one, f"{number}.png")
    thread = Thread(store)
    question = thread.begin(text, "", Sampling(), None, store.pictures.of_draft(None))
    thread.follow()
    return thread, question


def test_what_was_sent_is_read_by_another(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    for name, data in (("a.png", CAT), ("b.gif", DOG), ("again.png", CAT)):
        store.pictures.add_to_draft(None, data, name)
    draft = store.pictures.of_draft(None)
    assert [picture.name for picture in draft] == ["a.png", "b.gif", "again.png"]
    few, one = PictureLimits(256), PictureLimits(one_view=True)
    order = (replace(draft[2], limits=few), draft[0], replace(draft[1], limits=one))
    store.pictures.set_draft(None, order)
    store.close()
    store = ChatStore(tmp_path / "chats.sqlite")
    assert store.pictures.of_draft(None) == order
    _, question = ask(store)
    chat = question.chat
    assert store.pictures.of_draft(None) == ()
    store.close()
    store = ChatStore(tmp_path / "chats.sqlite")
    (message,) = store.tree(chat).path()
    assert message.pictures == order
    files = store.pictures.files
    assert [files.read(p.hash, p.name) for p in message.pictures] == [CAT, CAT, DOG]
    assert len(list(files.folder.iterdir())) == 2
    assert {oct(path.stat().st_mode)[-3:] for path in files.folder.iterdir()} == {"600"}
    store.close()


def test_a_picture_goes_with_the_last_chat_that_uses_it(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    _, one = ask(store, CAT, DOG)
    _, two = ask(store, CAT)
    store.delete(one.chat)
    assert kept(tmp_path) == {CAT, DOG}  # it may be brought back
    store.close()
    assert kept(tmp_path) == {CAT}
    store = ChatStore(tmp_path / "chats.sqlite")
    store.delete(two.chat)
    store.undelete(two.chat)
    store.close()
    assert kept(tmp_path) == {CAT}
    store = ChatStore(tmp_path / "chats.sqlite")
    store.delete(two.chat)
    store.close()
    assert kept(tmp_path) == set()


def test_removed_from_the_draft_or_with_its_message(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    store.pictures.add_to_draft(None, DOG, "dog.gif")
    store.pictures.set_draft(None, ())
    thread, question = ask(store, CAT)
    gone = take_out(store, thread.tree, question)
    put_back(store, thread.tree, gone)
    assert [m.pictures for m in store.tree(question.chat).path()] == [question.pictures]
    store.close()
    assert kept(tmp_path) == {CAT}
    store = ChatStore(tmp_path / "chats.sqlite")
    tree = store.tree(question.chat)
    take_out(store, tree, tree.path()[0])
    store.close()
    assert kept(tmp_path) == set()


def test_another_window_ends_while_a_message_may_be_put_back(tmp_path: Path) -> None:
    """Neither its end nor the start of a third one takes the picture away."""
    store = ChatStore(tmp_path / "chats.sqlite")
    thread, question = ask(store, CAT)
    path = store.pictures.files.path(question.pictures[0].hash)
    os.utime(path, (1.0, 1.0))  # it lay there for years
    other = ChatStore(tmp_path / "chats.sqlite")
    gone = take_out(store, thread.tree, question)
    other.close()
    ChatStore(tmp_path / "chats.sqlite").close()
    put_back(store, thread.tree, gone)
    store.close()
    assert kept(tmp_path) == {CAT}


def test_nothing_is_half_sent(tmp_path: Path) -> None:
    """A disk that fails at any of the writes of a question leaves the draft as it was."""
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    thread, first = ask(store, CAT)
    picture = store.pictures.add_to_draft(first.chat, DOG, "dog.gif")
    before = store.tree(first.chat).path()
    for change in ("INSERT ON pictures", "DELETE ON pictures", "UPDATE OF chosen ON messages"):
        refuse(path, change)
        with pytest.raises(StoreError, match="broken"):
            thread.add_question("and this?", (picture,))
        allow(path)
        assert store.tree(first.chat).path() == before, change
        assert list(thread.tree.messages) == [first.id]
        assert store.pictures.of_draft(first.chat) == (picture,)
    question = thread.add_question("and this?", (picture,))
    assert store.tree(first.chat).path()[-1].pictures == question.pictures == (picture,)
    assert store.pictures.of_draft(first.chat) == ()
    store.close()


def test_no_message_names_a_picture_that_is_gone(tmp_path: Path) -> None:
    """Another window removed it between its arrival and the question."""
    store = ChatStore(tmp_path / "chats.sqlite")
    thread, first = ask(store, CAT)
    picture = store.pictures.add_to_draft(first.chat, DOG, "dog.gif")
    store.pictures.files.remove(picture.hash)
    with pytest.raises(StoreError, match="dog.gif is no longer there; add it again"):
        thread.add_question("what is it?", (picture,))
    assert len(store.tree(first.chat).messages) == 1
    store.close()


def test_a_failure_between_file_and_row_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    refuse(path, "INSERT ON pictures")
    with pytest.raises(StoreError, match="broken"):
        store.pictures.add_to_draft(None, CAT, "cat.png")
    allow(path)
    assert store.pictures.of_draft(None) == ()
    store.close()
    assert kept(tmp_path) == set()

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    store = ChatStore(path)
    monkeypatch.setattr(picture_files, "write_atomically", full)
    with pytest.raises(PictureError, match=r"cat\.png: could not be saved: No space left"):
        store.pictures.add_to_draft(None, CAT, "cat.png")
    assert store.pictures.of_draft(None) == ()
    store.close()


def test_left_over_files_are_collected_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a crash leaves: files that no row names, and a file half written."""
    store = ChatStore(tmp_path / "chats.sqlite")
    _, question = ask(store, CAT)

    def fails(self: PictureFiles, hash: str) -> None:
        raise OSError(13, "Permission denied")

    store.delete(question.chat)
    with monkeypatch.context() as broken:
        broken.setattr(PictureFiles, "remove", fails)
        store.close()
    assert "pictures that no chat uses are still kept" in caplog.text
    caplog.clear()
    used = ChatStore(tmp_path / "chats.sqlite")
    ask(used, DOG)
    (tmp_path / "pictures" / ".half").write_bytes(b"GIF")
    used.close()
    assert kept(tmp_path) == {CAT, DOG, b"GIF"}
    ChatStore(tmp_path / "chats.sqlite").close()
    assert kept(tmp_path) == {CAT, DOG, b"GIF"}  # they may be another window's, just arriving
    old = time.time() - store_module.PURGE_AFTER - 60
    for path in (tmp_path / "pictures").iterdir():
        os.utime(path, (old, old))
    ChatStore(tmp_path / "chats.sqlite").close()
    assert kept(tmp_path) == {DOG}


def test_chats_that_are_not_kept_have_pictures_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ChatStore(tmp_path / "file" / "chats.sqlite")
    assert "not saved" in store.notice
    with store.elsewhere() as other:
        other.pictures.add_to_draft(None, CAT, "cat.png")
    _, question = ask(store)
    files = store.pictures.files
    assert files.read(question.pictures[0].hash, "") == CAT
    store.close()
    assert not files.folder.exists()


def test_out_and_in_again(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    limits = PictureLimits(512, True)
    store.pictures.add_to_draft(None, CAT, "few.png", limits)
    thread, question = ask(store, DOG, CAT)
    assert [p.limits for p in question.pictures] == [limits, PictureLimits(), PictureLimits()]
    thread.add("assistant", question, "A cat, a dog, a cat.")
    file = tmp_path / "chat.json"
    export_chat(store, question.chat, file)
    copy = duplicate_chat(store, question.chat)
    store.close()
    other = ChatStore(tmp_path / "elsewhere" / "chats.sqlite")
    with other.elsewhere() as here:
        chat = import_chat(here, file)
    (message, answer) = other.tree(chat).path()
    assert (message.pictures, answer.pictures) == (question.pictures, ())
    assert kept(tmp_path / "elsewhere") == {CAT, DOG}
    other.close()
    assert kept(tmp_path / "elsewhere") == {CAT, DOG}
    store = ChatStore(tmp_path / "chats.sqlite")
    assert store.tree(copy).path()[0].pictures == question.pictures
    store.delete(question.chat)
    store.close()
    assert kept(tmp_path) == {CAT, DOG}  # the copy has them


def test_files_with_damaged_pictures(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    _, question = ask(store, DOG)
    file = tmp_path / "chat.json"
    export_chat(store, question.chat, file)
    good = file.read_bytes()
    hash = question.pictures[0].hash.encode()
    store.close()
    for broken, reason in (
        (good.replace(b"R0lG", b"R0lH"), "is damaged"),
        (good.replace(b"R0lG", b"R*lG"), "is not base64"),
        (good.replace(b'"R0lGODlhIGRvZw=="', b"7"), "is not text"),
        (good.replace(hash, b"0" * 64, 1), "is not in the file"),
        (good.replace(hash, b"../secret", 1), "is not a Cutaway chat"),
        (good.replace(b'"version": 2', b'"version": 99'), "update it"),
    ):
        assert broken != good, reason
        file.write_bytes(broken)
        other = ChatStore(tmp_path / "elsewhere" / "chats.sqlite")
        with pytest.raises(BadChatFile, match=reason), other.elsewhere() as here:
            import_chat(here, file)
        assert other.chats() == []
        other.close()
        folder = tmp_path / "elsewhere" / "pictures"
        assert not folder.exists() or kept(tmp_path / "elsewhere") == set(), reason


def test_an_import_that_is_cancelled_keeps_nothing(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    _, question = ask(store, DOG)
    export_chat(store, question.chat, tmp_path / "chat.json")
    store.close()
    answers = iter([False, False, True, True, True])  # once the picture is there
    other = ChatStore(tmp_path / "elsewhere" / "chats.sqlite")
    with pytest.raises(Cancelled), other.elsewhere() as here:
        import_chat(here, tmp_path / "chat.json", stopped=lambda: next(answers))
    other.close()
    assert kept(tmp_path / "elsewhere") == set()


def test_markdown_has_them_beside_it(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    store.pictures.add_to_draft(None, CAT, "../../a ](b) `c`.png")
    store.pictures.add_to_draft(None, DOG, "dog")
    _, _ = ask(store)
    (row,) = store.chats()
    export_chat(store, row.id, tmp_path / "my chat.md")
    text = (tmp_path / "my chat.md").read_text()
    folder = tmp_path / "my chat-pictures"
    assert "![../../a (b) c .png](<my chat-pictures/1-a_b_c.png>)" in text
    assert "![dog](<my chat-pictures/2-dog>)" in text
    assert (folder / "1-a_b_c.png").read_bytes() == CAT
    assert (folder / "2-dog").read_bytes() == DOG
    store.close()


def test_files_that_are_no_pictures_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_files, "MOST_PICTURE_BYTES", 1 << 20)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "large.png").write_bytes(bytes(3 << 20))
    for name, reason in (
        ("pipe.png", "is not a file"),
        ("gone.png", "no such file"),
        ("empty.png", "is empty"),
        ("large.png", "has 3 MiB; pictures of up to 1 MiB are read"),
        ("nul\0.png", "no such file"),
    ):
        with pytest.raises(PictureError, match=reason):
            read_picture(tmp_path / name)


def test_pictures_of_an_older_cutaway_have_no_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, older = tmp_path / "chats.sqlite", database.MIGRATIONS[:2]
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", older)
        patch.setattr(database, "VERSION", len(older))
        patch.setattr(database, "COLUMNS", {})
        patch.setattr(row_sums, "COLUMNS", {})
        before = ChatStore(path)
        hash = before.pictures.keep(CAT, "cat.png")
        before.db.connection.execute(
            "INSERT INTO pictures VALUES (NULL, NULL, 0, ?, 'cat.png')", (hash,)
        )
        before.close()
    store = ChatStore(path)
    assert store.pictures.of_draft(None) == (Picture(hash, "cat.png", PictureLimits()),)
    store.close()


@pytest.mark.parametrize("most", [-1, 0, "many", 1.5])
def test_a_limit_that_is_none_is_not_taken(most: object, tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    store.pictures.add_to_draft(None, CAT, "cat.png", PictureLimits(64))
    with sqlite3.connect(tmp_path / "chats.sqlite") as connection:
        connection.execute("UPDATE pictures SET most = ?", (most,))
    connection.close()
    (picture,) = store.pictures.of_draft(None)
    assert picture.limits == PictureLimits()
    store.close()
