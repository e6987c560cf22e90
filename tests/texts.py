"""The texts that the source passes to `app.language`: `python -m tests.texts` prints those that
German lacks, as JSON to fill in.
"""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from app.language import FOLDER
from tests.parsed import all_nodes, nodes

ROOT = Path(__file__).parent.parent
CALLS = {"tr": 1, "mark": 1, "tr_n": 2}
FIELD = re.compile(r"(\{\w*([!:][^{}]*)?\})")
SENTENCE = re.compile(r"[a-zA-Z]{2,}\W* [a-zA-Z]+\W* [a-zA-Z]{2,}")
FOREIGN = re.compile(
    r"CREATE |SELECT |DELETE |INSERT |UPDATE |ALTER |DROP |PRAGMA |REPLACE |shape="
    r"| = \?| IN \(| WHERE | IS \?"
)
INTERNAL = ("ValueError", "IndexError", "TypeError", "KeyError")  # found by tests alone
LOGS = ("debug", "info", "warning", "error", "exception", "compile")
APART = ("app/state/talk/disk/database.py", "app/state/talk/tokens.py")
SAMPLES = (
    "The capital of ",
    "The quick brown fox",
    "[picture left out: {}]",
)  # of texts for a model
_PLURALS: set[str] = set()


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a module that translate, with their functions' names."""
    for node in all_nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node, node.func.id


@cache
def texts() -> dict[str, str]:
    """Every key of a catalogue with the first place that needs it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "app").rglob("*.py")):
        for node, name in calls(path):
            parts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            parts = [part for part in parts if isinstance(part, str)][: CALLS[name]]
            if len(parts) == CALLS[name]:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found.setdefault("|".join(parts), place)
                if name == "tr_n":
                    _PLURALS.add("|".join(parts))
    return found


def plurals() -> set[str]:
    """The keys that have a form for one and a form for many."""
    texts()
    return _PLURALS


def missing(language: str) -> dict[str, str]:
    """The keys that a language lacks, with their places."""
    there = json.loads((FOLDER / f"{language}.json").read_text("utf-8"))
    return {text: place for text, place in texts().items() if text not in there}


def fields(text: str) -> set[str]:
    """The fields of a text: names with their formats."""
    return {whole for whole, *_ in FIELD.findall(text.replace("{{", "").replace("}}", ""))}


def bare(top: str) -> Iterator[str]:
    """Strings of three words or more in modules of the window that nothing translates, but for
    docstrings, what a developer alone reads, SQL and formats.
    """
    for path in sorted((ROOT / top).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name in APART:
            continue
        found = all_nodes(path)
        apart = {id(part) for node in found for part in _apart(node)}
        for node in found:
            text = node.value if isinstance(node, ast.Constant) else _joined(node)
            if id(node) in apart or not isinstance(text, str) or text.startswith(SAMPLES):
                continue
            if SENTENCE.search(text) and not FOREIGN.search(text):
                yield f"{name}:{getattr(node, 'lineno', 0)}: {text!r}"


def _joined(node: ast.AST) -> str | None:
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)


def _apart(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node that are no text of the window."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.Constant))
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        if getattr(node.exc.func, "id", "") in INTERNAL:
            yield from nodes(node.exc)
    elif isinstance(node, ast.Assert | ast.arg):
        yield from nodes(node)
    elif isinstance(node, ast.keyword) and node.arg == "words":  # of a command: more to find it by
        yield from nodes(node.value)
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if getattr(node.func, "id", "") in CALLS or called in LOGS:
            yield from node.args


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", default="de")
    lacks = missing(parser.parse_args().language)
    print(json.dumps(dict.fromkeys(lacks, ""), ensure_ascii=False, indent=0))
