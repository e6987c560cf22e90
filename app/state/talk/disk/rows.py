"""What the rows of the chats' database mean."""

import sqlite3
from dataclasses import dataclass
from typing import Any

import msgspec

from app.state.presets import OwnSampling, own_of_whole
from app.state.talk.message import Message, Picture
from engine.protocol import AnswerForm, Stats

UNTITLED = "New chat"


@dataclass(frozen=True)
class ChatRow:
    """A chat without its messages; `snippet` is the text around what was searched for, `hit` the
    message that has it.

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


def chat_of(row: sqlite3.Row, snippet: str = "", hit: int | None = None) -> ChatRow:
    try:
        form = msgspec.json.decode(row["form"], type=AnswerForm) if row["form"] else None
    except msgspec.MsgspecError:
        form = None
    return ChatRow(
        row["id"],
        row["title"],
        row["created"],
        row["changed"],
        row["model"],
        row["system"],
        _own_of(row["sampling"]),
        row["draft"],
        form,
        snippet,
        hit,
        row["served"],
    )


def own_as_json(sampling: OwnSampling) -> str:
    """The column `sampling` of a chat."""
    return msgspec.json.encode({"own": sampling}).decode()


def _own_of(text: str) -> OwnSampling:
    """What `own_as_json` made; earlier versions kept a whole sampling there."""
    try:
        kept = msgspec.json.decode(text, type=dict[str, Any])
        return msgspec.convert(kept.get("own", own_of_whole(kept)), OwnSampling)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return OwnSampling()


def message_of(row: sqlite3.Row, pictures: tuple[Picture, ...]) -> Message:
    try:
        stats = msgspec.json.decode(row["stats"], type=Stats) if row["stats"] else None
    except msgspec.MsgspecError:  # of another version
        stats = None
    return Message(
        row["id"],
        row["chat"],
        row["parent"],
        row["role"],
        row["text"],
        row["created"],
        row["model"],
        row["finish"],
        row["problem"],
        stats,
        row["n_tokens"],
        pictures=pictures,
    )
