"""Very long texts: only what is near the sight is laid out, and what is read stays in place."""

import gc

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from app.widgets.markdown import laid
from app.widgets.markdown.code_bar import MOST, CodeBars
from app.widgets.markdown.laid import Laid
from app.widgets.markdown.parse import Span, TextBlock
from app.widgets.markdown.stack import AT_ONCE, KEPT, RUN, Stack
from app.widgets.markdown.stream import Stream
from app.widgets.markdown.view import MarkdownView
from tests.bounds import steps_executed

MANY = 3000


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[TextBlock]:
    """Blocks that were laid out."""
    blocks: list[TextBlock] = []
    real = laid.document_of

    def count(block: TextBlock, above: str) -> object:
        blocks.append(block)
        return real(block, above)

    monkeypatch.setattr(laid, "document_of", count)
    return blocks


@pytest.fixture
def long_view(qtbot: QtBot) -> tuple[QScrollArea, MarkdownView]:
    """MANY paragraphs in a window of 400 x 300."""
    area, view = QScrollArea(), MarkdownView("text")
    qtbot.addWidget(area)
    view.heightForWidth(400)
    view.set_text("\n\n".join(f"Paragraph {n}, of some words that wrap." for n in range(MANY)))
    qtbot.waitUntil(lambda: view.complete, timeout=60_000)
    view.resize(400, view.heightForWidth(400))
    area.setWidget(view)
    area.resize(420, 300)
    area.show()
    qtbot.waitExposed(area)
    return area, view


def test_few_pieces_of_code_are_laid_out_at_once(qapp: object, made: list[TextBlock]) -> None:
    """Their colours take longer than the letters of text."""
    stream, stack = Stream(), Stack()
    stream.set_text("```python\n" + "def f(x):\n    return x + 1  # one more\n" * 1000 + "```\n")
    while not stream.complete:
        stream.step()
    stack.set_width(400)
    stack.put(0, stream.blocks)
    stack.measure_more(0)
    assert 0 < sum(len(block.code) for block in made) < 2500


def test_another_width_lays_out_few_blocks_at_once(
    long_view: tuple[QScrollArea, MarkdownView], made: list[TextBlock], qtbot: QtBot
) -> None:
    _, view = long_view
    exact = view.heightForWidth(400)
    made.clear()
    guessed = view.heightForWidth(250)
    assert len(made) <= AT_ONCE
    assert guessed > exact / 2
    qtbot.waitUntil(lambda: view.complete, timeout=60_000)
    sums = sum(one.height + one.gap for one in view.laid)
    assert view.heightForWidth(250) == sums
    view.heightForWidth(400)
    qtbot.waitUntil(lambda: view.complete, timeout=60_000)
    assert view.heightForWidth(400) == exact


def test_other_colours_lay_out_only_what_is_seen(
    long_view: tuple[QScrollArea, MarkdownView], made: list[TextBlock], qtbot: QtBot
) -> None:
    _, view = long_view
    made.clear()
    palette = QPalette(view.palette())
    palette.setColor(QPalette.ColorRole.WindowText, QColor("#123456"))
    view.setPalette(palette)
    view.grab(view.visibleRegion().boundingRect())
    assert 0 < len(made) <= AT_ONCE


def test_few_documents_stay(long_view: tuple[QScrollArea, MarkdownView]) -> None:
    area, view = long_view
    bar = area.verticalScrollBar()
    for part in range(20):
        bar.setValue(bar.maximum() * part // 20)
        view.repaint()
    assert sum(one.has_document for one in view.laid) <= KEPT


def test_a_long_text_gives_the_search_for_garbage_little_to_walk(qtbot: QtBot) -> None:
    """Each object that it walks counts: with 20,000 paragraphs it stops the window."""
    view = MarkdownView("text")
    qtbot.addWidget(view)
    view.heightForWidth(400)
    gc.collect()
    before = len(gc.get_objects())
    view.set_text("\n\n".join(f"Paragraph {n}." for n in range(MANY)))
    qtbot.waitUntil(lambda: view.complete, timeout=60_000)
    gc.collect()
    assert len(gc.get_objects()) - before < 4.6 * MANY


def test_one_more_block_is_as_much_work_below_a_long_text(qtbot: QtBot) -> None:
    """What stands above is not walked again, neither for places nor for bars of code."""
    work, view = [], QWidget()
    qtbot.addWidget(view)
    code = TextBlock("code", code="x = 1")
    for count in (30, 30, 30 + 11 * RUN):  # the first also makes what all share
        stack = Stack()
        stack.set_width(300)
        bars = CodeBars(view, stack)
        stack.put(0, [code] + [TextBlock("text", (Span(f"{n}"),)) for n in range(count)])
        stack.measure([0])
        bars.place()
        with steps_executed() as executed:
            stack.put(count, [TextBlock("text", (Span("One more."),))])
            stack.measure([count])
            bars.place()
        work.append(executed[0])
    assert work[2] < work[1] + 1000


def test_guessed_heights_become_exact_where_one_looks(qtbot: QtBot) -> None:
    stack = Stack()
    stack.set_width(300)
    stack.put(0, [TextBlock("text", (Span(f"{n} " * 40),)) for n in range(1000)])
    assert not any(one.exact for one in stack.laid)
    rows = stack.rows_in(5000, 5400)
    assert stack.measure(rows)
    assert all(stack.laid[n].exact for n in rows)
    for above, below in zip(stack.laid, stack.laid[1:], strict=False):
        assert below.top == above.bottom + below.gap
    for y in (0, 777, 5100, stack.height - 1, stack.height + 100):
        row = stack.row_at(y)
        assert y < stack.laid[row].bottom or row == 999
        assert row == 0 or y >= stack.laid[row - 1].bottom
    stack.measure_more(0)
    assert sum(one.exact for one in stack.laid) <= AT_ONCE + len(rows)


def test_a_guess_is_near_the_truth(qtbot: QtBot) -> None:
    for block in (
        TextBlock("text", (Span("word " * 200),)),
        TextBlock("plain", (Span("\n".join(["a line"] * 100)),)),
        TextBlock("code", code="x = 1\n" * 50),
        TextBlock("table", rows=((((Span("a"),),) * 2),) * 30, aligns=("left", "left")),
    ):
        one = Laid(block, None, 500)
        guessed = one.height
        one.measure()
        assert 0.6 < guessed / one.height < 1.6


def test_very_much_code_has_bars_only_near_the_sight(qtbot: QtBot) -> None:
    area, view = QScrollArea(), MarkdownView("text")
    qtbot.addWidget(area)
    view.heightForWidth(400)
    view.set_text("```\nx = 1\n```\n\n" * (2 * MOST))
    qtbot.waitUntil(lambda: view.complete, timeout=60_000)
    view.resize(400, view.heightForWidth(400))
    area.setWidget(view)
    area.resize(420, 300)
    area.show()
    qtbot.waitExposed(area)
    for part in (1.0, 0.5, 0.0):
        bar = area.verticalScrollBar()
        bar.setValue(round(bar.maximum() * part))
        seen = view.visibleRegion().boundingRect()
        rows = [n for n in range(2 * MOST) if view.laid[n].top > seen.top()]
        near = rows[0] if part < 1 else 2 * MOST - 1
        assert near in view.bars.bars
        assert len(view.bars.bars) < MOST


def test_a_selection_of_all_needs_no_layout(
    long_view: tuple[QScrollArea, MarkdownView], made: list[TextBlock]
) -> None:
    _, view = long_view
    made.clear()
    view.select_all()
    assert view.selected_text.count("\n\n") == MANY - 1
    assert len(made) <= 2
