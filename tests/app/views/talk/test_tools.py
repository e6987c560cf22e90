"""Tools in the talk: the menu, the question before a server starts, call cards, the keyboard."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.tools.config import ServerConfig, write_servers
from app.views.talk.tools import CallCard
from engine.protocol import CallPart, Generate, Piece
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.tools.conftest import RUDE
from tests.line.later import need

need("mcp")
Until = Callable[[Callable[[], object]], None]


@pytest.fixture
def until(qtbot: QtBot) -> Until:
    return lambda true: qtbot.waitUntil(lambda: bool(true()), timeout=60_000)


@pytest.fixture
def calls(tmp_path: Path, bench: Workbench) -> Path:
    """The file in which the server notes what ran."""
    noted = tmp_path / "calls"
    env = (("CALLS", str(noted)),)
    rude = ServerConfig("rude", sys.executable, ("-S", str(RUDE)), env)
    write_servers(tmp_path / "config" / "mcp.json", [rude])
    return noted


def say_call(engine: ScriptedEngine, name: str, arguments: str = "{}", end: bool = True) -> None:
    number = engine.last.id
    engine.write("Let me look.")
    engine.say(Piece(number, "", [], "call", CallPart(0, "c0", name, arguments)))
    if end:
        engine.end("calls")


def card_of(talk: Talk, row: int = 1) -> CallCard:
    calls = talk.chat.view_of(row).calls
    assert calls is not None
    return calls.cards[0]


def double_click(button: QWidget) -> None:
    for press in (QTest.mouseClick, QTest.mouseDClick, QTest.mouseClick):
        press(button, Qt.MouseButton.LeftButton)


def pictures(talk: Talk, theme: Theme, name: str) -> None:
    """The talk in every theme and with large text, where pictures are wanted."""
    folder = os.environ.get("CUTAWAY_SCREENSHOTS")
    for tone, scale in (("light", 1.0), ("dark", 1.0), ("light", 2.0)) if folder else ():
        theme.choose(tone, scale)
        QTest.qWait(300)
        assert talk.grab().save(f"{folder}/tools-{name}-{tone}-{scale}.png")
    theme.choose("light")


def test_the_menu_turns_tools_on(talk: Talk, bench: Workbench, calls: Path) -> None:
    menu = talk.composer.tools.menu_of()
    titles = [action.text() for action in menu.actions() if action.text()]
    assert titles == [
        "Calculator", "Current time", "Read attached files", "rude", "Import servers…",
        "Edit mcp.json",
    ]  # fmt: skip
    for action in menu.actions():
        assert not action.isChecked()
        if action.text() in ("Calculator", "rude"):
            action.trigger()
    assert bench.chat.details.tools == ("calculator", "rude")
    assert talk.composer.tools.accessibleName() == "Tools of this chat: 2 on"
    assert bench.tools.host.processes == []


def test_consent_is_given_by_hand(
    talk: Talk,
    theme: Theme,
    bench: Workbench,
    engine: ScriptedEngine,
    calls: Path,
    until: Until,
) -> None:
    question = talk.composer.server
    bench.chat.details.set_tools(["rude"])
    bench.chat.send("Is it ok?")
    until(lambda: not question.isHidden())
    assert str(RUDE) in question.command.toPlainText()
    assert f"CALLS={calls}" in question.command.toPlainText()
    flags = question.command.textInteractionFlags()
    assert flags & Qt.TextInteractionFlag.TextSelectableByMouse
    assert not question.run.isDefault()
    assert not question.run.autoDefault()
    QTest.keyClick(talk.composer.field, Qt.Key.Key_Return)  # Enter runs nothing
    double_click(question.run)  # it has only just appeared
    assert bench.tools.in_question is not None
    assert bench.tools.host.processes == []
    pictures(talk, theme, "server")
    until(question.run.isEnabled)
    question.run.setFocus()
    QTest.keyClick(question.run, Qt.Key.Key_Return)
    assert question.isHidden()
    until(lambda: isinstance(engine.last, Generate))

    say_call(engine, "rude__ok", '{"city": "Zürich\u202e", "days": 2}')
    card = card_of(talk)
    until(lambda: card.state.text() == "Needs your consent")
    assert "\u202e" not in card.arguments.toPlainText()
    double_click(card.once)
    QTest.keyClick(card.once, Qt.Key.Key_Return)
    QTest.keyClick(talk.composer.field, Qt.Key.Key_Return)
    assert not calls.exists()
    pictures(talk, theme, "consent")
    card = card_of(talk)
    until(card.once.isEnabled)
    double_click(card.once)
    until(lambda: engine.last.messages[-1].role == "tool")
    assert calls.read_text() == "ok\n"
    card = card_of(talk)
    assert card.state.text().startswith("Done")
    assert card.buttons.isHidden()
    assert card.fold.accessibleName() == "Result, folded"
    card.fold.click()
    assert card.result.toPlainText() == "done"
    engine.write("It is ok.")
    engine.end()
    pictures(talk, theme, "done")


def test_hostile_results_are_plain_text(
    talk: Talk, bench: Workbench, engine: ScriptedEngine, until: Until
) -> None:
    bench.chat.details.set_tools(["calculator"])
    bench.chat.send("Hi")
    until(lambda: isinstance(engine.last, Generate))
    say_call(engine, "<b>\x1b[2K</b>", '{"a": "<img src=x>"}')
    until(lambda: engine.last.messages[-1].role == "tool")
    card = card_of(talk)
    assert card.name.text() == "<b>\\x1b[2K</b>"
    assert card.name.textFormat() == Qt.TextFormat.PlainText
    assert card.arguments.toPlainText() == '{"a": "<img src=x>"}'
    assert card.state.text() == "Failed"


def test_stop_takes_the_question_away(
    talk: Talk, bench: Workbench, engine: ScriptedEngine, calls: Path, until: Until
) -> None:
    bench.chat.details.set_tools(["rude"])
    bench.chat.send("Hi")
    until(lambda: not talk.composer.server.isHidden())
    talk.composer.send_button.click()
    assert not bench.chat.busy
    assert talk.composer.server.isHidden()
    assert bench.tools.host.processes == []


def test_calls_are_shown_while_they_are_written(
    talk: Talk, bench: Workbench, engine: ScriptedEngine, until: Until
) -> None:
    bench.chat.details.set_tools(["calculator"])
    bench.chat.send("Hi")
    until(lambda: isinstance(engine.last, Generate))
    say_call(engine, "calculator", '{"expre', end=False)
    assert card_of(talk).state.text() == "Writing…"
    assert card_of(talk).arguments.toPlainText() == '{"expre'
    bench.chat.stop()
    engine.end("cancelled")
    assert card_of(talk).state.text() == "Stopped"
