"""The texts that the source passes to `app.language`: `python -m tests.texts` prints those that
German lacks, as JSON to fill in.
"""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from app.language import FOLDER

ROOT = Path(__file__).parent.parent
CALLS = {"tr": 1, "mark": 1, "tr_n": 2}
FIELDS = re.compile(r"\{(\w+)?([^{}]*)\}")


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """The calls that translate, with their functions' names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node, node.func.id


def texts() -> dict[str, str]:
    """Every key of a catalogue with the first place that needs it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "app").rglob("*.py")):
        for node, name in calls(ast.parse(path.read_text("utf-8"))):
            parts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            parts = [part for part in parts if isinstance(part, str)][: CALLS[name]]
            if len(parts) == CALLS[name]:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found.setdefault("|".join(parts), place)
    return found


def missing(language: str) -> dict[str, str]:
    """The keys that a language lacks, with their places."""
    there = json.loads((FOLDER / f"{language}.json").read_text("utf-8"))
    return {text: place for text, place in texts().items() if text not in there}


def fields(text: str) -> set[str]:
    """The names of a text's fields."""
    plain = text.replace("{{", "").replace("}}", "")
    return {name for name, _ in FIELDS.findall(plain)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", default="de")
    lacks = missing(parser.parse_args().language)
    print(json.dumps(dict.fromkeys(lacks, ""), ensure_ascii=False, indent=0))
