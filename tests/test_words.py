"""Plain English, as far as it can be counted: words banned from strings that a person reads, and
docstrings that begin as a fragment. The glossary is in .github/CONTRIBUTING.md.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parsed import nodes
from tests.parsed import tree as tree_of

ROOT = Path(__file__).parent.parent
MOST_FRAGMENTS = 77  # docstrings; lower it with the count, never raise it
FRAGMENT = re.compile(r"(What|Of|As|Those|Whether|The ones?( |$)(that|which|whose|of|for)?)\b")

# Parts of a program do not speak, hear or obey; the field has its own words.
BANNED = (
    *("tell", "tells", "told", "ask", "asks", "asked", "asking", "hear", "hears", "heard"),
    *("obey", "obeys", "obeyed", "said", "stands", "stood", "seen", "manyeth", "respelt"),
    *("anew", "besides", "behind", "lies", "likewise", "meanwhile", "wants", "whereupon"),
    *("gone on with", "going on with", "goes on", "go on", "one that sees", "model that sees"),
    *("comes about", "comes along", "came along", "of one's own", "who asks", "will do"),
    *("is no number", "is no text", "is no file", "is no JSON", "is no object", "is no multiple"),
    *("are no multiple", "so many", "as many", "that is there", "is not there"),
)
BANNED_WORDS = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
SPOKEN = {"tell", "tells", "told", "hear", "hears", "heard", "asked", "said", "says", "obey"}
SPOKEN_PROSE = re.compile(r"\b(tells?|told|hears?|heard|obeys?)\b", re.IGNORECASE)
FIELD = re.compile(r"\{\w+[^{} ]*\}")  # of str.format
NOT_PROSE = re.compile(r"CREATE |SELECT |DELETE |INSERT |UPDATE |\(\?|\\\\[a-z]\+")
DOCS = sorted((ROOT / "resources" / "docs").glob("*.md"))
GUIDES = ("README.md", *(str(page.relative_to(ROOT)) for page in DOCS))
# Sentences for a model, and samples of text, are not the program's own words.
SAMPLES = ("app/defaults/__init__.py", "engine/runner/forms/turns.py")


def _modules(*tops: str) -> Iterator[Path]:
    for top in tops:
        yield from sorted((ROOT / top).rglob("*.py"))


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def fragments(tree: ast.Module) -> list[int]:
    """Lines of definitions whose docstring begins without a subject."""
    return [line for line, text in _docstrings(tree) if FRAGMENT.match(text)]


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings of two words or more, with {} for what an f-string inserts; docstrings apart."""
    apart: set[ast.AST] = set()
    found = nodes(tree)
    for node in found:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            apart.add(node.value)
        if isinstance(node, ast.JoinedStr):
            apart |= {part for part in nodes(node) if part is not node and _is_piece(part)}
    for node in found:
        text = None if node in apart else _text(node)
        if text and re.search(r"\w\w.* .*\w\w", text) and not NOT_PROSE.search(text):
            yield getattr(node, "lineno", 1), text


def _is_piece(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Constant)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return FIELD.sub("{}", node.value)
    return None


def banned(tree: ast.Module) -> list[str]:
    """Banned words in strings, each with its line and its sentence."""
    return [
        f"{line}: {match[0]!r} in {text!r}"
        for line, text in sentences(tree)
        if (match := BANNED_WORDS.search(text))
    ]


def test_strings_use_the_fields_words() -> None:
    found = []
    for path in _modules("app", "engine", "kernels_cl"):
        name = str(path.relative_to(ROOT))
        if name not in SAMPLES:
            found += [f"{name}:{line}" for line in banned(tree_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", GUIDES)
def test_guides_use_the_fields_words(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    found = [
        f"{name}:{number}: {match[0]!r} in {line!r}"
        for number, line in enumerate(prose.splitlines(), 1)
        if (match := BANNED_WORDS.search(line))
    ]
    assert not found, "\n".join(found)


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    count, found = 0, []
    for path in _modules("app", "engine", "kernels_cl"):
        lines = fragments(tree_of(path))
        count += len(lines)
        found += [f"{path.relative_to(ROOT)}:{line}" for line in lines]
    listed = "\n".join(found[-20:])
    assert count <= MOST_FRAGMENTS, f"{count} docstrings begin as fragments, the last:\n{listed}"
    assert count == MOST_FRAGMENTS, f"{count} are left: set MOST_FRAGMENTS to {count}"


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that a module defines: classes, functions, parameters, variables, attributes."""
    for node in nodes(tree):
        line = getattr(node, "lineno", 1)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield line, node.name
        elif isinstance(node, ast.arg):
            yield line, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield line, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield line, node.attr


def spoken(tree: ast.Module) -> list[str]:
    """Names of parts that speak or listen, each with its line."""
    parts = r"[A-Z]?[a-z]+"
    return [
        f"{line}: {name}"
        for line, name in names(tree)
        if SPOKEN & {part.lower() for part in re.findall(parts, name)}
    ]


def test_no_name_speaks_or_listens() -> None:
    found = []
    for path in _modules("app", "engine", "kernels_cl"):
        found += [f"{path.relative_to(ROOT)}:{one}" for one in spoken(tree_of(path))]
    assert not found, "\n".join(found)


def test_no_part_of_the_program_speaks_or_listens() -> None:
    found = []
    for path in _modules("app", "engine", "kernels_cl"):
        for line, text in _docstrings(tree_of(path)):
            if match := SPOKEN_PROSE.search(text):
                found.append(f"{path.relative_to(ROOT)}:{line}: {match[0]!r}")
    assert not found, "\n".join(found)


def test_a_bad_name_is_found() -> None:
    tree = ast.parse("def hear(x):\n    self._said = told = x\n    heartbeat = 1\n")
    assert spoken(tree) == ["1: hear", "2: _said", "2: told"]


def test_a_bad_sentence_is_found() -> None:
    tree = ast.parse(
        'button.setToolTip("What is told to those who listen")\n'
        'raise Error(f"{name} is no number of a layer")\n'
        'label("Nothing goes wrong here")\n'
        'sort("behind")\n'
    )
    assert [line.split(":")[0] for line in banned(tree)] == ["1", "2"]
    tree = ast.parse(
        'def f():\n    """What the layers are told in."""\n'
        'def g():\n    """The ones that wait."""\n'
        'def h():\n    """Whatever is given is returned."""\n'
    )
    assert fragments(tree) == [1, 3]
