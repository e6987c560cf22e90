"""Every library that the program imports is declared in pyproject.toml."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GROUPS = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]

OURS = {"app", "engine"}
OF_PYSIDE = "shiboken6"  # of the same version as PySide6, which requires it


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


DECLARED = {normal(re.split(r"[\[<>=!~;, ]", line)[0]) for group in GROUPS for line in group}


@cache
def imported(top: str) -> set[str]:
    found = set()
    for path in (ROOT / top).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            found |= {name.partition(".")[0] for name in names}
    return found - sys.stdlib_module_names - OURS - {OF_PYSIDE}


@pytest.mark.parametrize("top", ["app", "engine"])
def test_what_is_imported_is_declared(top: str) -> None:
    known = packages_distributions()
    missing = {
        name
        for name in imported(top)
        if name in known and not {normal(one) for one in known[name]} & DECLARED
    }
    assert missing == set()
    assert "numpy" in imported("engine")
