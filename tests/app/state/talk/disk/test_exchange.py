"""Chats in and out: nothing lost on the way, and files that are no chats."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.state.presets import OwnSampling
from app.state.talk.disk.exchange import (
    BadChatFile,
    as_json,
    duplicate_chat,
    export_chat,
    import_chat,
)
from app.state.talk.disk.store import ChatGone, ChatStore
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from engine.errors import CutawayError
from engine.protocol import Alternative, Stats, TokenInfo


@pytest.fixture
def chat(store: ChatStore) -> int:
    """Two branches of the answer, the first one chosen; tokens at one."""
    chat = store.create("On **cats**", "Be brief.", OwnSampling(temperature=0.5))
    question = Message(0, chat, None, "user", "What is a cat?", 1.0)
    store.add(question)
    answers = []
    for text in ("<think>\nhm\n\nso\n</think>\nAn animal.", "A pet."):
        answer = Message(0, chat, question.id, "assistant", text, 2.0, "smol", "stop")
        answer.stats = Stats(1, 0, 2, 0.1, 0.2, 0.3, 0.4, 2**64 - 1, 3)
        store.add(answer)
        answers.append(answer)
    tokens = Tokens()
    tokens.append([TokenInfo(3, -0.25, "A", [Alternative(4, "B", -1.5)])], 1)
    store.save_tokens(answers[1], tokens)
    store.add(Message(0, chat, answers[0].id, "user", "More?", 3.0))
    store.choose(answers[0])
    return chat


def content(store: ChatStore, chat: int) -> list[tuple[object, ...]]:
    tree = store.tree(chat)
    texts = {m.id: m.text for m in tree.messages.values()}
    shown = {m.id for m in tree.path()}
    return [
        (
            m.role,
            m.text,
            texts.get(m.parent or 0),
            m.model,
            m.finish,
            m.stats,
            [store.tokens(m)[n] for n in range(len(store.tokens(m)))],
            m.id in shown,
        )
        for m in tree.messages.values()
    ]


def test_json_keeps_everything(store: ChatStore, chat: int, tmp_path: Path) -> None:
    path = tmp_path / "cats.json"
    export_chat(store, chat, path)
    again = import_chat(store, path)
    assert again != chat
    assert content(store, again) == content(store, chat)
    row = store.chat(again)
    assert row is not None
    assert (row.title, row.system, row.sampling.temperature) == ("On **cats**", "Be brief.", 0.5)
    assert as_json(store, again) == as_json(store, chat)
    file = json.loads(path.read_bytes())
    assert (file["format"], file["version"]) == ("cutaway-chat", 1)
    assert [m.get("parent") for m in file["messages"]] == [None, 0, 0, 1]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as an editor of Windows saves it
    assert content(store, import_chat(store, path)) == content(store, chat)


def test_markdown_has_speakers_and_the_branch_shown(
    store: ChatStore, chat: int, tmp_path: Path
) -> None:
    export_chat(store, chat, tmp_path / "cats.md")
    assert (tmp_path / "cats.md").read_text("utf-8") == (
        "# On **cats**\n\n**System**\n\nBe brief.\n\n**You**\n\nWhat is a cat?\n\n"
        "**smol**\n\n> hm\n>\n> so\n\nAn animal.\n\n**You**\n\nMore?\n"
    )


def test_duplicate(store: ChatStore, chat: int) -> None:
    copy = duplicate_chat(store, chat)
    assert content(store, copy) == content(store, chat)
    row = store.chat(copy)
    assert row is not None
    assert row.title == "On **cats** (copy)"


def test_a_copy_up_to_a_message(store: ChatStore, chat: int) -> None:
    path = store.tree(chat).path()
    for last in path:
        copy = duplicate_chat(store, chat, last.id)
        texts = [message.text for message in store.tree(copy).path()]
        assert texts == [message.text for message in path[: path.index(last) + 1]]
        assert len(store.tree(copy).messages) == len(texts), "no other branches"
    with pytest.raises(ChatGone):
        duplicate_chat(store, chat, 10**6)


def test_files_that_are_no_chats(store: ChatStore, chat: int, tmp_path: Path) -> None:
    good: dict[str, Any] = json.loads(as_json(store, chat))
    message = good["messages"][0]
    broken: dict[str, object] = {
        "is not a Cutaway chat": "not json",
        "is not a Cutaway chat .Expected `object`": [],
        "Invalid enum value 'other'": {"format": "other", "version": 1},
        "of version 7, this Cutaway reads up to 5": good | {"version": 7},
        "message 0: it names parent 0": good | {"messages": [message | {"parent": 0}]},
        "message 0: it names parent -1": good | {"messages": [message | {"parent": -1}]},
        "Invalid enum value 'system'": good | {"messages": [message | {"role": "system"}]},
        "is not a Cutaway chat .*Expected `str`": good | {"messages": [message | {"text": 5}]},
    }
    tokens = good["messages"][2]["tokens"]
    odd = message | {"tokens": tokens | {"ids": "AAAA"}}
    broken["bytes length not a multiple"] = good | {"messages": [odd]}
    odd = message | {"tokens": tokens | {"ids": ""}}
    broken["differ in length"] = good | {"messages": [odd]}
    before = len(store.chats())
    path = tmp_path / "x.json"
    for problem, value in broken.items():
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        with pytest.raises(BadChatFile, match=problem) as caught:
            import_chat(store, path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b'{"format": "\xff"}')
    with pytest.raises(BadChatFile):
        import_chat(store, path)
    with pytest.raises(BadChatFile, match="No such file"):
        import_chat(store, tmp_path / "no.json")
    with pytest.raises(BadChatFile, match="directory"):
        import_chat(store, tmp_path)
    assert len(store.chats()) == before


def test_a_minimal_file(store: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        '{"format": "cutaway-chat", "version": 1, "other": 1, '
        '"messages": [{"role": "user", "text": "hi", "other": 2}]}'
    )
    chat = import_chat(store, path)
    assert [m.text for m in store.tree(chat).path()] == ["hi"]


def test_what_cannot_be_written(store: ChatStore, chat: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CutawayError, match="cannot be written"):
        export_chat(store, chat, tmp_path / "file" / "x.md")
