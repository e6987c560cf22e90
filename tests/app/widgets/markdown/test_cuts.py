"""Long paragraphs, code and tables: their pieces, put together, are what was written."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import turn
from app.widgets.markdown import cuts
from app.widgets.markdown.cuts import LONGEST, MOST_LINES, pieces, rows_of_piece
from app.widgets.markdown.laid import Laid
from app.widgets.markdown.parse import TextBlock, parse
from app.widgets.markdown.stack import CELL_LETTERS, LETTERS_AT_ONCE
from app.widgets.markdown.stream import PlainStream, Stream
from app.widgets.markdown.view import MarkdownView

LINE = "".join(f"word{n} " for n in range(4000)).rstrip()
LINES = "\n".join(f"Line {n} of it." for n in range(1000))
NO_SPACE = "a" * 30_000
TABLE = "|n|words|\n|-|-:|\n" + "".join(f"|{n}|w{n}|\n" for n in range(700))
CODE = "".join(f"def f{n}(x):\n    return x + {n}  # one more\n\n" for n in range(400)) + "end()"
FENCED = f"```python\n{CODE}\n```\n"
TEXTS = {
    "line": LINE,
    "lines": LINES,
    "no space": NO_SPACE,
    "table": TABLE,
    "quoted line": "> " + LINE,
    "quoted lines": "> " + LINES.replace("\n", "\n> "),
    "quoted table": "> " + TABLE.rstrip().replace("\n", "\n> "),
    "item": "- " + LINE + "\n- next",
    "between": f"Before\n\n{LINE}\n\n{TABLE}\nAfter **it**\n",
    "like a list": "x" + " - 1. # >" * 3000,
    "code": f"Before\n\n{FENCED}\nAfter **it**\n\n{FENCED}",
    "code without end": f"~~~~ c\n{CODE}\n~~~\n```\n{CODE}",
    "code in a line": "```\nx = [" + "1, " * 5000 + "`" * 5000 + "]\n```\nAfter",
    "code in an item": "1. Code:\n   " + FENCED.replace("\n", "\n   ") + "\n2. next",
    "quoted code": "> " + FENCED.rstrip().replace("\n", "\n> "),
    "indented code": "    " + CODE.replace("\n", "\n    "),
    "marks": "**" + LINE[:9000] + "** and `" + LINE[:9000] + "`",
}


def of(text: str) -> list[TextBlock]:
    return [block for part in parse(text) for block in part.blocks]


def plain(text: str) -> list[TextBlock]:
    stream = PlainStream()
    stream.set_text(text)
    while not stream.complete:
        assert stream.step() == len(stream.blocks) - 1
    return stream.blocks


@pytest.mark.parametrize("name", TEXTS)
def test_no_block_is_long(name: str) -> None:
    blocks = of(TEXTS[name])
    assert len(blocks) > 3
    for block in blocks:
        words = "".join(span.text for span in block.spans) + block.code
        assert len(words) <= LONGEST
        assert words.count("\n") <= MOST_LINES
        assert len(block.rows) <= rows_of_piece(2)


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", TEXTS)
def test_what_grows_ends_as_the_whole(name: str, seeds: int) -> None:
    text, whole = TEXTS[name], of(TEXTS[name])
    for seed in range(seeds):
        draw, stream, at = random.Random(seed), Stream(), 0
        while at < len(text):
            at += draw.randrange(1, 3000)
            stream.set_text(text[:at])
            while not stream.complete:
                stream.step()
        assert stream.blocks == whole
        assert [block.start for block in stream.blocks] == [block.start for block in whole]


@pytest.mark.parametrize("name", ["line", "lines", "no space", "like a list"])
def test_the_words_of_pieces_are_the_text(name: str) -> None:
    for blocks in (of(TEXTS[name]), plain(TEXTS[name])):
        words = "".join(
            (block.joint or "") + "".join(span.text for span in block.spans) for block in blocks
        )
        assert words == TEXTS[name].rstrip()
        for block in blocks:
            begin = "".join(span.text for span in block.spans)[:20]
            assert TEXTS[name].startswith(begin, block.start)


@pytest.mark.parametrize("name", [name for name in TEXTS if "code" in name])
def test_the_pieces_of_code_are_the_code(name: str) -> None:
    found = [block for block in of(TEXTS[name]) if block.kind == "code"]
    codes = [""]
    for block in found:
        codes[-1] += (block.joint or "") + block.code
        codes += [] if block.more else [""]
        line = block.code.split("\n", 1)[0]
        column = TEXTS[name][block.start :].split("\n", 2)
        assert line in column[0] or (block.joint is None and line in column[1])
    wanted = {"code": [CODE, CODE], "code without end": [f"{CODE}\n~~~\n```\n{CODE}"]}
    in_a_line = ["x = [" + "1, " * 5000 + "`" * 5000 + "]"]
    assert codes[:-1] == (in_a_line if name == "code in a line" else wanted.get(name, [CODE]))


def test_the_rows_of_pieces_are_the_table() -> None:
    rows = [row for block in of(TABLE) for row in block.rows]
    words = [["".join(span.text for span in cell) for cell in row] for row in rows]
    assert words == [["n", "words"]] + [[str(n), f"w{n}"] for n in range(700)]
    for block in of(TABLE)[1:]:
        assert TABLE.startswith(f"|{''.join(s.text for s in block.rows[0][0])}|", block.start)
        assert block.aligns == ("left", "right")
        assert block.shares == of(TABLE)[0].shares
        assert sum(block.shares) == pytest.approx(1)


@given(text=st.text(alphabet="ab \t\n", max_size=300), more=st.text(alphabet="ab \n", max_size=99))
def test_pieces_stay_where_they_are_when_more_comes(text: str, more: str) -> None:
    names = {"LONGEST": 40, "_NEAR": 10, "MOST_LINES": 5, "WHOLE": 80}
    before = {name: getattr(cuts, name) for name in names}
    vars(cuts).update(names)
    try:
        found, then = list(pieces(text)), list(pieces(text + more))
    finally:
        vars(cuts).update(before)
    assert "".join((p.joint or "") + text[p.first : p.last] for p in found) == text
    assert all(p.last - p.first <= 40 for p in found) or found == [(0, len(text), None)]
    assert all(below.first >= above.last for above, below in pairwise(found))
    assert then[: len(found) - 1] == found[:-1]


def test_a_table_that_is_too_wide_is_shown_as_it_was_written() -> None:
    wide = "|" + "a|" * 200 + "\n|" + "-|" * 200 + "\n|" + "1|" * 200
    blocks = of(f"Before\n\n{wide}\n\nAfter\n")
    assert {block.kind for block in blocks} == {"text"}
    words = "".join(span.text for block in blocks for span in block.spans)
    assert words == f"Before{wide}After"


def test_each_place_is_in_its_piece() -> None:
    stream = Stream()
    stream.set_text(TEXTS["between"])
    while not stream.complete:
        stream.step()
    for word in ("Before", "word7 ", "word1999 ", "word3998 ", "w3|", "w690|", "**it**"):
        at = TEXTS["between"].index(word)
        found = stream.block_at(at)
        assert found is not None
        block, start, source = found
        assert source[at - start :].startswith(word)
        shown = stream.blocks[block]
        words = "".join(span.text for span in shown.spans)
        cells = {"".join(s.text for s in cell) for row in shown.rows for cell in row}
        assert word.strip(" *|") in (cells or words)


@pytest.mark.parametrize("name", ["line", "lines", "no space"])
def test_what_is_copied_is_what_was_written(name: str, qtbot: QtBot) -> None:
    view = MarkdownView("Text")
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show()
    view.heightForWidth(600)
    view.set_text(TEXTS[name])
    view.finish()
    view.setFocus()
    QTest.keySequence(view, QKeySequence(QKeySequence.StandardKey.SelectAll))
    QTest.keySequence(view, QKeySequence(QKeySequence.StandardKey.Copy))
    assert QApplication.clipboard().text().strip() == TEXTS[name]


@pytest.mark.parametrize("name", ["line", "lines", "no space", "table", "marks", "code"])
def test_a_turn_lays_out_a_bounded_part(
    name: str, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a text comes, as an answer or as it was typed, and when its width or font changes."""
    work: list[int] = []
    measure = Laid._measure

    def count(laid: Laid) -> None:
        letters = sum(len(span.text) for span in laid.block.spans) + len(laid.block.code)
        work.append(letters + CELL_LETTERS * sum(map(len, laid.block.rows)))
        measure(laid)

    monkeypatch.setattr(Laid, "_measure", count)
    monkeypatch.setattr(turn, "BUDGET", 0.0)
    monkeypatch.setattr(turn, "_ends", None)  # this turn has begun with the old one
    view = MarkdownView("Text")
    qtbot.addWidget(view)
    view.heightForWidth(600)
    turns = [
        lambda: view.set_text(TEXTS[name] * 3),
        lambda: view.heightForWidth(500),
        lambda: view.set_plain(TEXTS[name]),
        lambda: view.heightForWidth(700),
        lambda: QApplication.sendEvent(view, QEvent(QEvent.Type.FontChange)),
    ]
    for act in turns:
        work.clear()
        act()
        assert sum(work) <= LETTERS_AT_ONCE + LONGEST
        view.finish()
