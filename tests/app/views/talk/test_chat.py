"""The talk, driven by the mouse and the keyboard, answered by protocol messages."""

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QProgressBar, QWidget
from pytestqt.qtbot import QtBot

from app.views.talk.message import MessageView
from app.widgets.basics import IconButton
from app.widgets.overlays import Banner
from engine.errors import WorkerDied
from engine.protocol import Failed, Generate, Progress
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest
from tests.app.views.talk.driving import button, click, open_stored, view

Ask = Callable[..., None]
MANY = "First.\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe last paragraph."


def texts(talk: Talk) -> list[str]:
    return [message.text for message in talk.bench.chat.path]


def test_an_answer_streams_and_earlier_blocks_stay_as_they_are(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", MANY, end=False)
    body = view(talk, 1).body
    assert body is not None
    before = list(body.laid)
    engine.write(" And", " more", ".\n\nNew")
    body.finish()
    assert body.laid[: len(before) - 1] == before[:-1]
    assert body.laid[len(before) - 1] is not before[-1]
    assert [b.kind for b in body.blocks] == ["text", "text", "text", "code", "text", "text"]
    assert body.text.endswith("The last paragraph. And more.\n\nNew")


def test_the_end_is_followed_until_the_reader_scrolls_up(
    talk: Talk, ask: Ask, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    ask("Q", *["A line.\n\n"] * 60, end=False)
    bar, column = talk.chat.column.verticalScrollBar(), talk.chat.column
    qtbot.waitUntil(lambda: bar.maximum() > 500)
    assert column.following
    assert bar.value() == bar.maximum()
    assert talk.chat.latest.isHidden()
    view = column.widget(1)
    assert isinstance(view, MessageView)
    body = view.body
    assert body is not None
    qtbot.waitUntil(lambda: body.complete)  # else the line stays, and its place may move
    assert bar.value() == bar.maximum()
    bar.setValue(bar.value() - 300)
    kept = bar.value()
    engine.write(*["More.\n\n"] * 40)
    qtbot.waitUntil(lambda: bar.maximum() > kept + 900)
    assert bar.value() == kept
    assert not column.following
    assert not talk.chat.latest.isHidden()
    QTest.mouseClick(talk.chat.latest, Qt.MouseButton.LeftButton)
    assert column.following
    assert bar.value() == bar.maximum()
    assert talk.chat.latest.isHidden()


def test_what_is_read_stays_in_place_when_rows_above_are_measured(talk: Talk) -> None:
    answer = "# Answer\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx\n```\n"
    open_stored(talk, *((f"Question {n}", answer) for n in range(60)))
    column, bar = talk.chat.column, talk.chat.column.verticalScrollBar()
    talk.chat.show_path(0)
    come_to_rest(talk)
    assert len(column.live) < 60

    def shown() -> dict[int, int]:
        return {row: w.y() for row, w in column.live.items() if 0 < w.y() < column.height()}

    for _ in range(12):
        above = min(column.live)
        bar.setValue(bar.value() - 400)
        before, at = shown(), bar.value()
        come_to_rest(talk)
        after = shown()
        assert before
        assert min(column.live) < above
        assert bar.value() != at  # as rows above are not as high as estimated
        assert before == {row: after[row] for row in before}
        bar.setValue(bar.value() - 40)
        assert {row: y + 40 for row, y in after.items()} == {
            row: column.live[row].y() for row in after
        }


def test_only_messages_near_the_sight_are_widgets(talk: Talk, ask: Ask, qtbot: QtBot) -> None:
    open_stored(talk, *((f"Question {n}", f"Answer {n}") for n in range(78)))
    for n in range(2):
        ask(f"And {n}", f"Answer {n}")
    assert talk.chat.column.count == 160
    come_to_rest(talk)
    assert len(talk.chat.column.live) < 60
    talk.chat.column.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: talk.chat.column.widget(0) is not None)
    assert len(talk.chat.column.live) < 60


def test_another_answer_is_a_branch_with_arrows(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", "First answer.")
    click(view(talk, 1), "Regenerate")
    engine.write("Second answer.")
    engine.end()
    shown = view(talk, 1)
    assert shown.body is not None
    assert shown.body.text == "Second answer."
    place = shown.buttons.place
    assert (place.text(), place.isVisibleTo(shown)) == ("2/2", True)
    click(shown, "Previous branch")
    assert texts(talk)[1] == "First answer."
    assert view(talk, 1).buttons.after.hasFocus()
    assert not view(talk, 1).buttons.before.isEnabled()


def test_up_edits_the_last_question_in_its_place(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("What is a cat", "An animal.")
    QTest.keyClick(talk.composer.field, Qt.Key.Key_Up)
    edit = view(talk, 0).edit
    assert edit is not None
    assert edit.field.hasFocus()
    assert edit.field.text == "What is a cat"
    QTest.keyClicks(edit.field, "egory?")
    QTest.keyClick(edit.field, Qt.Key.Key_Return)
    request = engine.last
    assert isinstance(request, Generate)
    assert request.messages[-1].content == "What is a category?"
    assert talk.bench.chat.path[0].siblings == 2
    assert view(talk, 0).edit is None


def test_escape_leaves_an_edit_and_nothing_else(talk: Talk, ask: Ask) -> None:
    ask("Q", "A.")
    view(talk, 0).body.setFocus()  # type: ignore[union-attr]
    click(view(talk, 0), "Edit")
    edit = view(talk, 0).edit
    assert edit is not None
    QTest.keyClicks(edit.field, " changed")
    QTest.keyClick(edit.field, Qt.Key.Key_Escape)
    QApplication.processEvents()
    assert view(talk, 0).edit is None
    assert texts(talk) == ["Q", "A."]


def test_an_answer_can_be_edited_and_kept_beside_the_old(talk: Talk, ask: Ask) -> None:
    ask("Q", "A.")
    click(view(talk, 1), "Edit")
    edit = view(talk, 1).edit
    assert edit is not None
    edit.field.set_text("Another.")
    click(edit, "Save")
    assert texts(talk) == ["Q", "Another."]
    shown = view(talk, 1)
    assert shown.body is not None
    assert shown.body.text == "Another."
    assert talk.bench.chat.path[1].siblings == 2


def test_go_on_continues_the_text(talk: Talk, ask: Ask, engine: ScriptedEngine) -> None:
    ask("Q", "Once upon")
    click(view(talk, 1), "Continue")
    request = engine.last
    assert isinstance(request, Generate)
    assert request.prefix == "Once upon"
    engine.write(" a time.")
    engine.end()
    assert texts(talk)[1] == "Once upon a time."


def test_copies(talk: Talk, ask: Ask) -> None:
    clipboard = QGuiApplication.clipboard()
    ask("Q", MANY)
    click(view(talk, 1), "Copy the message")
    assert clipboard.text() == MANY
    click(view(talk, 1), "Copy python code")
    assert clipboard.text() == "x = 1"
    talk.chat.copy_last()
    assert clipboard.text() == MANY


def test_a_call_is_shown_as_name_and_arguments(
    talk: Talk, ask: Ask, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    ask("Q", "<think>\n", "Hm.\n</think>\n\nLet me look.\n<tool_call>\n{", end=False)
    body = view(talk, 1).body
    assert body is not None
    assert body.text == "Let me look.\n\nCalls a tool …"
    engine.write('"name": "get_weather", "arguments": {"city": "<b>Zürich"}}\n</tool_call>')
    engine.end()
    words = 'Let me look.\n\nCalls get_weather\n\n{\n "city": "<b>Zürich"\n}'
    qtbot.waitUntil(lambda: body.text == words)
    assert "tool_call" not in body.accessibleDescription()


def test_thought_is_folded_with_its_time(
    talk: Talk, ask: Ask, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    ask("Q", "<think>Let me ", "see.", end=False)
    thought = view(talk, 1).thought
    assert thought is not None
    assert "Thinking for" in thought.fold.text()
    engine.write("</think>\n\n", "Four.")
    engine.end()
    come_to_rest(talk)
    shown = view(talk, 1)
    assert shown.body is not None
    assert shown.body.text == "Four."
    assert shown.thought is not None
    assert "Thought for" in shown.thought.fold.text()
    assert shown.thought._text is None
    height = shown.height()
    click(shown.thought, "Thought for")
    assert shown.thought._text is not None
    assert shown.thought._text.text == "Let me see."
    assert shown.height() > height


def test_progress_of_the_prompt_until_the_first_token(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", end=False)
    request = engine.last.id
    engine.say(Progress(request, "prefill", 256, 1024))
    shown = view(talk, 1)
    assert shown.progress is not None
    assert "256 of 1\u2009024 tokens" in shown.progress.words.text()
    bar = shown.progress.findChild(QProgressBar)
    assert isinstance(bar, QProgressBar)
    assert (bar.value(), bar.maximum()) == (250, 1000)
    for view_of, block, told in (
        ((1, 1), (7, 27), "picture  ·  block 7 of 27"),
        ((3, 13), (7, 12), "picture  ·  view 3 of 13, block 7 of 12"),
    ):
        engine.say(Progress(request, "encode", 6, 27, None, (1, 1), view_of, block))
        assert shown.progress.words.text().endswith(told)
        assert (bar.value(), bar.maximum()) == (222, 1000)
    engine.write("A")
    assert view(talk, 1).progress is None


def test_statistics_stand_under_the_answer(talk: Talk, ask: Ask) -> None:
    ask("Q", *["a "] * 40)
    footer = view(talk, 1).footer
    assert footer is not None
    assert footer.numbers.text() == "139 t/s  ·  40 tok  ·  TTFT 213 ms"
    assert "30 from the cache" in footer.toolTip()
    assert "Seed 7" in footer.toolTip()


def test_a_failed_answer_has_a_banner_with_its_next_step(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", end=False)
    engine.say(Failed(engine.last.id, "ContextFull", "the prompt has 9000 tokens of 2048"))
    shown = view(talk, 1)
    banner = shown.findChild(Banner)
    assert isinstance(banner, Banner)
    assert banner.text == "the prompt has 9000 tokens of 2048"
    count = len(engine.asked)
    click(banner, "Try again")
    assert isinstance(engine.last, Generate)
    assert len(engine.asked) == count + 1


def test_after_a_death_the_answer_stays_and_can_go_on(
    talk: Talk, ask: Ask, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    ask("Q", "Half an", end=False)
    engine.die(WorkerDied(-9, "killed by signal 9"))
    caplog.clear()
    shown = view(talk, 1)
    assert shown.body is not None
    assert shown.body.text == "Half an"
    assert shown.end is not None
    assert shown.end.text == "Interrupted: the engine stopped."
    click(shown.end, "Continue")
    assert talk.bench.session.status == "loading"
    assert talk.bench.chat.busy


def test_links_open_only_by_a_click_and_only_where_that_is_safe(
    talk: Talk, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    ask(
        "Q",
        "[here](https://example.org/x) ![pic](https://example.org/p.png) [f](file:///etc/passwd)",
    )
    body = view(talk, 1).body
    assert body is not None
    body.finish()
    assert opened == []
    QTest.mouseClick(body, Qt.MouseButton.LeftButton, pos=QPoint(10, 10))
    assert opened == ["https://example.org/x"]
    talk.chat.open_link("file:///etc/passwd")
    talk.chat.open_link("javascript:alert(1)")
    talk.chat.open_link("mailto:a@example.org")
    assert len(opened) == 1


def test_another_chat_is_shown_from_its_end(talk: Talk) -> None:
    first = open_stored(talk, *((f"Question {n}", "word " * 200) for n in range(10)))
    talk.bench.chat.open(None)
    QApplication.processEvents()
    assert not talk.chat.empty.isHidden()
    assert talk.chat.column.live == {}
    talk.bench.chat.open(first)
    QApplication.processEvents()
    bar = talk.chat.column.verticalScrollBar()
    assert talk.chat.empty.isHidden()
    assert bar.value() == bar.maximum() > 0


def test_tab_goes_through_the_messages_in_their_order(talk: Talk, ask: Ask) -> None:
    ask("One", "First.")
    ask("Two", "Second.")
    seen: list[str] = []
    view(talk, 0).body.setFocus()  # type: ignore[union-attr]
    for _ in range(40):
        now = QApplication.focusWidget()
        assert now is not None
        seen.append(now.accessibleName())
        if now is talk.composer.field:
            break
        QTest.keyClick(now, Qt.Key.Key_Tab)
    said = [name for name in seen if ", message" in name]
    assert [int(name.split()[-1]) for name in said] == [1, 2, 3, 4]
    assert seen.count("Copy the message") == 4
    assert "Regenerate" in seen
    assert seen[-1] == "Message"


def test_every_widget_that_takes_the_keyboard_has_a_name(talk: Talk, ask: Ask) -> None:
    ask("Q", "<think>hm</think>" + MANY)
    click(view(talk, 1), "Edit")
    talk.chat.toggle_probabilities()
    talk.composer.show_sampling()
    nameless = [
        widget
        for widget in talk.findChildren(QWidget)
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not widget.accessibleName()
        and not widget.objectName().startswith("qt_")
    ]
    assert nameless == []


def test_more_text_of_another_size(talk: Talk, ask: Ask, theme: Any) -> None:
    ask("Q", "word " * 100)
    before = view(talk, 1).height()
    theme.choose("dark", 1.5)
    QApplication.processEvents()
    assert view(talk, 1).height() > before * 1.4
    theme.choose("light")


def test_icon_buttons_say_what_they_did(talk: Talk, ask: Ask, qtbot: QtBot) -> None:
    ask("Q", "A.")
    copy = button(view(talk, 1), "Copy the message")
    assert isinstance(copy, IconButton)
    click(view(talk, 1), "Copy the message")
    assert copy.accessibleName() == "Copied"
    qtbot.waitUntil(lambda: copy.accessibleName() == "Copy the message")
