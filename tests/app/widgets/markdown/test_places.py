"""Where a part of the source is in what is shown of it, against words that are counted by hand."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.widgets.markdown.places import shown_part, shown_parts, source_of, units
from app.widgets.markdown.view import MarkdownView
from app.widgets.tokens.lights import light_colour

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


@pytest.mark.parametrize(
    ("source", "shown", "parts", "wanted"),
    [
        ("The **ani**mal sat", "The animal sat", ["The", " **ani", "**mal", " sat"], 4),
        ("one two one", "one two one", ["one", " two", " one"], 3),
        (
            "ein *Käse* für 猫と犬",
            "ein Käse für 猫と犬",
            ["ein", " *Kä", "se", "* für", " 猫", "と"],
            6,
        ),
        ("a **b**", "a b", ["a", " **", "b", "**"], 2),
    ],
)
def test_all_parts_at_once_are_found_as_one_by_one(
    source: str, shown: str, parts: list[str], wanted: int
) -> None:
    begins = [sum(map(len, parts[:n])) for n in range(len(parts))]
    spans = [(begin, begin + len(part)) for begin, part in zip(begins, parts, strict=True)]
    found = shown_parts(source, shown, spans)
    assert sum(place is not None for place in found) == wanted
    for part, place in zip(parts, found, strict=True):
        words = part.strip(" *")
        assert (shown[slice(*place)] if place is not None else "") == words


@pytest.mark.parametrize("place", range(11))
def test_a_place_that_is_shown_leads_back_to_its_word(place: int) -> None:
    source, shown = "an **ani**mal *sat*", "an animal sat"
    if shown[place] == " ":
        return
    at = source_of(source, shown, place)
    assert source[at] == shown[place]
    assert shown_part(source, shown, at, at + 1) == (place, place + 1)


def test_lit_words_are_those_of_the_source(qtbot: QtBot) -> None:
    text = "# A title\n\nThe 🐈 *cat* sat\n\n- on\n- the **mat**\n\n```\ncode here\n```\n"
    view = MarkdownView("Text")
    qtbot.addWidget(view)
    view.resize(400, 300)
    view.show()
    view.heightForWidth(400)
    view.set_text(text)
    view.finish()
    words = ("title", "cat", "sat", "mat", "here")
    lights = [(text.index(w), text.index(w) + len(w), n / 5) for n, w in enumerate(words)]
    view.light(lights)
    assert view.lit_words == [(word, n / 5) for n, word in enumerate(words)]
    view.set_text("The cat is not the title")
    view.finish()
    view.light([])
    assert view.lit_words == []


def test_a_click_on_a_word_tells_its_place_in_the_source(qtbot: QtBot) -> None:
    for plain in (False, True):
        text = "One *two* 🐈 three\n\n" + "line\n" * 120 + "last word"
        view = MarkdownView("Text")
        qtbot.addWidget(view)
        view.heightForWidth(400)
        view.set_plain(text) if plain else view.set_text(text)
        view.finish()
        view.resize(400, view.heightForWidth(400))
        view.show()
        clicked: list[int] = []
        view.word_clicked.connect(clicked.append)
        for word in ("two", "three", "last"):
            at = text.index(word)
            view.light([(at, at + len(word), 1.0)])
            row, (first, last, _) = next(
                (row, light) for row in range(len(view.laid)) for light in view.lit_in(row)
            )
            laid = view.laid[row]
            shown = laid.document.toRawText()
            line = laid.document.findBlock(units(shown, first)).layout()
            start = laid.document.findBlock(units(shown, first)).position()
            x = line.lineForTextPosition(units(shown, first) - start).cursorToX(
                units(shown, first) - start + 1
            )
            x = x[0] if isinstance(x, tuple) else x
            y = laid.y_of(units(shown, first)) + 8
            place = QPoint(round(laid.origin.x() + x + 1), y)
            QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=place)
        assert [text[at] for at in clicked] == ["w", "h", "a"]


def test_what_is_lit_is_painted_where_it_stands(qtbot: QtBot) -> None:
    """Qt counts a cat as two; a light must not stand a letter too far left."""
    text = "🐈🐈🐈🐈 ..... ,,,"
    view = MarkdownView("Text")
    qtbot.addWidget(view)
    view.resize(400, 60)
    view.show()
    view.heightForWidth(400)
    view.set_text(text)
    view.finish()
    view.light([(text.index("."), text.index(".") + 5, 1.0)])
    picture = view.grab().toImage()
    laid = view.laid[0]
    layout = laid.document.begin().layout()

    def at(position: int) -> str:
        found = layout.lineAt(0).cursorToX(units(text, position))
        x = found[0] if isinstance(found, tuple) else found
        place = round(laid.origin.x() + x) + 1, round(laid.origin.y() + 3)
        return str(picture.pixelColor(*place).name()).upper()

    first = text.index(".")
    lit = light_colour(1.0)
    assert [at(first - 1), at(first + 5)] != [lit, lit]
    assert [at(n) for n in range(first, first + 5)] == [lit] * 5
    assert at(first + 6) != lit
