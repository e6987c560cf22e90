"""The parts of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["thought", "answer", "call"]


@dataclass(frozen=True)
class Call:
    """A tool that is called; `arguments` are JSON values by name. `id` is empty where none is
    written.
    """

    name: str
    arguments: Mapping[str, object]
    id: str = ""


@dataclass(frozen=True)
class Passage:
    """text[start:end] of an answer: as it stands there for a thought or an answer, whose `text` it
    is, and for a call all that makes it; `number` counts an answer's calls from 0.
    """

    kind: Kind
    start: int
    end: int
    text: str = ""
    call: Call | None = None
    number: int = 0
