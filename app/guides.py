"""The guides that come with the program (resources/docs), in sections for the window."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from app.language import used

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
    """A part of a guide. `page` is the guide's title, which is also that of its beginning; `text`
    is Markdown; `topic` is the title in English.
    """

    page: str
    title: str
    text: str
    topic: str

    @property
    def begins(self) -> bool:
        """True for the beginning of a guide."""
        return self.title == self.page

    @property
    def heading(self) -> str:
        """The guide's title and its own."""
        return self.page if self.begins else f"{self.page}: {self.title}"


def sections() -> list[Section]:
    """All sections of all guides, in the language in use where they are translated. Links to other
    guides are plain words, and pictures are left out.

    A line of text is a paragraph, as the window shows line breaks.
    """
    folder = files("resources") / "docs"
    found = []
    for name in PAGES:
        english = _parts(folder / f"{name}.md")
        own = folder / used() / f"{name}.md"
        shown = _parts(own) if own.is_file() else english
        for (title, text), (topic, _) in zip(shown, english, strict=True):
            found.append(Section(shown[0][0], title, text, topic))
    return found


def _parts(page: Traversable) -> list[tuple[str, str]]:
    """Title and text of the beginning of a page and of each section."""
    text = LINK.sub(r"\1", PICTURE.sub("", page.read_text("utf-8"))).removeprefix("# ")
    parts = (part.partition("\n") for part in re.split(r"^## ", text, flags=re.MULTILINE))
    return [(title, _unwrapped(body)) for title, _, body in parts]


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
