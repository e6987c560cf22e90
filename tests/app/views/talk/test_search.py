"""A search leads to the words that were searched for."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme.theme import tokens
from app.views.talk.chats import ChatsView
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.talk.driving import open_stored, view

Ask = Callable[..., None]


@pytest.fixture
def chats(talk: Talk, ask: Ask) -> ChatsView:
    """A long chat with one hit far above its end, and another chat that is open."""
    words = "word " * 150
    hit = f"{words}\n\nThe Zebra runs.\n\n{words}"
    open_stored(talk, *((f"Question {n}", hit if n == 3 else words) for n in range(12)))
    talk.bench.chat.open(None)
    ask("Something else", "Nothing.")
    return beside(talk)


def beside(talk: Talk) -> ChatsView:
    """The list of chats beside the talk."""
    made = ChatsView(talk.bench)
    layout = talk.layout()
    assert layout is not None
    layout.addWidget(made)
    made.show()
    QApplication.processEvents()
    return made


def open_first(chats: ChatsView) -> None:
    index = chats.list.model().index(0, 0)
    at = chats.list.visualRect(index).center()
    QTest.mouseClick(chats.list.viewport(), Qt.MouseButton.LeftButton, pos=at)
    QApplication.processEvents()


@pytest.mark.parametrize("keys", [[Qt.Key.Key_Down, Qt.Key.Key_Return], [Qt.Key.Key_Enter]])
def test_the_keyboard_goes_from_the_search_to_a_hit(
    talk: Talk, chats: ChatsView, keys: list[Qt.Key]
) -> None:
    before = talk.bench.chat.chat_id
    chats.search.setFocus()
    QTest.keyClicks(chats.search, "zebra runs")
    for key in keys:
        QTest.keyClick(QApplication.focusWidget() or chats.search, key)
    assert talk.bench.chat.chat_id not in (None, before)
    assert chats.list.hasFocus()


def test_a_hit_is_opened_where_it_is_and_marked(talk: Talk, chats: ChatsView, qtbot: QtBot) -> None:
    QTest.keyClicks(chats.search, "zebra runs")
    open_first(chats)
    shown = view(talk, 7)
    body, sight = shown.body, talk.chat.column.viewport()
    assert body is not None
    row = next(n for n, laid in enumerate(body.laid) if "Zebra" in laid.document.toPlainText())
    hit = body.laid[row]
    top = body.mapTo(sight, QPoint(0, hit.top)).y()
    assert 0 < top < top + hit.height < sight.height()
    image = body.grab().toImage()
    mark = QColor(tokens().on("warn", 0.35))
    seen = {
        image.pixelColor(x, y).name()
        for x in range(image.width())
        for y in range(hit.top, hit.bottom)
    }
    assert mark.name() in seen
    chats.search.clear()
    image = body.grab().toImage()
    assert mark.name() not in {
        image.pixelColor(x, hit.top + 8).name() for x in range(image.width())
    }


@pytest.mark.full  # 1 of 12 runs ends elsewhere; 5 did before the list stayed at the hit
def test_a_hit_is_opened_where_the_text_is_parsed_later(talk: Talk, ask: Ask, qtbot: QtBot) -> None:
    words = [("word " * 20).strip()] * 1000
    ask("Long", "\n\n".join([*words, "The Giraffe runs.", *words[:50]]))
    talk.bench.chat.open(None)
    ask("Something else", "Nothing.")
    chats = beside(talk)
    QTest.keyClicks(chats.search, "giraffe")
    open_first(chats)
    body, sight = view(talk, 1).body, talk.chat.column.viewport()
    assert body is not None
    assert "Giraffe" not in body.text
    qtbot.waitUntil(lambda: body.complete, timeout=60_000)
    hit = next(laid for laid in body.laid if "Giraffe" in laid.document.toPlainText())

    def is_seen() -> bool:
        top = body.mapTo(sight, QPoint(0, hit.top)).y()
        return 0 < top < top + hit.height < sight.height()

    qtbot.waitUntil(is_seen, timeout=10_000)  # the heights above are measured in turns to come


def test_a_hit_in_another_branch_shows_that_branch(
    talk: Talk, ask: Ask, engine: ScriptedEngine, chats: ChatsView
) -> None:
    chat = talk.bench.chat
    chat.open(None)
    ask("Q", "The giraffe.")
    chat.regenerate(1)
    engine.write("The other.")
    engine.end()
    assert chat.path[1].text == "The other."
    QTest.keyClicks(chats.search, "giraffe")
    open_first(chats)
    assert chat.path[1].text == "The giraffe."
    assert talk.chat.latest.isHidden()  # the end is in sight


def test_escape_clears_the_search_and_stops_no_answer(
    talk: Talk, engine: ScriptedEngine, chats: ChatsView
) -> None:
    QTest.keyClicks(chats.search, "zebra")
    count = len(talk.bench.chats.rows)
    QTest.keyClick(chats.search, Qt.Key.Key_Escape)
    assert chats.search.text() == ""
    assert count == 1 < len(talk.bench.chats.rows)
