"""Answers: what is told of them, and very long ones."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Message
from engine.protocol import Finished, Stats
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.talk.driving import view

Ask = Callable[..., None]


def test_statistics_of_a_continued_answer_count_all_of_it(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    chat = talk.bench.chat
    ask("Q", *["a "] * 40)
    used = chat.context.used
    assert chat.continue_answer(1)
    engine.write(*["b "] * 20)
    engine.say(Finished(engine.last.id, "stop", Stats(161, 160, 20, 0.0, 0.1, 0.3, 0.2, 9, 181)))
    footer = view(talk, 1).footer
    assert footer is not None
    assert footer.numbers.text() == "123 t/s  ·  60 tok  ·  TTFT 213 ms"
    assert "Prompt: 120 tokens" in footer.toolTip()
    assert chat.context.used == used + 20


@pytest.mark.parametrize(("n", "shown"), [(1, "1 token,"), (3, "3 tokens,")])
def test_the_log_counts_the_tokens_that_the_message_shows(
    talk: Talk, ask: Ask, engine: ScriptedEngine, qtbot: QtBot, n: int, shown: str
) -> None:
    """The engine counts the token that ended the answer too, which has no text."""

    def ended() -> list[str]:
        return [line.text for line in talk.bench.log.lines if "answer ended" in line.text]

    ask("Q", *["a "] * n, end=False)
    engine.end(n=n + 1)
    footer = view(talk, 1).footer
    assert footer is not None
    assert f"{n} tok" in footer.numbers.text()
    qtbot.waitUntil(lambda: bool(ended()))  # lines come once a frame
    assert [shown in line for line in ended()] == [True], ended()


def test_why_an_answer_ended_is_told_first(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    ask("Q", *["a "] * 40, end=False)
    engine.end("cancelled", seed=18_000_000_000_000_000_000)
    footer = view(talk, 1).footer
    assert footer is not None
    assert footer.numbers.text().startswith("stopped  ·  139 t/s")


def test_what_is_read_in_a_very_long_answer_stays_when_its_width_changes(
    talk: Talk, ask: Ask, qtbot: QtBot
) -> None:
    ask("Q", "\n\n".join(f"Paragraph {n}, of words that wrap here and there." for n in range(2000)))
    body = view(talk, 1).body
    assert body is not None
    qtbot.waitUntil(lambda: body.complete, timeout=60_000)
    column, bar = talk.chat.column, talk.chat.column.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)

    def read() -> int:
        """The paragraph at the upper edge."""
        return body.mark_at(-body.mapTo(column.viewport(), QPoint(0, 0)).y())[0]

    before = read()
    assert 500 < before < 1500
    for width in (420, 700):
        talk.resize(width, 800)
        qtbot.waitUntil(lambda: body.complete, timeout=60_000)
        QApplication.processEvents()
        assert abs(read() - before) <= 1


def test_a_deleted_message_can_be_brought_back(
    talk: Talk, ask: Ask, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    chat = talk.bench.chat
    ask("One", "first")
    chat.regenerate(1)
    engine.write("second", " answer")
    engine.end(n=2)
    ask("Two", "third")
    before = [m.text for m in chat.path]
    tops = [info.text for info in (chat.tokens(1)[n] for n in range(2))]
    heard: list[int] = []
    chat.message_deleted.connect(heard.append)
    view(talk, 1).row.delete()
    assert [m.text for m in chat.path] == ["One", "first"]
    assert heard == [3]
    assert chat.undo_delete_message()
    assert [m.text for m in chat.path] == before
    assert [chat.tokens(1)[n].text for n in range(2)] == tops
    number = chat.chat_id
    chat.open(None)
    chat.open(number)
    assert [m.text for m in chat.path] == before
    assert chat.path[1].siblings == 2
    assert not chat.undo_delete_message()


def test_what_cannot_be_put_back_is_not_half_there(
    talk: Talk, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = talk.bench.chat
    ask("One", "first")
    ask("Two", "second")
    before = [m.text for m in chat.path]
    assert chat.delete_message(1)

    def fail(self: ChatStore, message: Message, number: int) -> None:
        raise StoreError("chats.sqlite", "disk full")

    monkeypatch.setattr(ChatStore, "_choose", fail)
    assert not chat.undo_delete_message()
    assert [m.text for m in chat.path] == ["One"]
    monkeypatch.undo()
    number = chat.chat_id
    assert chat.undo_delete_message()
    assert [m.text for m in chat.path] == before
    chat.open(None)
    chat.open(number)
    assert [m.text for m in chat.path] == before


def test_numbers_have_a_line_of_their_own_where_one_would_cut_them(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", *["a "] * 40, end=False)
    engine.end("cancelled", seed=7)
    for width in (900, 420, 900):
        talk.resize(width, 800)
        footer = view(talk, 1).footer
        assert footer is not None
        numbers = footer.numbers
        needed = numbers.fontMetrics().horizontalAdvance(numbers.text())
        assert numbers.text().startswith("stopped  ·  139 t/s")
        assert numbers.width() >= min(needed, footer.width())
        assert footer.height() >= numbers.height()
