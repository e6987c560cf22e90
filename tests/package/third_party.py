"""Writes resources/docs/third-party.md: what an installation brings along, with its licences.

`python -m tests.package.third_party` asks the metadata of the installed packages (the core
metadata's License-Expression, License and Classifier fields). Install
`.[cpu,pocl,serve,mcp]` first.
"""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[2] / "resources" / "docs" / "third-party.md"
EXTRAS = ("cpu", "pocl", "serve", "mcp")
LABELS = ("homepage", "home", "source", "source code", "repository", "documentation")
UNNAMED = {"pocl-binary-distribution": "MIT"}  # not in its metadata, but in its repository
HEAD = """# Third-party packages

Cutaway is under the [MIT licence](../../LICENSE). Installing it also installs these packages, each
under its own licence, whose text is in the package's folder. They are not part of Cutaway's
wheel. Qt and PySide6 are used under the LGPL-3.0: they are separate, replaceable packages. Intel's
OpenCL runtime, under Intel's own licence, comes with the extra `cpu` alone.

| package | licence | home |
|---|---|---|
"""


def required(depth: int | None = None) -> dict[str, Distribution]:
    """The installed packages that Cutaway and its extras need; at so many hands, None for all."""
    found: dict[str, Distribution] = {}
    waiting = [("cutaway", EXTRAS, 0)]
    known: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        name, extras, hand = waiting.pop(0)
        if (name, extras) in known:
            continue
        known.add((name, extras))
        try:
            found[name] = package = distribution(name)
        except PackageNotFoundError:  # of another system
            continue
        if hand == depth:
            continue
        for text in package.requires or []:
            need = Requirement(text)
            marks = ({"extra": extra} for extra in ("", *extras))
            if need.marker is None or any(need.marker.evaluate(mark) for mark in marks):
                extra = tuple(sorted(need.extras))
                waiting.append((canonicalize_name(need.name), extra, hand + 1))
    found.pop("cutaway")
    return dict(sorted(found.items()))


def licence(name: str, package: Distribution) -> str:
    """Its licence in a few words; empty where the metadata has none."""
    meta = package.metadata
    classes = [
        c.split("::")[-1].strip() for c in meta.get_all("Classifier") or [] if "License" in c
    ]
    named = [text for text in classes if text != "OSI Approved"]
    written = (meta.get("License") or "").strip().splitlines()
    choices = (meta.get("License-Expression"), " and ".join(named), *written[:1], UNNAMED.get(name))
    return next((choice for choice in choices if choice), "")


def home(package: Distribution) -> str:
    """Its home page, else its repository, else the first address that its metadata gives."""
    entries = (text.split(",", 1) for text in package.metadata.get_all("Project-URL") or [])
    urls = {label.strip().lower(): url.strip() for label, url in entries}
    best = [urls.get(label, "") for label in LABELS]
    choices = (package.metadata.get("Home-page"), *best, *urls.values())
    return next((url for url in choices if url and url.startswith("http")), "")


def page() -> str:
    """The whole page."""
    rows = [
        f"| {package.metadata['Name']} | {licence(name, package)} | {home(package)} |"
        for name, package in required().items()
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(required())} packages")
