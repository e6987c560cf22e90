"""Chats in and out: Markdown for people, JSON for programs (and for `import_chat`)."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from app.documents.document import Document
from app.files import write_named
from app.language import tr
from app.state.talk.disk.chat_file import (
    LATEST,
    LONGEST_NAME,
    MOST_TAGS,
    VERSION,
    BadChatFile,
    ChatFile,
    ChatFileCall,
    ChatFileDocument,
    ChatFileMessage,
    ChatFilePicture,
    never,
    read_chat_file,
    silent,
)
from app.state.talk.disk.foreign import foreign_chats
from app.state.talk.disk.packed_pictures import BadPicture, packed, unpack, write_beside
from app.state.talk.disk.store import UNTITLED, ChatGone, ChatStore
from app.state.talk.edits import all_words
from app.state.talk.message import Message, Picture
from app.state.talk.reasoning import split_reasoning
from app.state.talk.tokens import Tokens
from app.tools.calling import ToolUse
from engine.errors import Cancelled
from engine.protocol import Sampling

BATCH = 100  # messages written in one transaction
WITHOUT_PICTURES = 1  # the version that every Cutaway reads
WITH_PICTURES = 2
WITH_DOCUMENTS = 3
WITH_CALLS = 4
BATCH_TEXT = 1 << 16  # characters of them, likewise
NO_LINKS: Mapping[Picture, str] = {}
PAUSE_S = 0.005  # between transactions, so that the window may write


def export_chat(
    store: ChatStore,
    chat_id: int,
    path: Path,
    report: Callable[[int, int], None] = silent,
    stopped: Callable[[], bool] = never,
) -> None:
    """Write a chat: whole as JSON where the name ends so, else its path shown as Markdown with the
    pictures in a folder beside it.

    Raises StoreError, PictureError, Cancelled once `stopped`, and BadChatFile or CutawayError where
    it cannot be written.
    """
    try:
        if path.suffix.lower() == ".json":
            text = as_json(store, chat_id)
        else:
            path_shown = store.tree(chat_id).path()
            links = write_beside(store.pictures.files, path_shown, path)
            text = as_markdown(store, chat_id, links)
        if stopped():
            raise Cancelled(tr("exporting a chat"))
        write_named(path, text)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise BadChatFile(path, tr("could not be written: {problem}", problem=problem)) from error


def import_chat(
    store: ChatStore,
    path: Path,
    report: Callable[[int, int], None] = silent,
    stopped: Callable[[], bool] = never,
) -> int:
    """Take in a chat of `export_chat`'s JSON, or all chats of another program's export; the id of
    the chat, or of the first one.

    Raises BadChatFile, StoreError, PictureError, and Cancelled once `stopped`; then nothing was
    taken in.
    """
    foreign = foreign_chats(path)
    if foreign is not None:
        made = []
        for number, (file, messages) in enumerate(foreign):
            report(number, len(foreign))
            made.append(_insert(store, file, messages, silent, stopped))
        return _shown(store, made)
    file, messages = read_chat_file(path, report, stopped)
    try:
        unpack(store.pictures, file.pictures, stopped)
    except BadPicture as error:
        raise BadChatFile(path, tr("is not a Cutaway chat ({error})", error=error)) from error
    return _shown(store, [_insert(store, file, messages, report, stopped)])


def duplicate_chat(
    store: ChatStore,
    chat_id: int,
    until: int | None = None,
    report: Callable[[int, int], None] = silent,
    stopped: Callable[[], bool] = never,
) -> int:
    """A copy with all branches, or of the message `until` and those above it; its id. Raises
    StoreError, and Cancelled once `stopped`.
    """
    file, messages = _file(store, chat_id, until)
    if until is None:
        file.title = tr("{title} (copy)", title=file.title)
    else:
        file.title = tr("{title} (branch)", title=file.title)
    return _shown(store, [_insert(store, file, messages, report, stopped)])


def as_json(store: ChatStore, chat_id: int) -> bytes:
    """The whole chat, its pictures included. Raises PictureError."""
    file, messages = _file(store, chat_id)
    pictures = [picture for message in messages for picture in message.shown]
    whole = msgspec.structs.asdict(file) | {"messages": messages}
    del whole["pictures"]
    if not file.vectors:
        del whole["vectors"]
    edited = any(edits for edits in (file.edits, *(m.edits for m in messages)))
    if not edited:
        del whole["edits"]
        whole["version"] = WITH_CALLS
    if not edited and not any(message.calls or message.tools for message in messages):
        whole["version"] = WITH_DOCUMENTS
    if not edited and not any(m.documents or m.calls or m.tools for m in messages):
        whole["version"] = WITH_PICTURES if pictures else WITHOUT_PICTURES
    text = msgspec.json.format(msgspec.json.encode(whole), indent=1)
    if not pictures:
        return text
    pieces = packed(store.pictures.files, pictures)
    return b"".join([text[:-2], b',\n "pictures": {', *pieces, b"\n }\n}"])


def as_markdown(store: ChatStore, chat_id: int, links: Mapping[Picture, str] = NO_LINKS) -> bytes:
    """The path shown, with speakers' names; reasoning as a quotation, a picture as a link."""
    chat = store.chat(chat_id)
    if chat is None:
        raise ChatGone
    parts = [f"# {chat.title}"]
    if chat.system:
        parts.append(tr("**System**\n\n{system}", system=chat.system))
    for message in store.tree(chat_id).path():
        speaker = tr("You") if message.role == "user" else message.model or tr("Assistant")
        if message.edits:
            speaker += tr(" (edited: {edits})", edits=_label(all_words(message.edits)))
        split = split_reasoning(message.text)
        thought = "\n".join(f"> {line}".rstrip() for line in split.thought.splitlines())
        shown = "\n".join(f"![{_label(p.name)}](<{links.get(p, '')}>)" for p in message.pictures)
        files = "\n\n".join([*map(_quoted, message.documents), *map(_called, message.calls)])
        parts.append(
            "\n\n".join(p for p in (f"**{speaker}**", shown, thought, split.answer, files) if p)
        )
    return ("\n\n".join(parts) + "\n").encode()


def _file(
    store: ChatStore, chat_id: int, until: int | None = None
) -> tuple[ChatFile, list[ChatFileMessage]]:
    chat, tree = store.chat(chat_id), store.tree(chat_id)
    if chat is None or (until is not None and until not in tree.messages):
        raise ChatGone
    kept = tree.messages if until is None else _with_those_above(tree.messages, until)
    places = {number: place for place, number in enumerate(kept)}
    messages = []
    for message in kept.values():
        tokens = store.tokens(message)
        messages.append(
            ChatFileMessage(
                role=message.role,
                text=message.text,
                parent=None if message.parent is None else places[message.parent],
                chosen=tree.chosen(message.parent) is message,
                created=min(max(message.created, 0.0), LATEST),
                model=message.model,
                finish=message.finish,
                problem=message.problem,
                stats=message.stats,
                tokens=tokens.data() if len(tokens) else None,
                pictures=[
                    ChatFilePicture(p.hash, p.name[:LONGEST_NAME], p.limits.rows, p.limits.one_view)
                    for p in message.pictures
                ],
                tools=list(message.tools),
                edits=message.edits,
                calls=[ChatFileCall(**msgspec.structs.asdict(use)) for use in message.calls],
                documents=[
                    ChatFileDocument(d.name, d.text, d.kind, d.size) for d in message.documents
                ],
            )
        )
    title = chat.title[:LONGEST_NAME]
    named = {h for edits in (chat.edits, *(m.edits for m in messages)) for h in edits.directions}
    whole = msgspec.structs.replace(Sampling(), **chat.sampling.values)
    file = ChatFile(
        *("cutaway-chat", VERSION, title, chat.system, whole, chat.sampling),
        folder=chat.folder[:LONGEST_NAME],
        tags=[tag[:LONGEST_NAME] for tag in chat.tags[:MOST_TAGS]],
        form=chat.form,
        edits=chat.edits,
        vectors=store.vectors.packed(named),
    )
    return file, messages


def _with_those_above(messages: Mapping[int, Message], last: int) -> dict[int, Message]:
    """A message and those above it, the first one first."""
    kept: list[Message] = []
    at: int | None = last
    while at is not None:
        kept.append(messages[at])
        at = messages[at].parent
    return {message.id: message for message in reversed(kept)}


def _insert(
    store: ChatStore,
    file: ChatFile,
    messages: Sequence[ChatFileMessage],
    report: Callable[[int, int], None],
    stopped: Callable[[], bool],
) -> int:
    """The chat stays hidden until all of it is written; what comes of less is deleted with the
    store. Each transaction is short: the window writes beside it.
    """
    title = " ".join(file.title.split()) or UNTITLED
    chat_id = store.create(
        *(title, file.system, file.chosen),
        hidden=True,
        form=file.form,
        folder=" ".join(file.folder.split()),
        tags=[tag for text in file.tags for tag in text.split()],
    )
    if file.edits or file.vectors:
        store.update(chat_id, touch=False, edits=file.edits, vectors=file.vectors)
    new: list[Message] = []
    for batch in _batches(messages):
        report(len(new), len(messages))
        _go_on_unless(stopped)
        begin = len(new)
        new += [_message(chat_id, message) for message in batch]
        store.add_all(
            [
                (made, None if stored.parent is None else new[stored.parent], _tokens(stored))
                for made, stored in zip(new[begin:], batch, strict=True)
            ]
        )
        time.sleep(PAUSE_S)
    _choose(store, messages, new)
    _go_on_unless(stopped)
    return chat_id


def _shown(store: ChatStore, chats: Sequence[int]) -> int:
    """Show hidden chats in the list, all or none; the first one's id."""
    with store.together():
        for chat_id in reversed(chats):
            store.undelete(chat_id)
    return chats[0]


def _go_on_unless(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise Cancelled(tr("the import"))


def _batches(messages: Sequence[ChatFileMessage]) -> Iterator[list[ChatFileMessage]]:
    batch: list[ChatFileMessage] = []
    size = 0
    for message in messages:
        if batch and (len(batch) == BATCH or size + len(message.text) > BATCH_TEXT):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.text)
    if batch:
        yield batch


def _message(chat_id: int, stored: ChatFileMessage) -> Message:
    return Message(
        0,
        chat_id,
        None,
        stored.role,
        stored.text,
        stored.created,
        stored.model,
        stored.finish,
        stored.problem,
        stored.stats,
        len(stored.tokens.ids) // 4 if stored.tokens else 0,
        pictures=stored.shown,
        documents=stored.attached,
        calls=stored.called,
        tools=tuple(stored.tools),
        edits=stored.edited,
    )


def _quoted(document: Document) -> str:
    """A document in Markdown: its name, and its text behind a fence that the text does not end."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", document.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{_label(document.name)}:\n\n{fence}\n{document.text}\n{fence}"


def _called(use: ToolUse) -> str:
    """A call in Markdown: the tool's name, the arguments and the result as plain text."""
    name = tr("Call of {label} ({state})", label=_label(use.name), state=use.state)
    parts = [
        Document(name, "text", use.arguments, 0),
        Document(tr("Result"), "text", use.result, 0),
    ]
    return "\n\n".join(map(_quoted, parts))


def _label(name: str) -> str:
    """Return a picture's name from an untrusted file as plain text in Markdown."""
    return re.sub(r"[\[\]\\`*_<>!\s]+", " ", name).strip()


def _tokens(stored: ChatFileMessage) -> Tokens | None:
    return None if stored.tokens is None else Tokens.of(stored.tokens)


def _choose(store: ChatStore, messages: Sequence[ChatFileMessage], new: Sequence[Message]) -> None:
    """Where nothing is chosen the newest branch is shown, so only others are written."""
    newest = {message.parent: place for place, message in enumerate(messages)}
    wanted = [
        new[place]
        for place, message in enumerate(messages)
        if message.chosen and newest[message.parent] != place
    ]
    for first in range(0, len(wanted), BATCH):
        with store.together():
            for message in wanted[first : first + BATCH]:
                store.choose(message)
