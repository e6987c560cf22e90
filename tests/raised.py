"""The texts of errors that can reach the window: `python -m tests.raised` prints those that German
lacks, as JSON to fill in.
"""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from app.translated import FIELD
from tests.parsed import all_nodes, nodes

ROOT = Path(__file__).parent.parent
APART = (
    # Of the command line alone
    *("app/bench", "app/checks", "app/commands", "app/cli.py", "app/report/first_run.py"),
    *("app/terminal", "engine/selftest"),
    # Of code that calls another part of the engine wrongly
    *("engine/graph", "engine/layers", "engine/device"),
)
INTERNAL = {"ShapeError", "UsageError"}
WORD = re.compile(r"[a-zA-Z]{2,}")
FIELDS = re.compile(r"(\{\})+")
CATALOGUES = ROOT / "resources" / "languages" / "errors"
_FORMS = ROOT / "engine" / "errors.py"


@cache
def kinds() -> frozenset[str]:
    """The names of the classes of errors that are meant for the reader."""
    found = {"CutawayError"}
    bases = {
        node.name: {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        for top in ("engine", "app")
        for path in (ROOT / top).rglob("*.py")
        for node in all_nodes(path)
        if isinstance(node, ast.ClassDef)
    }
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return frozenset(found - INTERNAL)


@cache
def raised() -> dict[str, str]:
    """Every text, its fields as {}, with the first place that says it."""
    found: dict[str, str] = {}
    for top in ("engine", "app"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.startswith(APART):
                for text, line in _of(path):
                    found.setdefault(text, f"{name}:{line}")
    return found


def _of(path: Path) -> Iterator[tuple[str, int]]:
    names = kinds() | ({"__init__"} if path == _FORMS else set())
    found = all_nodes(path)
    if not any(_makes(names, node) for node in found):
        return
    for scope in found:
        if not isinstance(scope, ast.FunctionDef):
            continue
        inside = nodes(scope)
        given: dict[str, list[ast.expr]] = {}
        for node in inside:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                given.setdefault(node.targets[0].id, []).append(node.value)
        for node in inside:
            if not (isinstance(node, ast.Call) and _makes(names, node)):
                continue
            for part in (*node.args, *(word.value for word in node.keywords)):
                sources = given.get(part.id, []) if isinstance(part, ast.Name) else [part]
                for source in sources:
                    for text in _texts(source):
                        if " " in text and len(WORD.findall(text)) > 1:
                            yield FIELDS.sub("{}", text).removeprefix("{}: "), node.lineno


def _makes(names: frozenset[str], node: ast.AST) -> bool:
    """Whether it calls one of these."""
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "id", getattr(node.func, "attr", "")) in names


def _texts(node: ast.expr) -> list[str]:
    """The texts that an expression can give."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        ends = _texts(node.right) or ["{}"]
        return [start + end for start in _texts(node.left) or ["{}"] for end in ends]
    return []


def known(language: str) -> dict[str, str]:
    """A catalogue: texts with fields as {1}, {2} …, and their translations."""
    texts: dict[str, str] = json.loads((CATALOGUES / f"{language}.json").read_text("utf-8"))
    return texts


def missing(language: str) -> dict[str, str]:
    """The texts that a language lacks, their fields numbered, with their places."""
    there = {FIELD.sub("{}", text) for text in known(language)}
    found = {}
    for text, place in raised().items():
        if text not in there:
            numbers = count(1)
            found[re.sub(r"\{\}", lambda _: f"{{{next(numbers)}}}", text)] = place  # noqa: B023
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", default="de")
    lacks = missing(parser.parse_args().language)
    print(json.dumps(dict.fromkeys(lacks, ""), ensure_ascii=False, indent=1))
