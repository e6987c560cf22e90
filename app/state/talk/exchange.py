"""Chats in and out: Markdown for people, JSON for programs (and for `import_chat`).

The JSON is `{"format": "cutaway-chat", "version": 1, "title", "system", "sampling", "messages"}`;
a message names its parent by its place in the list, which comes before it, and `chosen` marks the
branch shown. Tokens, where kept, are columns (see `tokens.TokenData`), in base64.
"""

from pathlib import Path
from typing import Literal

import msgspec

from app.files import write_atomically
from app.state.talk.message import Message, Role
from app.state.talk.reasoning import split_reasoning
from app.state.talk.store import UNTITLED, ChatStore
from app.state.talk.tokens import TokenData, Tokens
from engine.errors import CutawayError
from engine.protocol import Sampling, Stats

VERSION = 1
LARGEST = 256 << 20  # bytes of a file that is taken in


class BadChatFile(CutawayError):
    """A file that holds no chat that can be taken in."""

    def __init__(self, path: object, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"{path}: {problem}")


class ChatFileMessage(msgspec.Struct, omit_defaults=True):
    """One node; `parent` is an index into the list of messages."""

    role: Role
    text: str
    parent: int | None = None
    chosen: bool = False
    created: float = 0.0
    model: str = ""
    finish: str = "stop"
    problem: str = ""
    stats: Stats | None = None
    tokens: TokenData | None = None


class ChatFile(msgspec.Struct):
    """The whole file."""

    format: Literal["cutaway-chat"]
    version: int
    title: str = UNTITLED
    system: str = ""
    sampling: Sampling = Sampling()
    messages: list[ChatFileMessage] = []


def export_chat(store: ChatStore, chat_id: int, path: Path) -> None:
    """Write a chat: whole as JSON where the name ends so, else its path shown as Markdown.

    Raises StoreError, and BadChatFile where the file cannot be written.
    """
    text = (
        as_json(store, chat_id) if path.suffix.lower() == ".json" else as_markdown(store, chat_id)
    )
    try:
        write_atomically(path, text)
    except OSError as error:
        raise BadChatFile(path, f"could not be written: {error.strerror}") from error


def import_chat(store: ChatStore, path: Path) -> int:
    """Take in a chat of `export_chat`'s JSON; the new chat's id. Raises BadChatFile, StoreError."""
    try:
        if path.stat().st_size > LARGEST:
            raise BadChatFile(path, f"is larger than {LARGEST >> 20} MiB")
        file = msgspec.json.decode(path.read_bytes(), type=ChatFile)
    except OSError as error:
        raise BadChatFile(path, error.strerror or "cannot be read") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadChatFile(path, f"holds no chat of Cutaway ({error})") from error
    if file.version > VERSION:
        problem = f"is of version {file.version}, this Cutaway reads up to {VERSION}; update it"
        raise BadChatFile(path, problem)
    for n, message in enumerate(file.messages):
        if message.parent is not None and not 0 <= message.parent < n:
            raise BadChatFile(path, f"message {n} names parent {message.parent}")
    try:
        tokens = _tokens(file)
    except ValueError as error:
        raise BadChatFile(path, str(error)) from error
    return _insert(store, file, tokens)


def duplicate_chat(store: ChatStore, chat_id: int) -> int:
    """A copy with all branches; its id. Raises StoreError."""
    file = _file(store, chat_id)
    file.title = f"{file.title} (copy)"
    return _insert(store, file, _tokens(file))


def as_json(store: ChatStore, chat_id: int) -> bytes:
    """The whole chat."""
    return msgspec.json.format(msgspec.json.encode(_file(store, chat_id)), indent=1)


def as_markdown(store: ChatStore, chat_id: int) -> bytes:
    """The path shown, with who speaks; a reasoning block as a quotation."""
    chat = store.chat(chat_id)
    assert chat is not None
    parts = [f"# {chat.title}"]
    if chat.system:
        parts.append(f"**System**\n\n{chat.system}")
    for message in store.tree(chat_id).path():
        speaker = "You" if message.role == "user" else message.model or "Assistant"
        said = split_reasoning(message.text)
        thought = "\n".join(f"> {line}".rstrip() for line in said.thought.splitlines())
        parts.append("\n\n".join(p for p in (f"**{speaker}**", thought, said.answer) if p))
    return ("\n\n".join(parts) + "\n").encode()


def _file(store: ChatStore, chat_id: int) -> ChatFile:
    chat, tree = store.chat(chat_id), store.tree(chat_id)
    assert chat is not None
    places = {number: place for place, number in enumerate(tree.messages)}
    messages = []
    for message in tree.messages.values():
        tokens = store.tokens(message)
        chosen = tree.chosen(message.parent)
        messages.append(
            ChatFileMessage(
                role=message.role,
                text=message.text,
                parent=None if message.parent is None else places[message.parent],
                chosen=chosen is message,
                created=message.created,
                model=message.model,
                finish=message.finish,
                problem=message.problem,
                stats=message.stats,
                tokens=tokens.data() if len(tokens) else None,
            )
        )
    return ChatFile("cutaway-chat", VERSION, chat.title, chat.system, chat.sampling, messages)


def _tokens(file: ChatFile) -> list[Tokens | None]:
    return [None if m.tokens is None else Tokens.of(m.tokens) for m in file.messages]


def _insert(store: ChatStore, file: ChatFile, tokens: list[Tokens | None]) -> int:
    chat_id = store.create(file.title, file.system, file.sampling)
    made: list[Message] = []
    for message, kept in zip(file.messages, tokens, strict=True):
        parent = None if message.parent is None else made[message.parent].id
        new = Message(
            0,
            chat_id,
            parent,
            message.role,
            message.text,
            message.created,
            message.model,
            message.finish,
            message.problem,
            message.stats,
            len(kept) if kept else 0,
        )
        store.add(new)
        if kept:
            store.save_tokens(new, kept)
        made.append(new)
    for message, new in zip(file.messages, made, strict=True):
        if message.chosen:
            store.choose(new)
    return chat_id
