"""Answers: what is told of them, and very long ones."""

from collections.abc import Callable

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.protocol import Finished, Stats
from tests.app.gui import Talk
from tests.app.views.scripted import ScriptedEngine
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
    assert footer._numbers.text() == "123 t/s  ·  60 tok  ·  TTFT 213 ms  ·  seed 9"
    assert "Prompt: 120 tokens" in footer.toolTip()
    assert chat.context.used == used + 20


def test_why_an_answer_ended_is_told_first(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    ask("Q", *["a "] * 40, end=False)
    engine.end("cancelled", seed=18_000_000_000_000_000_000)
    footer = view(talk, 1).footer
    assert footer is not None
    assert footer._numbers.text().startswith("stopped  ·  139 t/s")


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
