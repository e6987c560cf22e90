"""Where a part of the source is in what is shown of it, against words that are counted by hand."""

import pytest
from pytestqt.qtbot import QtBot

from app.widgets.markdown.places import shown_part
from app.widgets.markdown.view import MarkdownView

# How often what is wanted also stands before, where that is not never.
BEFORE = {"one two one": 1, "[a](https://a.example/a) a b": 1, "": 1}


@pytest.mark.parametrize(
    ("source", "shown", "part", "wanted"),
    [
        ("one two one", "one two one", (8, 11), "one"),
        ("an **ani**mal", "an animal", (5, 8), "ani"),
        ("an **ani**mal", "an animal", (10, 13), "mal"),
        ("an animal", "an animal", (5, 7), "im"),
        ("[a](https://a.example/a) a b", "a a b", (25, 26), "a"),
        ("&amp; a", "& a", (6, 7), "a"),
        ("a **b**", "a b", (2, 4), "b"),  # a mark: what it marks
        ("a b\n\n", "a b", (3, 5), "b"),  # nothing follows: what is last
        ("snake_case_", "snake_case_", (5, 6), "_"),
        ("ein *Käse* für 猫と犬", "ein Käse für 猫と犬", (16, 17), "と"),
        ("", "", (0, 1), ""),
    ],
)
def test_what_is_shown_of_a_part(
    source: str, shown: str, part: tuple[int, int], wanted: str
) -> None:
    first, last = shown_part(source, shown, *part)
    assert shown[first:last] == wanted
    assert shown[:first].count(wanted) == BEFORE.get(source, 0)


def test_each_word_of_a_growing_text_is_found(qtbot: QtBot) -> None:
    """Also where it was taken in piece by piece, in long lists and behind them."""
    parts = [f"word{n} *is* here\n\n" for n in range(150)]
    parts += [f"{n + 1}. item{n} of\n   more{n}\n" for n in range(120)]
    parts += ["\nlast word150\n"]
    view = MarkdownView("Text")
    qtbot.addWidget(view)
    view.resize(400, 300)
    view.show()
    view.heightForWidth(400)
    text = ""
    for part in parts:
        text += part
        view.set_text(text, live=True)
    view.set_text(text)
    view.finish()
    for name in ("word0", "word77", "item3", "more3", "item119", "more60", "word150"):
        at = text.index(name)
        y = view.point((at, at + len(name)))
        assert view.pointed_text == name
        assert y is not None
        row = next(n for n, laid in enumerate(view.laid) if name in laid.document.toRawText())
        assert view.laid[row].top <= y < view.laid[row].bottom
    assert view.point(None) is None
    assert view.pointed_text == ""
