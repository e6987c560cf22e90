"""Blocks laid out: colours of code, code and tables that grow, places of the text."""

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from PySide6.QtCore import QPointF, QRect
from PySide6.QtGui import QColor, QTextCursor, QTextTable
from PySide6.QtWidgets import QApplication, QScrollBar
from pytestqt.qtbot import QtBot

from app.theme.tokens import LIGHT, RADIUS_CARD, THEMES, contrast
from app.widgets.markdown import documents
from app.widgets.markdown.documents import document_of, highlight
from app.widgets.markdown.laid import SCROLL_BAR, Laid, cursor_x
from app.widgets.markdown.parse import TextBlock, parse
from app.widgets.markdown.stack import Stack
from app.widgets.markdown.text import TextPlace, TextSelection
from app.widgets.markdown.view import MarkdownView
from tests.app.rest import come_to_rest

PYTHON = 'def f(x):  # 😀 why\n    return "ä" + str(12)\n'


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    """Fonts need one."""


def colours(block: TextBlock, laid: Laid | None = None) -> Iterator[tuple[str, str]]:
    """Each piece of one colour."""
    document = laid.document if laid is not None else document_of(block)
    place = document.begin()
    while place.isValid():
        pieces = place.begin()
        while not pieces.atEnd():
            fragment = pieces.fragment()
            yield fragment.text(), fragment.charFormat().foreground().color().name().upper()
            pieces += 1
        place = place.next()


def spelled(block: TextBlock, laid: Laid | None = None) -> list[tuple[str, str]]:
    """Each letter with its colour."""
    return [(letter, colour) for text, colour in colours(block, laid) for letter in text]


def code(text: str, language: str = "python") -> TextBlock:
    return TextBlock("code", language=language, code=text)


def test_code_is_coloured_at_the_right_letters() -> None:
    found = dict(colours(code(PYTHON)))
    assert found["def"] == LIGHT.code_keyword
    assert found["f"] == LIGHT.code_name
    assert found["# 😀 why"] == LIGHT.code_comment
    assert found['"ä"'] == LIGHT.code_string
    assert found["12"] == LIGHT.code_number


def test_an_unknown_language_stays_plain() -> None:
    assert highlight("x = 1", "no such language") == ()
    assert {colour for _, colour in colours(code("x = 1", ""))} == {LIGHT.text}


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_of_code_is_legible(theme: str) -> None:
    now = THEMES[theme]
    for tone in ("text", "code_keyword", "code_string", "code_number", "code_name", "code_comment"):
        assert contrast(getattr(now, tone), now.raised) >= 4.5


def test_code_that_grows_looks_like_the_whole() -> None:
    whole = PYTHON * 40
    laid = Laid(code(whole[:1]), None, 500)
    for end in [*range(1, len(whole), 97), len(whole)]:
        assert laid.extend(code(whole[:end]))
    fresh = Laid(code(whole), None, 500)
    fresh.measure()
    assert laid.height == fresh.height
    assert laid.document.toPlainText() == whole
    assert spelled(code(whole), laid) == spelled(code(whole))


def test_a_piece_of_code_is_coloured_as_in_the_whole() -> None:
    """A string that begins in the piece above still is one."""
    whole = PYTHON * 5 + 'x = """' + "not def\n" * 60 + '"""\n' + PYTHON * 20
    blocks = parse(f"```python\n{whole}\n```")[0].blocks
    assert len(blocks) == 3
    found: list[tuple[str, str]] = []
    stack = Stack()
    stack.set_width(500)
    stack.put(0, blocks)
    stack.measure([2])  # somebody looks at the end first
    stack.measure([0])
    stack.measure([1])
    stack.measure([2])
    for laid in stack.laid:
        found += spelled(laid.block, laid)
    assert found == spelled(code(whole))


def test_code_in_pieces_is_as_high_as_in_one() -> None:
    whole = PYTHON * 40
    one = Laid(code(whole), None, 5000)
    one.measure()
    stack = Stack()
    stack.set_width(5000)
    stack.put(0, parse(f"```python\n{whole}\n```")[0].blocks)
    stack.measure_more(60)
    assert len(stack.laid) == 2
    assert abs(stack.height - SCROLL_BAR - one.height) <= len(stack.laid)
    assert all(below.top == above.bottom for above, below in pairwise(stack.laid))


def test_code_in_pieces_is_copied_scrolled_and_framed_as_one(qtbot: QtBot) -> None:
    lines = [f"line {n} of it" for n in range(300)]
    lines[170] = "wide " * 200
    view = MarkdownView("text")
    qtbot.addWidget(view)
    view.heightForWidth(300)
    view.set_text("Before\n\n```c\n" + "\n".join(lines) + "\n```\n\nAfter")
    view.finish()
    view.resize(300, view.heightForWidth(300))
    view.show()
    pieces = [laid for laid in view.laid if laid.block.kind == "code"]
    assert len(pieces) > 4
    assert list(view.bars.bars) == [1]
    bar = view.bars.bars[1]
    bar.copy()
    assert QApplication.clipboard().text() == "\n".join(lines)
    [scroll] = (found for found in view.findChildren(QScrollBar) if found.isVisible())
    scroll.setValue(120)
    assert {laid.shift for laid in pieces} == {120}
    assert scroll.geometry().bottom() < pieces[-1].bottom < scroll.geometry().bottom() + 8
    for laid in pieces:
        assert view.bars.at(laid.top + 5) is bar
    assert view.bars.at(view.laid[0].top) is view.bars.at(view.laid[-1].top) is None
    image = view.grab(QRect(0, pieces[0].top, 300, view.height() - pieces[0].top)).toImage()
    frame, inside = QColor(LIGHT.divider), QColor(LIGHT.raised)
    for y in range(RADIUS_CARD + 1, pieces[-1].bottom - pieces[0].top - RADIUS_CARD - 1):
        assert image.pixelColor(0, y) == frame  # without a gap from the first line to the last
        assert image.pixelColor(3, y) == inside or y < 40
    view.selection.select(TextPlace(1, 5), TextPlace(3, 4))
    assert view.selected_text == "\n".join(lines)[5:].split("line 100")[0] + "line"


def test_other_code_is_no_growth() -> None:
    laid = Laid(code("a = 1"), None, 500)
    assert not laid.extend(code("b = 1"))
    assert not laid.extend(code("a = 12", "c"))
    assert not laid.extend(parse("a = 1")[0].blocks[0])


def test_a_table_that_grows_looks_like_the_whole() -> None:
    text = "| a | b |\n|---|--:|\n" + "".join(f"| row {n} | **{n}** |\n" for n in range(30))
    start = parse(text[:60])[0].blocks[0]
    laid = Laid(start, None, 500)
    for end in [*range(60, len(text), 13), len(text)]:
        block = parse(text[:end])[0].blocks[0]
        assert laid.extend(block)
    fresh = Laid(block, None, 500)
    fresh.measure()
    assert laid.document.toPlainText() == fresh.document.toPlainText()
    assert abs(laid.height - fresh.height) <= 1
    table = laid.document.rootFrame().childFrames()[0]
    assert isinstance(table, QTextTable)
    assert (table.rows(), table.columns()) == (31, 2)


def test_positions_and_places_agree() -> None:
    block = parse("Some words of which **a few** are wider than others, so they wrap.")[0].blocks[0]
    laid = Laid(block, None, 200)
    laid.run.top = 40
    for position in range(0, laid.length, 7):
        cursor = QTextCursor(laid.document)
        cursor.setPosition(position)
        line = cursor.block().layout().lineForTextPosition(position)
        found: object = line.cursorToX(position)
        x = found[0] if isinstance(found, tuple) else found
        point = QPointF(x + 0.5, line.y() + line.height() / 2) + laid.origin  # type: ignore[operator]
        assert laid.position_at(point) == position


def test_a_selection_is_the_same_from_both_ends() -> None:
    one, other = TextSelection(), TextSelection()
    one.select(TextPlace(1, 5), TextPlace(3, 2))
    other.select(TextPlace(3, 2), TextPlace(1, 5))
    parts = [one.within(block, 10) for block in range(5)]
    assert parts == [None, (5, 10), (0, 10), (0, 2), None]
    assert parts == [other.within(block, 10) for block in range(5)]


def test_a_long_text_is_laid_out_in_slices_and_ends_the_same(qtbot: QtBot) -> None:
    text = "\n\n".join(f"## {n}\n\nA paragraph of **{n}**.\n\n- one\n- two" for n in range(300))
    sliced, whole = MarkdownView("sliced"), MarkdownView("whole")
    for view in (sliced, whole):
        qtbot.addWidget(view)
        view.heightForWidth(500)
    sliced.set_text(text)
    assert 0 < len(sliced.blocks) < 1200
    assert sliced.heightForWidth(500) > 0
    whole.set_text(text)
    whole.finish()
    qtbot.waitUntil(lambda: sliced.complete)
    assert sliced.heightForWidth(500) == whole.heightForWidth(500)
    assert sliced.text == whole.text


def test_wide_code_scrolls_and_nothing_else_moves(qtbot: QtBot) -> None:
    view = MarkdownView("text")
    qtbot.addWidget(view)
    view.set_text("Before\n\n```\n" + "x" * 400 + "\n```\n\nAfter")
    view.finish()
    view.resize(300, view.heightForWidth(300))
    view.show()
    laid = view.laid[1]
    assert laid.overflow > 500
    bar = view.bars.bars[1].bar
    assert bar.isVisible()
    bar.setValue(120)
    assert laid.shift == 120
    assert view.laid[0].left == view.laid[2].left == 0
    view.heightForWidth(6000)
    assert laid.shift == 0


class Counted(MarkdownView):
    """Counts how often it is to be painted anew."""

    updates = 0

    def update(self, *where: object) -> None:
        self.updates += 1
        super().update(*where)


def test_what_does_not_grow_takes_no_time(qtbot: QtBot) -> None:
    """While the next token is awaited, the window sleeps."""
    view = Counted("text")
    qtbot.addWidget(view)
    view.resize(400, 300)
    view.show()
    qtbot.waitExposed(view)
    view.set_text("The capital of Italy", live=True)
    qtbot.wait(100)  # the rest behind it
    come_to_rest()
    before = view.updates
    qtbot.wait(100)
    assert view.updates == before
    view.set_text("The capital of Italy is *Rome*", live=True)
    qtbot.waitUntil(lambda: view.text.endswith("is Rome"))


def test_arabic_and_hebrew_are_laid_out_from_right_to_left(qtbot: QtBot) -> None:
    """By the places of glyphs: the first letter is the rightmost, the line ends at the right."""
    view = MarkdownView("text")
    qtbot.addWidget(view)
    view.set_text("hello world\n\nمرحبا بالعالم\n\n- שלום עולם\n\n```py\n# שלום\n```\n")
    view.resize(600, view.heightForWidth(600))
    view.show()
    come_to_rest(view)
    english, arabic, hebrew, code = (laid for laid in view.laid)
    for laid, rightwards in ((english, True), (arabic, False), (hebrew, False), (code, True)):
        line = laid.document.begin().layout().lineAt(0)
        drawn = line.naturalTextRect().translated(laid.origin)
        first, last = cursor_x(line, 0), cursor_x(line, 5)
        assert (first < last) == rightwards
        assert (drawn.left() < 100) == rightwards
        assert (drawn.right() > 500) != rightwards
        glyphs = [point.x() for run in line.glyphRuns() for point in run.positions()]
        assert min(glyphs) == pytest.approx(line.naturalTextRect().left(), abs=3)
    drawn = hebrew.document.begin().layout().lineAt(0).naturalTextRect().translated(hebrew.origin)
    assert 600 - drawn.right() >= 10  # room for its marker
    assert arabic.origin.x() == 0


def test_a_language_is_loaded_beside_the_windows_work(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lexer takes up to 0.1 s to load, and code is shown before it has its colours."""
    threads: list[threading.Thread] = []
    real = documents.get_lexer_by_name

    def load(name: str) -> object:
        threads.append(threading.current_thread())
        return real(name)

    monkeypatch.setattr(documents, "get_lexer_by_name", load)
    view = MarkdownView("text")
    qtbot.addWidget(view)
    view.heightForWidth(400)
    view.set_text('```elixir\ndef f(x), do: "a"\n```')
    height = view.heightForWidth(400)
    qtbot.waitUntil(
        lambda: (
            (view.blocks[0].code[:3], LIGHT.code_keyword)
            in [*colours(view.blocks[0], view.laid[0])]
        )
    )
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert view.heightForWidth(400) == height
    (found,) = [tone for text, tone in colours(view.blocks[0], view.laid[0]) if text == '"a"']
    assert found == LIGHT.code_string
