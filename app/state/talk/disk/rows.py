"""What the rows of the chats' database mean."""

import sqlite3
from dataclasses import dataclass, field

import msgspec

from app.state.talk.message import Message, Picture
from engine.protocol import AnswerForm, Sampling, Stats

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
    sampling: Sampling = field(default_factory=Sampling)
    draft: str = ""
    form: AnswerForm | None = None
    snippet: str = ""
    hit: int | None = None
    served: str = ""


def chat_of(row: sqlite3.Row, snippet: str = "", hit: int | None = None) -> ChatRow:
    try:
        sampling = msgspec.json.decode(row["sampling"], type=Sampling)
    except msgspec.MsgspecError:
        sampling = Sampling()
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
        sampling,
        row["draft"],
        form,
        snippet,
        hit,
        row["served"],
    )


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
