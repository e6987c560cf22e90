"""One message of a chat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.documents.document import Document, with_documents
from app.language import tr
from app.state.talk.edits import NO_EDITS, EditSet
from app.tools.calling import ToolUse
from engine.protocol import PictureLimits, Stats, Tool

Role = Literal["user", "assistant"]
TITLE = 48  # characters of a title made from the first question


@dataclass(frozen=True)
class Picture:
    """A picture that a chat keeps: `hash` is the SHA-256, in hex, of its file's bytes; `name` what
    the file was called, for people only. Models see it within `limits`.
    """

    hash: str
    name: str
    limits: PictureLimits = PictureLimits()


@dataclass
class Message:
    """A node of a chat's tree. `text` is all of it, a reasoning block included.

    `finish` is why an answer ended: stop, length, context, loop, cancelled, failed, died, edited;
    empty while it is written (or where the program ended meanwhile). `place` counts from 0 among
    its `siblings`. `problem` is the error of a failed answer. `n_tokens` are those of the answer.
    `pictures` come before the text, `documents` after it; an answer has pictures of the results of
    its `calls`, the `tools` that its prompt offered, and the `edits` that it was written with.
    """

    id: int
    chat: int
    parent: int | None
    role: Role
    text: str = ""
    created: float = 0.0  # seconds since the epoch
    model: str = ""
    finish: str = ""
    problem: str = ""
    stats: Stats | None = None
    n_tokens: int = 0
    place: int = 0
    siblings: int = 1
    pictures: tuple[Picture, ...] = ()
    documents: tuple[Document, ...] = ()
    calls: tuple[ToolUse, ...] = ()
    tools: tuple[Tool, ...] = ()
    edits: EditSet = NO_EDITS

    @property
    def prompt(self) -> str:
        """The text for the model: with that of the documents."""
        return with_documents(self.text, self.documents) if self.documents else self.text

    @property
    def seed(self) -> int | None:
        """The seed of the answer's sampling."""
        return self.stats.seed if self.stats is not None else None


def title_of(question: str, attached: Sequence[Picture | Document] = ()) -> str:
    """Return the title of a chat that starts with this message."""
    title = question.strip() or (attached[0].name if attached else "")
    line = title.splitlines()[0].strip() if title else tr("Picture")
    return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"
