"""The tables of resources/docs/models.md, made from the modules of architectures and of towers.

    python -m tests.models_page

writes them anew. The models' names are what a module's docstring begins with, up to its colon.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from engine.models.build import find, supported
from engine.models.vision.build import families

PAGE = Path(__file__).parent.parent / "resources" / "docs" / "models.md"
TEXT = "| `general.architecture` | models |\n|---|---|\n"
PICTURES = "| `clip.projector_type` | models |\n|---|---|\n"


def table(head: str, modules: Iterable[tuple[str | None, str]]) -> str:
    """A row for each module, by its docstring, with all names that lead to it."""
    names: dict[str, list[str]] = defaultdict(list)
    for docstring, name in modules:
        names[(docstring or "").split(":")[0]].append(f"`{name}`")
    rows = sorted((", ".join(found), models) for models, found in names.items())
    return head + "".join(f"| {found} | {models} |\n" for found, models in rows)


def tables() -> dict[str, str]:
    """Both tables by their heads. A tower that comes in its text model's file has no projector."""
    towers = [
        (family.__doc__, name)
        for family in families()
        for name in family.Model.projectors or family.Model.architectures
    ]
    return {
        TEXT: table(TEXT, [(find(arch).__doc__, arch) for arch in supported()]),
        PICTURES: table(PICTURES, towers),
    }


def write() -> bool:
    """Writes the tables into their page; returns whether that changed it."""
    text = made = PAGE.read_text("utf-8")
    for head, new in tables().items():
        before, behind = re.split(re.escape(head) + r"(?:\|.*\n)*", made)
        made = before + new + behind
    PAGE.write_text(made, "utf-8")
    return made != text


if __name__ == "__main__":
    print("the page is written anew" if write() else "the page was right")
