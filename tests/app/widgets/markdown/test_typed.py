"""A text as typed: the place of each character, and of each place its character."""

import pytest
from PySide6.QtGui import QFont, QFontMetricsF
from pytestqt.qtbot import QtBot

from app.widgets.markdown.typed import TypedText
from tests.bounds import at_most_lines

FONT = QFont("DejaVu Sans")
FONT.setPixelSize(15)
STEP, BREAK = 26.0, 14.0
TEXTS = ("one two", "é 你好", "😀 a 😀😀 b", "first\nsecond\n\nfourth 😀\nend")


def laid(text: str, width: float = 4000) -> TypedText:
    typed = TypedText()
    typed.set_text(text)
    typed.lay(width, FONT, STEP)
    return typed


@pytest.mark.parametrize("text", TEXTS)
def test_each_character_stands_behind_those_before_it(qtbot: QtBot, text: str) -> None:
    typed, metrics = laid(text), QFontMetricsF(FONT)
    for at, letter in enumerate(text):
        (area,) = typed.rects(at, at + 1, BREAK)
        begins = text.rfind("\n", 0, at) + 1
        assert area.left() == pytest.approx(metrics.horizontalAdvance(text[begins:at]), abs=1)
        row = text.count("\n", 0, at)
        assert row * STEP <= area.center().y() <= (row + 1) * STEP
        if letter == "\n":
            assert area.width() == BREAK
        else:
            assert typed.position_at(area.topLeft()) == at


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_grows_lies_as_one_that_came_at_once(qtbot: QtBot, text: str) -> None:
    grown, whole = laid(""), laid(text, 40)
    for end in range(1, len(text) + 1):
        grown.set_text(text[:end])
        height = grown.lay(40, FONT, STEP)
    assert height == whole.lay(40, FONT, STEP)
    for at in range(len(text)):
        assert grown.rects(at, at + 1, BREAK) == whole.rects(at, at + 1, BREAK)
    grown.set_text("other")
    assert grown.rects(0, 5, BREAK) == laid("other", 40).rects(0, 5, BREAK)


def test_lines_are_of_one_height_and_none_is_wider_than_the_room(qtbot: QtBot) -> None:
    text = "a word and another one " * 20
    typed = laid(text, 200)
    areas = typed.rects(0, len(text), BREAK)
    assert len(areas) > 10
    assert all(area.right() <= 201 for area in areas)
    steps = {round(b.top() - a.top(), 3) for a, b in zip(areas, areas[1:], strict=False)}
    assert steps == {STEP}
    assert typed.lay(200, FONT, STEP) == len(areas) * STEP


def test_new_lines_of_a_part_are_found(qtbot: QtBot) -> None:
    assert laid("a\nb\n😀\n").breaks(2, 6) == [3, 5]


def test_a_part_of_a_long_paragraph_lies_where_its_characters_do(qtbot: QtBot) -> None:
    """And no line is looked at but its own."""
    typed = laid("word 😀 " * 1000, 200)
    for at in (0, 4, 26, 27, 28, 29, 30, 3333, 6998):
        with at_most_lines(60):
            (area,) = typed.rects(at, at + 1, BREAK)
        assert typed.position_at(area.topLeft()) == at
    rows = [area.center().y() // STEP for area in typed.rects(3000, 3100, BREAK)]
    assert rows == [*range(int(rows[0]), int(rows[0]) + len(rows))]
    assert len(rows) > 3
