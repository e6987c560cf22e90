"""Five journeys in the whole window, a picture of each step in the folder of CUTAWAY_SCREENSHOTS:
attach and ask, a tool with consent, two models side by side, find an old chat and import, and the
laboratory.
"""

import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.state.presets import AnswerLimits
from app.tools.config import ServerConfig, write_servers
from app.views.talk.tools import CallCard
from app.window.main_window import MainWindow
from engine.protocol import CallPart, Generate, Piece, Sampling
from tests.app.documents.corpus import book, pdf_of
from tests.app.end_to_end.person import Person
from tests.app.helpers.gui import one_theme, plain, theme, window
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.tools.conftest import ORACLE
from tests.app.window.scenes import trial_scenes as scenes
from tests.app.window.test_drops import drag, drop, files

__all__ = ["one_theme", "plain", "theme", "window"]
pytestmark = [pytest.mark.model_file, pytest.mark.device, pytest.mark.full, pytest.mark.styled]
FACT = "The keeper of the light is called Marta Olsen, and her boat is the Astrid."
Film = Callable[..., None]


@pytest.fixture
def film(folder: Path, request: pytest.FixtureRequest) -> Film:
    """Take the next picture: `everywhere` in each theme, small, and with text of double size."""
    numbers, name = count(1), request.node.name.removeprefix("test_")

    def take(person: Person, what: str, everywhere: bool = False) -> None:
        number = next(numbers)
        shots = [("light", 1.0, 1600, 1000)]
        if everywhere:
            shots += [("dark", 1.0, 1100, 700), ("light", 2.0, 1600, 1000)]
        for tone, scale, width, height in shots:
            person.bench.preferences.update(theme=tone, font_scale=scale)
            person.window.resize(width, height)
            person.look(400)
            shot = f"film-{name}-{number:02}-{what}-{tone}-{scale:g}.png"
            assert person.window.grab().save(str(folder / shot))
        person.bench.preferences.update(theme="light", font_scale=1.0)
        person.window.resize(1600, 1000)
        person.look(200)

    return take


def ask(person: Person, question: str, tokens: int = 60) -> None:
    chat = person.bench.chat
    chat.details.set_sampling(Sampling(temperature=0))
    chat.details.set_limits(AnswerLimits(max_tokens=tokens))
    person.click("Message")
    person.type(question)
    person.key(Qt.Key.Key_Return)
    person.wait(lambda: not chat.busy and chat.path)
    person.look(200)


def test_a_tool_with_consent(window: MainWindow, qtbot: QtBot, tmp_path: Path, film: Film) -> None:
    """The model is scripted: a small one does not call tools when it should. First in this file, as
    the window of the others stays open.
    """
    person, bench = Person(qtbot, window), window.bench
    engine = bench.engine
    assert isinstance(engine, ScriptedEngine)
    write_servers(bench.tools.path, [ServerConfig("harbour", sys.executable, (str(ORACLE),))])
    (tmp_path / "SmolLM2.gguf").touch()
    bench.session.open(tmp_path / "SmolLM2.gguf")
    engine.load_done()
    person.wait(window.files.has_chat)
    menu = window.talk.composer.tools.menu_of()
    for action in menu.actions():
        if action.text() in ("harbour", "Calculator"):
            action.trigger()
    menu = window.talk.composer.tools.menu_of()
    menu.popup(window.mapToGlobal(window.rect().center()))
    person.look(200)
    assert menu.grab().save(str(tmp_path / "menu.png"))
    menu.close()
    person.click(window.talk.composer.field)
    person.type("How many boats are there, 20 and 22 together?")
    person.key(Qt.Key.Key_Return)
    person.wait(lambda: bench.tools.in_question)
    film(person, "server", everywhere=True)
    person.wait(window.talk.composer.server.run.isEnabled)
    person.click(window.talk.composer.server.run)
    person.wait(lambda: isinstance(engine.last, Generate))
    engine.write("Let me add them.")
    call = CallPart(0, "c0", "harbour__add", json.dumps({"a": 20, "b": 22}))
    engine.say(Piece(engine.last.id, "", [], "call", call))
    engine.end("calls")
    person.look(100)
    film(person, "call", everywhere=True)

    def card() -> CallCard:
        calls = person.message(1).calls
        assert calls is not None
        return calls.cards[0]

    person.wait(lambda: card().once.isEnabled())
    person.click(card().once)
    person.wait(lambda: engine.last.messages[-1].role == "tool")
    engine.write("There are **42** boats.")
    engine.end()
    person.look(100)
    QTest.mouseClick(card().fold, Qt.MouseButton.LeftButton)
    film(person, "answered", everywhere=True)
    bench.tools.consent.set_always(bench.tools.known["harbour__add"], True)
    window.sheets.show_preferences()
    revoke = window.sheets.preferences.tools
    assert revoke is not None
    revoke.revoke[0].setFocus()
    person.look(300)
    film(person, "preferences", everywhere=True)


LABORATORY = {
    "edit": scenes.edit_form,
    "edited": scenes.control,
    "steering": scenes.steering,
    "map": scenes.patched,
    "causes": scenes.causes,
    "measuring": scenes.measuring,
    "quality": scenes.measured,
    "recorded": scenes.recorded,
    "features": scenes.featured,
}


@pytest.mark.parametrize("name", LABORATORY)
def test_laboratory(window: MainWindow, qtbot: QtBot, film: Film, name: str) -> None:
    """Forms and results, as scenes drive them by keyboard; the answers are scripted."""
    LABORATORY[name](window)
    film(Person(qtbot, window), "shown", everywhere=True)


def test_attach_and_ask(person: Person, tmp_path: Path, film: Film) -> None:
    pages = [page[:900] for page in book()[:60]]
    pages[41] += "\n" + FACT
    (tmp_path / "harbour.pdf").write_bytes(pdf_of(pages))
    data = files(tmp_path / "harbour.pdf")
    drag(person.window, data)
    film(person, "dragged")
    drop(person.window, data)
    chat = person.bench.chat
    person.wait(lambda: chat.documents.tokens is not None)
    person.click("Message")
    person.type("What is the keeper of the light called?")
    person.look(600)
    film(person, "too-long", everywhere=True)
    person.click("Choose parts…")
    person.click("Find parts")
    parts = person.window.sheets.document.parts
    person.wait(lambda: parts.search.found and not parts.search.searching)
    film(person, "parts", everywhere=True)
    person.click(parts.send)
    person.wait(lambda: "page" in chat.documents.documents[0].name)
    person.wait(lambda: person.bench.prompt.use.whole)
    film(person, "chosen")
    person.click("Message")
    chat.details.set_sampling(Sampling(temperature=0))
    chat.details.set_limits(AnswerLimits(max_tokens=40))
    person.key(Qt.Key.Key_Return)
    person.wait(lambda: not chat.busy and len(chat.path) == 2)
    film(person, "answered", everywhere=True)


def test_two_side_by_side(person: Person, film: Film) -> None:
    ask(person, "What is a lighthouse?", 30)
    person.window.commands.run("chat.pair")
    person.look(300)
    film(person, "form", everywhere=True)
    view = person.window.sheets.pair
    view.sides[0].choice.temperature.setCurrentIndex(1)
    view.sides[1].choice.temperature.setCurrentIndex(view.sides[1].choice.temperature.count() - 1)
    view.question.set_text("Name three things a harbour needs.")
    person.look(100)
    person.click("Send to both")
    person.wait(lambda: any(side.message and side.message.text for side in person.bench.pair.sides))
    film(person, "answering")
    person.wait(lambda: not person.bench.pair.busy)
    film(person, "compared", everywhere=True)
    view.done.emit()


def test_find_and_import(
    person: Person, tmp_path: Path, film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    for question in ("What is a lighthouse?", "Name a fish.", "Who repairs a net?"):
        person.run("chat.new")
        ask(person, question, 20)
    export = [
        {
            "title": f"From elsewhere {n}",
            "create_time": 1.7e9 + n,
            "current_node": "b",
            "mapping": {
                "a": {"id": "a", "parent": None, "children": ["b"], "message": {
                    "author": {"role": "user"},
                    "content": {"content_type": "text", "parts": [f"Where is quay {n}?"]}}},
                "b": {"id": "b", "parent": "a", "children": [], "message": {
                    "author": {"role": "assistant"},
                    "content": {"content_type": "text", "parts": ["Behind the lighthouse."]}}},
            },
        }
        for n in range(1, 4)
    ]  # fmt: skip
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(export))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    person.window.commands.run("chat.import")
    person.wait(lambda: person.reads("From elsewhere 3") or person.bench.chat.path)
    person.look(600)
    film(person, "imported", everywhere=True)
    chats = person.bench.chats
    chats.move(person.bench.chat.chat_id or 0, "Harbour")
    person.run("chat.search")
    person.type("lighthouse")
    person.look(800)
    film(person, "found", everywhere=True)
    before = person.bench.chat.chat_id
    person.run("chat.search")  # narrow windows have hidden it meanwhile
    person.key(Qt.Key.Key_Down)
    person.key(Qt.Key.Key_Return)
    person.wait(lambda: person.bench.chat.chat_id != before)
    person.look(600)
    film(person, "opened", everywhere=True)
