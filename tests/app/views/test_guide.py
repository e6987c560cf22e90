"""The guide: every section of every page is listed, found by its words, and shown whole."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.guides import PAGES, sections
from app.language import use
from app.views.guide import GuideView
from app.window.panes import pages
from tests.app.rest import come_to_rest

RESOURCES = Path(__file__).parents[3] / "resources"
DOCS, LANGUAGES = RESOURCES / "docs", RESOURCES / "languages"


@pytest.fixture
def view(qtbot: QtBot) -> GuideView:
    made = GuideView()
    qtbot.addWidget(made)
    made.show_topic("")
    made.resize(900, 600)
    made.show()
    come_to_rest(made)
    return made


def listed(view: GuideView) -> list[str]:
    return [view.list.item(row).text().strip() for row in range(view.list.count())]


def test_all_headings_are_listed_in_order(view: GuideView) -> None:
    headings = [
        heading
        for name in PAGES
        for heading in re.findall(r"^##? (.+)$", (DOCS / f"{name}.md").read_text("utf-8"), re.M)
    ]
    assert listed(view) == headings
    assert view.title.text() == headings[0] == "The window"


def test_no_word_of_a_page_is_lost() -> None:
    """Pictures and the addresses of links within the guide apart."""
    text = " ".join(f"{one.page} {one.title} {one.text}" for one in sections())
    for name in PAGES:
        page = re.sub(
            r"^!\[.*$|\]\((?!https?:)[^)]*\)",
            "",
            (DOCS / f"{name}.md").read_text("utf-8"),
            flags=re.M,
        )
        missing = set(re.findall(r"\w+", page)) - set(re.findall(r"\w+", text))
        assert not missing, name


def test_a_paragraph_is_one_line_and_code_and_tables_stay() -> None:
    by_title = {(one.page, one.title): one.text for one in sections()}
    chats = by_title["The window", "Chats"]
    assert all(len(line) > 200 for line in chats.splitlines() if line)
    curl = by_title["Servers", "Servers"]
    assert "\n  -d '{" in curl
    words = by_title["Words", "Answers"]
    assert words.startswith("| word | means |\n|---|---|\n| token |")


def test_each_page_of_the_inspector_has_a_section(view: GuideView) -> None:
    """F1 there shows it."""
    for page in pages.PAGES:
        view.show_topic(page.id.capitalize())
        assert view.title.text() == f"The window: {page.id.capitalize()}"
        assert view.text.text


def test_words_leave_the_sections_that_have_them(view: GuideView) -> None:
    view.query.setText("logit LENS")
    assert view.list.count() < len(sections())
    come_to_rest(view)
    assert view.title.text() == "The window: Token"
    assert "Logit lens" in view.text.text
    view.query.setText("zzzz")
    assert (view.list.count(), view.text.text) == (0, "")
    assert view.title.text() == "Nothing found"
    view.query.clear()
    assert view.list.count() == len(sections())


@pytest.fixture
def german() -> Iterator[None]:
    use("de")
    yield
    use("en")


def test_the_window_and_its_words_are_translated(german: None) -> None:
    """Section by section, and buttons have the names that the window gives them."""
    translated = [one for one in sections() if one.title != one.topic or one.page == "Das Fenster"]
    assert {one.page for one in translated} == {"Das Fenster", "Wörter"}
    by_topic = {(one.page, one.topic): one for one in sections()}
    assert by_topic["Das Fenster", "Memory"].heading == "Das Fenster: Speicher"
    catalogue = json.loads((LANGUAGES / "de.json").read_text("utf-8"))
    labels = {text for text in catalogue.values() if isinstance(text, str)}
    for one in translated:
        if one.page == "Das Fenster":
            named = set(re.findall("„([A-ZÄÖÜ][^“]+)“", one.text))
            assert named <= labels, one.title
