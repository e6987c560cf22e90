"""The guides that come with the program (resources/docs), in sections for the window."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

PAGES = (
    "window",
    "words",
    "commands",
    "models",
    "server",
    "tools",
    "python",
    "laboratory",
    "speed",
)
"""Of the guides, those for users, in this order."""
PICTURE = re.compile(r"^!\[.*\n", re.MULTILINE)  # on pages in the repository alone
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
STRUCTURE = re.compile(r"[|#>]|```|[-*] ")  # what a line begins with that is no prose


class Section(NamedTuple):
    """A part of a guide: the guide's title, its own, which is empty for the beginning, and its
    Markdown.
    """

    page: str
    title: str
    text: str


def sections() -> list[Section]:
    """All sections of all guides. Links to other guides are plain words, and pictures are left out.

    A line of text is a paragraph, as the window shows line breaks.
    """
    folder = files("resources") / "docs"
    texts = ((folder / f"{name}.md").read_text("utf-8") for name in PAGES)
    return [section for text in texts for section in _sections(text)]


def _sections(text: str) -> Iterator[Section]:
    text = LINK.sub(r"\1", PICTURE.sub("", text))
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, beginning = head.removeprefix("# ").partition("\n")
    yield Section(title, "", _unwrapped(beginning))
    for part in parts:
        name, _, body = part.partition("\n")
        yield Section(title, name, _unwrapped(body))


def _unwrapped(text: str) -> str:
    """The text with each paragraph in one line; code and tables stay."""
    lines: list[str] = []
    in_code = goes_on = False
    for line in text.splitlines():
        if goes_on and not in_code and line and not STRUCTURE.match(line):
            lines[-1] += f" {line.strip()}"
            continue
        lines.append(line)
        in_code ^= line.startswith("```")
        goes_on = bool(line) and not line.startswith(("|", "#", "```"))
    return "\n".join(lines).strip()
