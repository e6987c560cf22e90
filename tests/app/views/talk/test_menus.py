"""The context menus of messages: what the buttons do, at the text and beside it."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest
from tests.app.views.talk.driving import view

Ask = Callable[..., None]
LAST = ["Branch in a new chat", "Delete this and later messages"]
OF_ANSWER = ["Copy the message", "Edit", "Regenerate", "Continue", *LAST]
OF_QUESTION = ["Copy the message", "Edit", *LAST]
OF_TEXT = ["Copy", "Select all"]


def menu_of(widget: QWidget) -> QMenu:
    at = QPoint(4, 4)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, widget.mapToGlobal(at))
    QApplication.sendEvent(widget, event)
    popup = QApplication.activePopupWidget()
    assert isinstance(popup, QMenu)
    return popup


def titles(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if action.text()]


def run(menu: QMenu, title: str) -> None:
    next(action for action in menu.actions() if action.text() == title).trigger()
    menu.close()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.mark.parametrize("at_text", [True, False])
def test_a_message_offers_in_its_menu_what_its_buttons_do(
    talk: Talk, ask: Ask, engine: ScriptedEngine, at_text: bool
) -> None:
    ask("Which capital?", "Paris.")
    question, answer = view(talk, 0), view(talk, 1)
    assert question.body is not None
    assert answer.body is not None
    extra = OF_TEXT if at_text else []
    menu = menu_of(answer.body if at_text else answer.header)
    assert titles(menu) == extra + OF_ANSWER
    run(menu, "Copy the message")
    assert QGuiApplication.clipboard().text() == "Paris."
    menu = menu_of(question.body if at_text else question.header)
    assert titles(menu) == extra + OF_QUESTION
    run(menu, "Edit")
    assert question.edit is not None
    question.end_edit()
    run(menu_of(answer.body if at_text else answer.header), "Regenerate")
    engine.write("Rome.")
    engine.end()
    come_to_rest(talk, talk.bench)
    assert talk.bench.chat.path[1].siblings == 2


def test_an_answer_that_is_written_can_only_be_copied(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    ask("Q", "A", end=False)
    menu = menu_of(view(talk, 1).header)
    assert titles(menu) == ["Copy the message"]
    menu.close()
    engine.end()


def test_tokens_have_the_menu_too(talk: Talk, ask: Ask) -> None:
    ask("Q", "A", " b")
    talk.chat.toggle_probabilities()
    shown = view(talk, 1).tokens
    assert shown is not None
    menu = menu_of(shown.painter)
    assert titles(menu) == OF_ANSWER
    menu.close()


def test_a_branch_in_a_new_chat_ends_at_its_message(
    talk: Talk, ask: Ask, engine: ScriptedEngine
) -> None:
    chat = talk.bench.chat
    ask("Which capital?", "Rome.")
    assert chat.regenerate(1)
    engine.write("Paris.")
    engine.end()
    ask("And of Italy?", "Rome.")
    talk.bench.chats.arrived.connect(chat.open)  # as the list of chats does
    before, texts = chat.chat_id, [message.text for message in chat.path]
    run(menu_of(view(talk, 1).header), "Branch in a new chat")
    come_to_rest(talk, talk.bench)
    assert chat.chat_id != before
    assert [message.text for message in chat.path] == ["Which capital?", "Paris."]
    assert [message.siblings for message in chat.path] == [1, 1]
    assert chat.details.title == "Which capital? (branch)"
    chat.open(before)
    assert [message.text for message in chat.path] == texts
