"""Chats of other programs: every branch, the path that was shown, and nothing but text."""

import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app.state.talk.disk.chat_file import BadChatFile
from app.state.talk.disk.exchange import import_chat
from app.state.talk.disk.foreign import foreign_chats
from app.state.talk.disk.store import ChatStore
from tests.app.helpers.mutate import mutated

SAID = [("user", "one"), ("assistant", "two"), ("user", "three"), ("assistant", "four")]


def gpt_node(
    id: str, parent: str | None, role: str, parts: list[Any], **more: Any
) -> dict[str, Any]:
    content = {"content_type": "text", "parts": parts}
    message = {"author": {"role": role}, "content": content, "create_time": 1700000000.5} | more
    return {"id": id, "parent": parent, "children": [], "message": message}


def chatgpt() -> list[dict[str, Any]]:
    thought = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hmm"}]}
    nodes = [
        {"id": "root", "parent": None, "children": ["s"], "message": None},
        gpt_node("s", "root", "system", [""], weight=0),
        gpt_node("a", "s", "user", ["one"]),
        gpt_node("b", "a", "assistant", ["other"]),
        gpt_node("t", "a", "assistant", [], content=thought),
        gpt_node("c", "t", "assistant", ["two"]),
        gpt_node("d", "c", "user", [{"content_type": "image_asset_pointer"}, "three"]),
        gpt_node("e", "d", "assistant", ["four"]),
    ]
    mapping = {node["id"]: node for node in nodes}
    return [{"title": "Ships", "create_time": 1.0, "current_node": "e", "mapping": mapping}]


def open_webui() -> list[dict[str, Any]]:
    ids = ["a", "b", "c", "d"]
    messages = {
        id: {
            "id": id,
            "parentId": ids[n - 1] if n else None,
            "role": role,
            "content": text,
            "timestamp": 1700000000,
            "childrenIds": ids[n + 1 : n + 2],
        }
        for n, (id, (role, text)) in enumerate(zip(ids, SAID, strict=True))
    }
    messages["x"] = {"id": "x", "parentId": "a", "role": "assistant", "content": "other"}
    history = {"currentId": "d", "messages": messages}
    return [{"id": "1", "user_id": "u", "title": "Ships", "chat": {"history": history}}]


def lm_studio() -> dict[str, Any]:
    def block(text: str) -> dict[str, Any]:
        return {"type": "contentBlock", "content": [{"type": "text", "text": text}]}

    messages: list[dict[str, Any]] = []
    for role, text in SAID:
        one: dict[str, Any] = {"type": "singleStep", "role": role}
        one |= {"content": [{"type": "text", "text": text}]}
        if role == "assistant":
            one = {"type": "multiStep", "role": role, "steps": [block(text)]}
        messages.append({"currentlySelected": 0, "versions": [one]})
    other = {"type": "multiStep", "role": "assistant", "steps": [block("other")]}
    messages[1] = {"currentlySelected": 1, "versions": [other, *messages[1]["versions"]]}
    return {"name": "Ships", "createdAt": 1700000000000, "systemPrompt": "S", "messages": messages}


def llama_server() -> dict[str, Any]:
    conv = {"id": "c", "name": "Ships", "lastModified": 1700000000000, "currNode": 4}
    messages: list[dict[str, Any]] = [
        {"id": 0, "type": "root", "role": "system", "content": "", "parent": -1}
    ]
    for n, (role, text) in enumerate(SAID, 1):
        messages.append({"id": n, "type": "text", "role": role, "content": text, "parent": n - 1})
    messages.append({"id": 9, "type": "text", "role": "assistant", "content": "other", "parent": 1})
    return {"conv": conv, "messages": messages}


def claude() -> list[dict[str, Any]]:
    said = [{"sender": "human" if r == "user" else r, "text": text} for r, text in SAID]
    return [{"name": "Ships", "chat_messages": said}]


EXPORTS = {
    "chatgpt": chatgpt,
    "open_webui": open_webui,
    "lm_studio": lm_studio,
    "llama_server": llama_server,
    "claude": claude,
}


@pytest.mark.parametrize("program", EXPORTS)
def test_all_branches_and_the_path_shown(program: str, store: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(EXPORTS[program]()))
    chat = import_chat(store, path)
    row = store.chat(chat)
    assert row is not None
    assert row.title == "Ships"
    tree = store.tree(chat)
    said = [(m.role, m.text) for m in tree.path()]
    thought = "<think>hmm</think>\n\n\n\n" if program == "chatgpt" else ""
    picture = "[not imported: image_asset_pointer]\n\n" if program == "chatgpt" else ""
    assert said == [
        *(("user", "one"), ("assistant", thought + "two")),
        *(("user", f"{picture}three"), ("assistant", "four")),
    ]
    others = {m.text for m in tree.messages.values()} - {text for _, text in said}
    assert others == (set() if program == "claude" else {"other"})
    assert row.system == ("S" if program == "lm_studio" else "")


def test_a_zip_with_many_chats(store: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations-000.json", json.dumps(chatgpt() * 2))
        archive.writestr("conversations-001.json", json.dumps(chatgpt()))
        archive.writestr("user.json", "{}")
        archive.writestr("../conversations.json/evil", "x")
    import_chat(store, path)
    assert [row.title for row in store.chats()] == ["Ships"] * 3


def test_none_or_all(store: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(chatgpt() * 3))
    looks = iter([False] * 5 + [True] * 100)
    with pytest.raises(Exception, match="cancelled"):
        import_chat(store, path, stopped=lambda: next(looks))
    assert store.chats() == []


@pytest.mark.parametrize("program", EXPORTS)
def test_hostile_exports_are_text_or_a_sentence(
    program: str, store: ChatStore, tmp_path: Path
) -> None:
    path, draw = tmp_path / "export.json", random.Random(program)
    for _ in range(150):
        path.write_bytes(mutated(EXPORTS[program](), draw))
        try:
            chats = foreign_chats(path)
        except BadChatFile:
            continue
        for _, messages in chats or []:
            for place, message in enumerate(messages):
                assert message.parent is None or message.parent < place
                assert isinstance(message.text, str)


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    export = open_webui()
    messages = export[0]["chat"]["history"]["messages"]
    messages["a"]["parentId"] = "d"
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export))
    with pytest.raises(BadChatFile, match="no message"):
        foreign_chats(path)
