"""Conversions between rows of the chats' database and objects."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypeVar

import msgspec

from app.documents.document import Document
from app.language import mark
from app.state.presets import OwnSampling, own_of_whole
from app.state.talk.edits import NO_EDITS, EditSet, decoded, of_changes
from app.state.talk.message import Message, Picture, Role
from app.tools.calling import ToolUse
from engine.protocol import AnswerForm, Stats, Tool

Item = TypeVar("Item")
UNTITLED = mark("New chat")
SPOILT = "\N{REPLACEMENT CHARACTER}"  # stands for bytes that are not text
LATEST = 253402300800.0  # the year 10000
SHOWN = ("title", "created", "changed", "model", "system", "draft", "served", "folder")


@dataclass(frozen=True)
class ChatRow:
    """A chat without its messages; `snippet` is the text around what was searched for, `hit` the
    message that has it. `folder` is the name of the folder it is in, empty for none.

    Times are seconds since the epoch; `model` is the file of the last answer; `served` the program
    whose request it is, empty of a person's own.
    """

    id: int
    title: str = UNTITLED
    created: float = 0.0
    changed: float = 0.0
    model: str = ""
    system: str = ""
    sampling: OwnSampling = OwnSampling()
    draft: str = ""
    form: AnswerForm | None = None
    snippet: str = ""
    hit: int | None = None
    served: str = ""
    pinned: bool = False
    folder: str = ""
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    edits: EditSet = NO_EDITS
    damaged: bool = False


def chat_of(row: sqlite3.Row) -> ChatRow:
    """A row of `chats`. SQLite keeps any type in any column: a value that is damaged is replaced by
    a readable one, and the chat is marked.
    """
    try:
        form = msgspec.json.decode(row["form"], type=AnswerForm) if row["form"] else None
    except (msgspec.MsgspecError, TypeError, ValueError):
        form = None
    chat = ChatRow(
        row["id"],
        text_of(row["title"]),
        _time(row["created"]),
        _time(row["changed"]),
        text_of(row["model"]),
        text_of(row["system"]),
        _own_of(row["sampling"]),
        text_of(row["draft"]),
        form,
        served=text_of(row["served"]),
        pinned=row["pinned"] == 1,
        folder=text_of(row["folder"]),
        tags=tuple(text_of(row["tags"]).split()),
        tools=_decoded(row["tools"], tuple[str, ...]),
        edits=decoded(row["edits"]),
    )
    values = ((name, getattr(chat, name)) for name in SHOWN)
    damaged = any(row[name] != value or SPOILT in str(value) for name, value in values)
    return replace(chat, damaged=damaged)


def text_of(value: object) -> str:
    """A text column, whatever is in it."""
    if isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _time(value: object) -> float:
    """Seconds since the epoch, 0 for what is not a time that a calendar has."""
    known = isinstance(value, int | float) and 0 <= value < LATEST
    return float(value) if known and isinstance(value, int | float) else 0.0


def _id(value: object) -> int | None:
    return value if isinstance(value, int) else None


def own_as_json(sampling: OwnSampling) -> str:
    """The column `sampling` of a chat."""
    return msgspec.json.encode({"own": sampling}).decode()


def _own_of(text: str) -> OwnSampling:
    """Parse the JSON of `own_as_json`; earlier versions kept a whole sampling there."""
    try:
        kept = msgspec.json.decode(text, type=dict[str, Any])
        return msgspec.convert(kept.get("own", own_of_whole(kept)), OwnSampling)
    except (msgspec.MsgspecError, TypeError, ValueError, AttributeError):
        return OwnSampling()


# The columns of `message_of`, by their place: thousands of rows are read at once.
MESSAGE = "id,chat,parent,role,text,created,model,finish,problem,stats,n_tokens,calls,tools,edits"
_WRITTEN = (str, str, float, str, str, str, NoneType, int)
WHOLE = {(int, int, parent, *_WRITTEN) for parent in (int, NoneType)}
"""The types of the first columns of a message as it is written, without `stats`."""


def message_of(
    row: Sequence[Any], pictures: tuple[Picture, ...], documents: tuple[Document, ...] = ()
) -> Message:
    """A row of `messages` that begins with the columns MESSAGE, likewise."""
    number, chat, parent, role, text, created, model, finish = row[:8]
    problem, stats, n_tokens, calls, tools, edits = row[8:14]
    wrote: Role = "user" if role == "user" else "assistant"
    whole = tuple(map(type, row[:11])) in WHOLE and 0 <= created < LATEST and n_tokens >= 0
    if whole and not (stats or calls or tools or edits):
        return Message(
            *(number, chat, parent, wrote, text, created, model, finish, problem, None, n_tokens),
            pictures=pictures,
            documents=documents,
        )
    counted: Stats | None = None
    if stats:
        try:
            counted = msgspec.json.decode(stats, type=Stats)
        except (msgspec.MsgspecError, TypeError, ValueError):  # of another version, or damaged
            counted = None
    made = decoded(edits) if edits else NO_EDITS
    if not made and counted is not None and counted.changes:  # of an earlier version
        made = of_changes(counted.changes)
    return Message(
        number,
        _id(chat) or 0,
        _id(parent),
        wrote,
        text_of(text),
        _time(created),
        text_of(model),
        text_of(finish),
        text_of(problem),
        counted,
        max(0, _id(n_tokens) or 0),
        pictures=pictures,
        documents=documents,
        calls=_decoded(calls, tuple[ToolUse, ...]) if calls else (),
        tools=_decoded(tools, tuple[Tool, ...]) if tools else (),
        edits=made,
    )


def _decoded(column: Any, kind: type[tuple[Item, ...]]) -> tuple[Item, ...]:
    """A list as JSON; empty where it is damaged."""
    try:
        return msgspec.json.decode(column, type=kind) if column else ()
    except (msgspec.MsgspecError, TypeError, ValueError):
        return ()
