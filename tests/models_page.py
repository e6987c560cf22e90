"""The table of resources/docs/models.md, made from the architectures that have a module.

    python -m tests.models_page

writes it anew. The models' names are what a module's docstring begins with, up to its colon.
"""

import re
from collections import defaultdict
from pathlib import Path

from engine.models.build import find, supported

PAGE = Path(__file__).parent.parent / "resources" / "docs" / "models.md"
HEAD = "| `general.architecture` | models |\n|---|---|\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table() -> str:
    """A row for each module, with all names that lead to it."""
    names: dict[str, list[str]] = defaultdict(list)
    for arch in supported():
        names[(find(arch).__doc__ or "").split(":")[0]].append(f"`{arch}`")
    rows = sorted((", ".join(archs), models) for models, archs in names.items())
    return HEAD + "".join(f"| {archs} | {models} |\n" for archs, models in rows)


def write() -> bool:
    """Writes the table into its page; returns whether that changed it."""
    text = PAGE.read_text("utf-8")
    made = TABLE.sub(lambda _: table(), text)
    PAGE.write_text(made, "utf-8")
    return made != text


if __name__ == "__main__":
    print("the page is written anew" if write() else "the page was right")
