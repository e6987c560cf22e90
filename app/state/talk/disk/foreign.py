"""Chats that other programs exported: ChatGPT, Claude, LM Studio, Open WebUI and llama-server.

Each is a tree, as ours: every branch is taken in, and the path that was shown there is shown here.
Programs are recognised by their keys. What they keep besides text becomes one line that names it.
"""

import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from app.language import tr
from app.state.talk.disk.chat_file import (
    LARGEST,
    LATEST,
    LONGEST_NAME,
    LONGEST_TEXT,
    BadChatFile,
    ChatFile,
    ChatFileMessage,
    file_content,
)
from app.state.talk.message import Role

MOST_CHATS = 100_000
ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "tool": "assistant"}
CONVERSATIONS = re.compile(r"(.*/)?conversations(-\d+)?\.json")
NEWEST_VERSION = 1


@dataclass
class Node:
    """A message of another program; `role` is that program's word."""

    id: str
    parent: str
    role: str
    text: str
    created: float = 0.0
    model: str = ""
    thought: str = ""


@dataclass
class ForeignChat:
    """`current` is the last message of the path that was shown."""

    title: str = ""
    system: str = ""
    nodes: list[Node] = field(default_factory=list)
    current: str = ""


Taken = tuple[ChatFile, list[ChatFileMessage]]


def foreign_chats(path: Path) -> list[Taken] | None:
    """The chats in another program's file; None for one of ours. Raises BadChatFile."""
    content = file_content(path)
    parts = _unzipped(path, content) if content.startswith(b"PK") else [content]
    chats: list[ForeignChat] = []
    for part in parts:
        try:
            whole = msgspec.json.decode(part)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None  # whose error says it better
        if isinstance(whole, dict) and whole.get("format") == "cutaway-chat":
            return None
        chats += _chats(whole)
    if not any(chat.nodes for chat in chats):
        return None
    if len(chats) > MOST_CHATS:
        raise BadChatFile(
            path,
            tr(
                "has {chats} chats; at most {most_chats} are taken in",
                chats=len(chats),
                most_chats=MOST_CHATS,
            ),
        )
    taken = [made for made in map(_taken, chats) if made[1]]
    if not taken:
        raise BadChatFile(path, tr("has no message that can be imported"))
    return taken


def _unzipped(path: Path, content: bytes) -> list[bytes]:
    import io

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = [info for info in archive.infolist() if CONVERSATIONS.fullmatch(info.filename)]
            if sum(info.file_size for info in infos) > LARGEST:
                raise BadChatFile(
                    path, tr("unpacks to more than {largest} MiB", largest=LARGEST >> 20)
                )
            return [archive.read(info) for info in sorted(infos, key=lambda i: i.filename)]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise BadChatFile(path, tr("is a damaged archive ({error})", error=error)) from None


def _chats(whole: Any) -> Iterator[ForeignChat]:
    """The chats of a file that holds one, or a list of them."""
    for one in whole if isinstance(whole, list) else [whole]:
        about = _object(one)
        if "mapping" in about:
            yield _chatgpt(about)
        elif "chat_messages" in about:
            yield _claude(about)
        elif "conv" in about:
            yield _llama_server(about)
        elif "history" in _object(about.get("chat")):
            yield _open_webui(about)
        elif any("versions" in _object(m) for m in _list(about.get("messages"))):
            yield _lm_studio(about)


def _chatgpt(about: Mapping[str, Any]) -> ForeignChat:
    """OpenAI's `conversations.json`."""
    chat = ForeignChat(_text(about.get("title")), current=_text(about.get("current_node")))
    for id, node in _object(about.get("mapping")).items():
        message = _object(_object(node).get("message"))
        hidden = message.get("weight") == 0
        content = _object(message.get("content"))
        kind = _text(content.get("content_type"))
        thought = ""
        if kind == "thoughts":
            thought = "\n\n".join(
                _text(_object(t).get("content")) for t in _list(content.get("thoughts"))
            )
            text = ""
        elif kind in ("text", "multimodal_text", "code", ""):
            parts = [*_list(content.get("parts")), content.get("text")]
            text = "\n\n".join(filter(None, map(_part, parts)))
        else:
            text = _left_out(kind)
        role = _text(_object(message.get("author")).get("role"))
        model = _text(_object(message.get("metadata")).get("model_slug"))
        made = Node(id, _text(_object(node).get("parent")), "" if hidden else role, text)
        made.created, made.model, made.thought = _time(message.get("create_time")), model, thought
        chat.nodes.append(made)
    return chat


def _claude(about: Mapping[str, Any]) -> ForeignChat:
    chat = ForeignChat(_text(about.get("name")))
    for n, one in enumerate(_list(about.get("chat_messages"))):
        message = _object(one)
        role = "user" if message.get("sender") == "human" else "assistant"
        node = Node(str(n), str(n - 1), role, _text(message.get("text")))
        node.created = _time(message.get("created_at"))
        chat.nodes.append(node)
    return chat


def _llama_server(about: Mapping[str, Any]) -> ForeignChat:
    conv = _object(about.get("conv"))
    chat = ForeignChat(_text(conv.get("name")), current=_text(conv.get("currNode")))
    for one in _list(about.get("messages")):
        message = _object(one)
        kind = _text(message.get("type"))
        role = _text(message.get("role")) if kind in ("text", "") else ""
        extras = [_extra(_object(extra)) for extra in _list(message.get("extra"))]
        text = "\n\n".join(filter(None, (_text(message.get("content")), *extras)))
        node = Node(_text(message.get("id")), _text(message.get("parent")), role, text)
        node.created = _time(message.get("timestamp"), 1000)
        node.thought = _text(message.get("thinking"))
        chat.nodes.append(node)
    return chat


def _extra(extra: Mapping[str, Any]) -> str:
    """An attachment of llama-server's page; texts as its prompts hold them."""
    kind, name = _text(extra.get("type")), _text(extra.get("name"))
    content = extra.get("content")
    if kind in ("textFile", "context", "TEXT", "PDF", "pdfFile") and isinstance(content, str):
        return f"--- File: {name} ---\n{content}"
    return _left_out(kind)


def _open_webui(about: Mapping[str, Any]) -> ForeignChat:
    inside = _object(about.get("chat"))
    history = _object(inside.get("history"))
    title = _text(about.get("title")) or _text(inside.get("title"))
    chat = ForeignChat(title, current=_text(history.get("currentId")))
    for id, one in _object(history.get("messages")).items():
        message = _object(one)
        node = Node(id, _text(message.get("parentId")), _text(message.get("role")), "")
        node.text = _text(message.get("content"))
        for output in map(_object, _list(message.get("output"))):
            kind = _text(output.get("type"))
            if kind == "reasoning":
                node.thought = _text(output.get("content")) or _text(output.get("summary"))
            elif kind not in ("message", ""):
                node.text = "\n\n".join(filter(None, (node.text, _left_out(kind))))
        node.created = _time(message.get("timestamp"))
        node.model = _text(message.get("model"))
        chat.nodes.append(node)
    return chat


def _lm_studio(about: Mapping[str, Any]) -> ForeignChat:
    """A message has versions, of which the next one answers the selected."""
    chat = ForeignChat(_text(about.get("name")), _text(about.get("systemPrompt")))
    created, parent = _time(about.get("createdAt"), 1000), ""
    for n, one in enumerate(_list(about.get("messages"))):
        message = _object(one)
        versions = _list(message.get("versions"))
        selected = message.get("currentlySelected")
        for v, version in enumerate(map(_object, versions)):
            steps = map(_object, _list(version.get("steps")))
            blocks = [block for step in steps for block in _list(step.get("content"))]
            parts = map(_part, blocks or _list(version.get("content")))
            text = "\n\n".join(filter(None, parts))
            chat.nodes.append(Node(f"{n}.{v}", parent, _text(version.get("role")), text, created))
        if versions:
            chosen = selected if isinstance(selected, int) else 0
            parent = f"{n}.{min(max(chosen, 0), len(versions) - 1)}"
    chat.current = parent
    return chat


def _taken(chat: ForeignChat) -> Taken:
    """Convert it to one of our files: parents first, roles of ours, the path shown marked."""
    nodes = {node.id: node for node in chat.nodes if node.id}
    system = chat.system or next((n.text for n in chat.nodes if n.role == "system" and n.text), "")
    shown = _path(nodes, chat.current)
    places: dict[str, int] = {}  # of the message that a node became, or belongs to
    messages: list[ChatFileMessage] = []
    answered: set[int] = set()
    for node in _parents_first(nodes):
        above = places.get(node.parent)
        role: Role | None = ROLES.get(node.role)
        text = f"<think>{node.thought}</think>\n\n{node.text}" if node.thought else node.text
        text = text or (_left_out(node.role) if node.role == "tool" else "")
        if role is None or not text.strip():
            if above is not None:
                places[node.id] = above
            continue
        before = messages[above] if above is not None else None
        if before is not None and before.role == role and above not in answered:
            before.text = f"{before.text}\n\n{text}"[:LONGEST_TEXT]
            before.chosen |= node.id in shown
            places[node.id] = above if above is not None else 0
            continue
        made = ChatFileMessage(role, text[:LONGEST_TEXT], above, node.id in shown)
        made.created, made.model = node.created, node.model[:LONGEST_NAME]
        made.finish = "stop" if role == "assistant" else ""
        if above is not None:
            answered.add(above)
        places[node.id] = len(messages)
        messages.append(made)
    title = " ".join(chat.title.split())[:LONGEST_NAME]
    file = ChatFile("cutaway-chat", NEWEST_VERSION, title, system[:LONGEST_TEXT])
    return file, messages


def _path(nodes: Mapping[str, Node], last: str) -> set[str]:
    """The nodes from the last one up; a circle ends it."""
    found: set[str] = set()
    while last in nodes and last not in found:
        found.add(last)
        last = nodes[last].parent
    return found


def _parents_first(nodes: Mapping[str, Node]) -> Iterator[Node]:
    """Every node that leads to a root; those of a circle are left out."""
    children: dict[str, list[Node]] = {}
    for node in nodes.values():
        above = node.parent if node.parent in nodes else ""
        children.setdefault(above, []).append(node)
    waiting = list(reversed(children.get("", [])))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children.get(node.id, []))


def _part(part: Any) -> str:
    """A part of a content: text, or a line that names what it is."""
    if part is None or isinstance(part, str):
        return part or ""
    about = _object(part)
    kind = _text(about.get("type")) or _text(about.get("content_type"))
    if isinstance(about.get("text"), str) and kind in ("text", ""):
        return _text(about["text"])
    return _left_out(kind)


def _left_out(kind: str) -> str:
    return f"[not imported: {' '.join(kind.split())[:60] or 'unknown'}]"


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Text, or a number that stands for an id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def _time(value: Any, parts: int = 1) -> float:
    """Seconds since the epoch of a number, in `parts` of a second, or of an ISO date; else 0."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    seconds = float(value) / parts if abs(value) < 1e18 else 0.0
    return seconds if math.isfinite(seconds) and 0 <= seconds <= LATEST else 0.0
