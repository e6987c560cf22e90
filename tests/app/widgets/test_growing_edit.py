"""The field for text: what is typed, pasted, copied and undone in very long lines."""

import random

import pytest
from PySide6.QtCore import QEvent, QMimeData, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication, QPaintEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import turn
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.controls.hidden_text import LONGEST, SHOWN
from app.widgets.markdown.laid import cursor_x
from tests.app.rest import come_to_rest

LONG = "".join(f"{n} " for n in range(60_000))
TEXTS = {
    "letters": "a" * 200_000,
    "words": LONG,
    "lines": f"first\n{LONG}\n\nlast\n{'🦀b' * 9000}\n",
    "short": "one\ntwo\u00a0three \ufffc\n",
    "limit": "x" * LONGEST,
    "above": "x" * (LONGEST + 1) + "\ufffc",
}


class Paints(QObject):
    """Collects the areas of a widget that are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.areas: list[QRect] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if isinstance(event, QPaintEvent):
            self.areas.append(event.rect())
        return False


@pytest.fixture
def field(qtbot: QtBot) -> GrowingEdit:
    field = GrowingEdit("Text")
    qtbot.addWidget(field)
    field.resize(500, field.height())
    field.show()
    return field


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns so short that a quick machine does not fill a long text in one."""
    monkeypatch.setattr(turn, "BUDGET", 0.001)


def longest(field: GrowingEdit) -> int:
    """Letters of the longest line that Qt lays out."""
    block, most = field.document().begin(), 0
    while block.isValid():
        most, block = max(most, block.length()), block.next()
    return most


def paste(field: GrowingEdit, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    field.insertFromMimeData(data)


def put(field: GrowingEdit, position: int, to: int | None = None) -> None:
    cursor = field.textCursor()
    cursor.setPosition(position)
    if to is not None:
        cursor.setPosition(to, QTextCursor.MoveMode.KeepAnchor)
    field.setTextCursor(cursor)


LINES = "".join(f"{n}: one more line 🦀\n" for n in range(20_000)) + "x" * 9000 + "\nlast"


def shown(field: GrowingEdit) -> str:
    """The text that is in the document by now, tiles whole."""
    return field.hidden.text()


def test_a_long_text_comes_in_turns_and_is_whole_from_the_beginning(
    field: GrowingEdit, qtbot: QtBot, short_turns: None
) -> None:
    changes: list[str] = []
    field.textChanged.connect(lambda: changes.append(field.text))
    field.set_text(LINES)
    assert field.text == LINES
    assert 0 < len(shown(field)) < len(LINES) / 4
    assert not field.blank
    assert field.long
    qtbot.waitUntil(lambda: shown(field) == LINES)
    assert changes == [LINES]
    assert not field.document().isUndoAvailable()
    assert field.textCursor().atEnd()
    bar = field.verticalScrollBar()
    assert bar.value() == bar.maximum()
    QTest.keyClicks(field, "!")
    field.undo()
    assert field.text == LINES


@pytest.mark.parametrize("act", ["key", "paste", "copy", "other", "none"])
def test_what_a_person_does_meanwhile_is_done_to_all_of_it(field: GrowingEdit, act: str) -> None:
    field.set_text(LINES)
    if act == "key":
        QTest.keyClicks(field, "!")
        assert shown(field) == field.text == LINES + "!"
        field.undo()
        assert field.text == LINES
    elif act == "paste":
        paste(field, "?")
        assert shown(field) == field.text == LINES + "?"
    elif act == "copy":
        QTest.keyClick(field, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClick(field, Qt.Key.Key_X, Qt.KeyboardModifier.ControlModifier)
        assert QGuiApplication.clipboard().text() == LINES
        assert field.text == ""
        field.undo()
        assert field.text == LINES
    else:
        field.set_text("other" if act == "other" else "")
        QApplication.processEvents()
        assert shown(field) == field.text == ("other" if act == "other" else "")
        assert field.isUndoRedoEnabled()


def test_a_long_paste_comes_in_turns_and_is_undone_at_once(
    field: GrowingEdit, qtbot: QtBot, short_turns: None
) -> None:
    field.set_text("above <gone> below")
    cursor = field.textCursor()
    cursor.setPosition(6)
    cursor.setPosition(12, QTextCursor.MoveMode.KeepAnchor)
    field.setTextCursor(cursor)
    changes: list[str] = []
    field.textChanged.connect(lambda: changes.append(field.text))
    paste(field, LINES.replace("\n", "\r\n"))
    whole = f"above {LINES} below"
    assert changes == [whole]
    assert len(shown(field)) < len(whole) / 4
    qtbot.waitUntil(lambda: shown(field) == whole)
    assert field.text == whole
    assert field.hidden.text(0, field.textCursor().position()) == f"above {LINES}"
    QTest.keyClicks(field, "!")
    assert field.text == f"above {LINES}! below"
    for text in (whole, "above <gone> below"):
        QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        assert field.text == text
    paste(field, LINES)
    QTest.keyClicks(field, "?")  # before all of it is there
    assert shown(field) == field.text == f"above <gone>{LINES}? below"


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_whole_and_its_lines_are_short(field: GrowingEdit, name: str) -> None:
    text = TEXTS[name]
    field.set_text(text)
    assert field.text == text
    assert longest(field) <= LONGEST + 2
    QTest.keyClicks(field, "end")
    assert field.text == text + "end"
    field.selectAll()
    field.copy()
    assert QGuiApplication.clipboard().text() == text + "end"
    field.cut()
    assert field.text == ""
    field.undo()
    assert field.text == text + "end"
    paste(field, text)
    assert field.text.count(text) >= 1
    assert longest(field) <= 3 * LONGEST
    field.set_text("")
    paste(field, text)
    assert field.text == text
    assert longest(field) <= LONGEST + 2
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.text == ""


def test_the_cursor_goes_through_what_is_hidden(field: GrowingEdit) -> None:
    text = "".join(chr(97 + n % 26) for n in range(9000))
    field.set_text(text)
    put(field, SHOWN)
    for _ in range(3):  # into it, and back
        QTest.keyClick(field, Qt.Key.Key_Right)
    assert field.textCursor().position() == SHOWN + 3
    QTest.keyClicks(field, "|")
    assert field.text == text[: SHOWN + 3] + "|" + text[SHOWN + 3 :]
    field.undo()
    field.set_text(text)
    tile_ends = SHOWN + 1
    put(field, tile_ends)
    QTest.keyClick(field, Qt.Key.Key_Backspace)  # one letter, not all that is hidden
    assert field.text == text[: 8000 - 1] + text[8000:]
    field.set_text(text)
    put(field, SHOWN)
    QTest.keyClick(field, Qt.Key.Key_Delete)
    assert field.text == text[:SHOWN] + text[SHOWN + 1 :]
    field.set_text(text)
    put(field, SHOWN - 2)
    for _ in range(5):
        QTest.keyClick(field, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    field.copy()
    assert QGuiApplication.clipboard().text() == text[SHOWN - 2 : SHOWN + 3]


def test_a_click_shows_more(field: GrowingEdit) -> None:
    text = "first " + "words " * 2000
    field.set_text(text)
    put(field, SHOWN)
    field.ensureCursorVisible()
    place, shown = field.cursorRect().center(), field.document().characterCount()
    click = {"before": 3, "after": 60}
    for x in click.values():
        QTest.mouseClick(field.viewport(), Qt.MouseButton.LeftButton, pos=place + QPoint(x, 0))
        assert field.document().characterCount() == shown + SHOWN
        assert field.text == text
        field.undo()
        assert field.document().characterCount() == shown
        put(field, SHOWN)
        field.ensureCursorVisible()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_typed_is_the_text(field: GrowingEdit, seed: int) -> None:
    """Against a plain string: positions are found by what is before them."""
    draw = random.Random(seed)
    text = "\n".join("".join(draw.choices("ab cé", k=draw.choice([3, 9000]))) for _ in range(6))
    field.set_text(text)
    for _ in range(25):
        end = field.document().characterCount() - 1
        first, last = sorted((draw.randrange(end + 1), draw.randrange(end + 1)))
        last = last if draw.random() < 0.4 else first
        put(field, first, last)
        before = field.hidden.text(0, first)
        inside = field.hidden.text(first, last)
        after = field.hidden.text(last, end)
        assert before + inside + after == field.text
        more = "".join(draw.choices("xy \n", k=draw.choice([1, 9, 6000])))
        paste(field, more)
        assert field.text == before + more + after
        if draw.random() < 0.3:
            field.undo()
            assert field.text == before + inside + after
            field.redo()
            assert field.text == before + more + after
        for key in draw.choices([Qt.Key.Key_Left, Qt.Key.Key_Right], k=4):
            QTest.keyClick(field, key)
        assert field.text == before + more + after


def test_right_to_left(field: GrowingEdit) -> None:
    """The field begins at the side of its first letters; letters run by their own script."""
    width = field.viewport().width()
    for text, begins_right in (
        ("مرحبا بالعالم", True),
        ("hello", False),
        ("שלום", True),
        ("", False),
    ):
        field.setPlainText(text)
        line = field.document().begin().layout().lineAt(0)
        drawn = line.naturalTextRect()
        if begins_right:
            assert drawn.right() > width - 30
            assert drawn.left() > width / 2
            assert cursor_x(line, 0) > cursor_x(line, len(text))
        else:
            assert drawn.left() < 30
            assert cursor_x(line, 0) <= cursor_x(line, len(text))


def test_other_words_in_an_empty_field_are_drawn_at_once(field: GrowingEdit, qtbot: QtBot) -> None:
    field.set_placeholder("Message")
    come_to_rest(field)
    paints = Paints()
    field.viewport().installEventFilter(paints)
    field.set_placeholder("Message")
    come_to_rest(field)
    assert paints.areas == []
    field.set_placeholder("Text to continue")
    come_to_rest(field)
    assert field.viewport().rect() in paints.areas


def test_a_field_may_show_more_lines(qtbot: QtBot) -> None:
    heights = []
    for most in (8, 20):
        field = GrowingEdit("Text", most_lines=most)
        qtbot.addWidget(field)
        field.resize(300, 100)
        field.show()
        field.set_text("line\n" * 40)
        come_to_rest(field)
        heights.append(field.height() // field.fontMetrics().lineSpacing())
    assert heights == [8, 20]
