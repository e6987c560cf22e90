"""Tools as they are known here, their results, and the names that a model calls them by."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from engine.protocol import Tool

LONGEST_NAME = 64
NAME = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_DESCRIPTION = 1 << 14  # characters, of description and schema together
MOST_TOOLS = 128
BETWEEN = "__"


@dataclass(frozen=True)
class KnownTool:
    """A tool of the server called `server`, whose config has the hash `owner`; both are empty for
    built-in ones. `schema` is the JSON schema of its arguments as text.

    `destructive` is the server's own word, taken only to be stricter.
    """

    server: str
    owner: str
    name: str
    full: str
    description: str = ""
    schema: str = "{}"
    destructive: bool = False

    @property
    def digest(self) -> str:
        """SHA-256 of all that the model reads of it, in hex: a consent is for this."""
        parts = [self.owner, self.name, self.full, self.description, self.schema]
        return sha256(json.dumps([*parts, self.destructive]).encode()).hexdigest()

    @property
    def built_in(self) -> bool:
        """True if it is a part of Cutaway."""
        return not self.owner

    @property
    def offer(self) -> Tool:
        """The tool as the engine takes it."""
        return Tool(self.full, self.description, self.schema)


@dataclass(frozen=True)
class ToolResult:
    """The text and the pictures (bytes of files) that a call gave; a `failed` one says why."""

    text: str
    pictures: tuple[bytes, ...] = ()
    failed: bool = False


def failure(problem: str) -> ToolResult:
    """An error as a result, which the model reads."""
    return ToolResult(f"error: {problem}", failed=True)


def full_name(slug: str, name: str) -> str:
    """The name that a model calls it by: `server__tool`."""
    return f"{slug}{BETWEEN}{re.sub(r'[^A-Za-z0-9_-]', '_', name)}"


def without_clashes(tools: Iterable[KnownTool]) -> tuple[list[KnownTool], list[str]]:
    """The tools that can be offered, and a sentence for each that cannot."""
    every = list(tools)
    counts = Counter(tool.full for tool in every)
    kept: list[KnownTool] = []
    notes = []
    for tool in every:
        shown = tool.full[:LONGEST_NAME]
        size = len(tool.description) + len(tool.schema)
        if counts[tool.full] > 1:
            notes.append(f"{shown} is left out: several tools have this name")
        elif len(tool.full) > LONGEST_NAME or not NAME.fullmatch(tool.full):
            notes.append(f"{shown}… is left out: its name is longer than {LONGEST_NAME} characters")
        elif size > LONGEST_DESCRIPTION:
            notes.append(f"{shown} is left out: its description has {size} characters")
        elif len(kept) == MOST_TOOLS:
            notes.append(f"{shown} is left out: {MOST_TOOLS} tools are the most")
        else:
            kept.append(tool)
    return kept, list(dict.fromkeys(notes))
