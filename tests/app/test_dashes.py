"""One dash in all texts that a person reads: see `app/words.py`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.parsed import all_nodes
from tests.test_tree import MODULES, ROOT, inside

# "—"; "-" alone; "-" between blanks; an en dash that touches a word on one side only.
WRONG = re.compile(r"—|^-$|(?<=\S) - (?=\S)|(?<=\w)– |(?<= )–(?=\w)")
# A single "-" that is no text: parts of names, versions, file names and options.
NO_TEXT = {
    "app/commands/run.py",
    "app/cli.py",
    "app/defaults/places.py",
    "app/defaults/suggest.py",
    "app/fetch/index.py",
    "app/commands/rerank.py",
    "app/fetch/ranges.py",
    "app/fetch/search.py",
    "app/fetch/transfer.py",
    "app/report/first_run.py",
    "app/state/lab/verbs.py",
    "app/views/talk/edits.py",
    "app/state/memory/splits.py",
    "app/state/layers/placing.py",
    "app/state/talk/disk/packed_pictures.py",
    "app/stores.py",
    "app/views/graph/graph.py",
    "app/views/tensors/experts.py",
    "app/window/desk.py",
}


def texts(path: Path) -> Iterator[str]:
    """Every string of a module that is not a docstring."""
    found = all_nodes(path)
    said = {id(node.value) for node in found if isinstance(node, ast.Expr)}
    for node in found:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_one_dash_everywhere() -> None:
    found = []
    for name, path in MODULES.items():
        file = str(path.relative_to(ROOT))
        if inside(name, "app"):
            wrong = (text for text in texts(path) if WRONG.search(text))
            found += [f"{file}: {text!r}" for text in wrong if text != "-" or file not in NO_TEXT]
    assert found == []


def test_it_sees_each_wrong_dash() -> None:
    for wrong in ("a — b", "-", "a - b", "1– 2", "1 –2"):
        assert WRONG.search(wrong), wrong
    for right in ("–", "60–90", "From – to", "by-product", " – ", "--json", "-1", "pre- and post-"):
        assert not WRONG.search(right), right
