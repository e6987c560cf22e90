"""Recipes of the guides, done in a copy of the tree: each block of code says where it belongs."""

import re
from pathlib import Path

# In `path`: a new file. In `path`, below `line`: further lines of one that there is.
BLOCK = re.compile(
    r"\b[Ii]n\s+`([\w/.]+)`(?:,\s+(above|below)\s+`([^`]+)`)?:\n\n```\w+\n(.*?)```", re.DOTALL
)


def followed(guide: Path, tree: Path) -> list[str]:
    """Do in `tree` what a guide says; the files it names, once for each block."""
    named = []
    for path, where, anchor, text in BLOCK.findall(guide.read_text("utf-8")):
        file = tree / path
        if not where:
            assert not file.exists(), f"{path} is there already"
            file.write_text(text, "utf-8")
        else:
            lines = file.read_text("utf-8").splitlines(keepends=True)
            (at,) = (i for i, line in enumerate(lines) if anchor in line)
            lines.insert(at + (where == "below"), text)
            file.write_text("".join(lines), "utf-8")
        named.append(path)
    return named
