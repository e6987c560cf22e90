"""Words that the window and the terminal share.

A dash is one sign everywhere, "–": alone for what is unknown or nothing, between the ends of a
range without spaces, between names with them. "-" joins words and begins options; "—" is not used.
"""

import re

from app.language import mark
from engine.protocol import StageName

UNKNOWN = "–"

# A part of a path neither begins nor ends with a space: words between two paths are no folder.
_PART = r"[^/\\\s:;”\"](?:[^/\\\n:;”\"]*[^/\\\s:;”\"])?"
_FOLDERS = re.compile(
    rf"(?:^|(?<=[\s“\"'(]))(?:[A-Za-z]:)?[/\\](?:{_PART}[/\\])+(?={_PART}\.\w{{1,12}}\b)"
)


def without_folders(text: str) -> str:
    """A text whose files are named without their folders, as a person knows them."""
    return _FOLDERS.sub("", text)


STAGES: dict[StageName, str] = {
    "load": mark("Loading the model"),
    "compile": mark("Building kernels"),
    "decode": mark("Decoding the picture"),
    "encode": mark("Encoding the picture"),
    "form": mark("Reading the output format"),
    "prefill": mark("Reading the prompt"),
    "look": mark("Inspecting a token"),
    "score": mark("Scoring the text"),
    "embed": mark("Embedding the texts"),
    "rank": mark("Ranking the texts"),
    "bench": mark("Measuring"),
}
"""What the engine does, as a title; in a line of text without the capital."""
