"""A document: the text of a file that goes with a question."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from app.language import mark
from engine.errors import CutawayError

Kind = Literal["text", "pdf", "office", "folder", "pasted"]
KINDS: tuple[Kind, ...] = ("text", "pdf", "office", "folder", "pasted")
LONGEST_NAME = 200
PAGE = "\f"
"""Stands between the pages of a PDF's text."""
PASSWORD = mark("it is encrypted; save it without a password")
DAMAGED = mark("it is damaged; save it again from the program that made it")
_HEADING = re.compile(r"^\[(?P<name>.+), (?P<place>(?:page|line)s? [0-9–]+)\]$", re.MULTILINE)
"""Stands above each piece of a text that `of_pieces` made."""


class BadDocument(CutawayError):
    """A file whose text cannot be read."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")


@dataclass(frozen=True)
class Document:
    """`text` is all of it, `name` what the file is called. `size` counts the file's bytes,
    `scanned` the pages of a PDF that have no text, from 1.
    """

    name: str
    kind: Kind
    text: str
    size: int
    notes: tuple[str, ...] = ()
    scanned: tuple[int, ...] = ()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def unit(self) -> str:
        """The name of its parts: page or line."""
        return "page" if self.kind == "pdf" else "line"

    def parts(self) -> list[str]:
        """Its pages, or its lines."""
        return self.text.split(PAGE) if self.kind == "pdf" else self.text.split("\n")

    @property
    def body(self) -> str:
        """The text as a prompt has it, as long as `text`: a line break between pages."""
        return self.text.replace(PAGE, "\n")

    def place(self, offset: int) -> str:
        """The name with the page or line of a character: "report.pdf, page 3". In a text that is
        made of pieces it is the place that the piece's heading names.
        """
        heading = None
        for found in _HEADING.finditer(self.text, 0, offset):
            heading = found
        if heading is not None and self.name.startswith(f"{heading['name']} ("):
            return f"{heading['name']}, {heading['place']}"
        mark = PAGE if self.kind == "pdf" else "\n"
        return f"{self.name}, {self.unit} {self.text.count(mark, 0, offset) + 1}"

    def part(self, first: int, last: int) -> "Document":
        """Pages or lines `first` to `last`, from 1, as a document of its own."""
        between = PAGE if self.kind == "pdf" else "\n"
        text = between.join(self.parts()[first - 1 : last])
        name = f"{self.name} ({self.unit}s {first}–{last})"
        return Document(name, self.kind, text, len(text.encode()))


def plain_name(name: str) -> str:
    """A file's name on one line, without control and direction characters."""
    kept = "".join(
        " " if letter.isspace() else letter
        for letter in name
        if letter.isspace() or unicodedata.category(letter) not in ("Cc", "Cf", "Cs")
    )
    return re.sub(r" +", " ", kept).strip()[:LONGEST_NAME] or "file"


def with_documents(text: str, documents: Sequence[Document]) -> str:
    """A question's prompt: the person's text first, then each document under its name, as
    llama-server's page writes them.
    """
    parts = [text] if text else []
    for document in documents:
        kind = "PDF File" if document.kind == "pdf" else "File"
        parts.append(f"--- {kind}: {plain_name(document.name)} ---\n{document.body}")
    return "\n\n".join(parts)
