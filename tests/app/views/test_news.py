"""The version in the window, and that the changelog begins with it."""

import tomllib
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.version import changes
from app.views.news import NewsView
from tests.app.rest import come_to_rest

ROOT = Path(__file__).parents[3]


def test_the_changelog_begins_with_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert changes().startswith(f"# {project['version']}\n")


def test_the_version_and_its_changes_are_shown(qtbot: QtBot) -> None:
    view = NewsView()
    qtbot.addWidget(view)
    view.refresh()
    view.resize(600, 500)
    view.show()
    come_to_rest(view)
    assert view.title.text().startswith("Cutaway ")
    assert "The first version." in view.text.text
    assert view.text.laid[0].block.kind == "heading"
    breaks = [span for block in view.text.blocks for span in block.spans if "\n" in span.text]
    assert breaks == [], "the file's line breaks are not the window's"
