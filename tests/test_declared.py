"""Every library that the program imports is declared in pyproject.toml."""

import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GROUPS = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]

OURS = {"app", "engine"}
IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
OF_PYSIDE = "shiboken6"  # of the same version as PySide6, which requires it


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


DECLARED = {normal(re.split(r"[\[<>=!~;, ]", line)[0]) for group in GROUPS for line in group}


@cache
def imported(top: str) -> set[str]:
    """Return packages by the lines that import them, which takes a tenth of what parsing does.

    A line of a docstring may look like one, too: its word is hardly the name of a package.
    """
    found = set()
    for path in (ROOT / top).rglob("*.py"):
        found |= set(IMPORT.findall(path.read_text("utf-8")))
    return found - sys.stdlib_module_names - OURS - {OF_PYSIDE}


FAULTY = {
    "filelock": ("3.20.0", "a link in the place of a lock is followed (CVE-2025-68146)"),
    "h11": ("0.15.0", "a chunk may end wrongly, and requests be smuggled (CVE-2025-43859)"),
    "jinja2": ("3.1.5", "the filter `attr` leaves the sandbox (CVE-2025-27516)"),
    "pillow": ("12.3.0", "a JPEG file writes outside memory (CVE-2026-112403)"),
    "pyside6-essentials": ("6.8.2", "older ones were never run"),
}
"""The last version of a library with a published fault that a file or a client could use."""


@pytest.mark.parametrize("name", FAULTY)
def test_no_version_with_a_published_fault_is_allowed(name: str) -> None:
    faulty, why = FAULTY[name]
    lines = [Requirement(line) for group in GROUPS for line in group]
    found = [line for line in lines if normal(line.name) == name]
    assert found
    assert not any(line.specifier.contains(faulty) for line in found), why


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
