"""The chat first, the inspector on demand: what a new window shows, what opens and closes it."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme.tokens import LEAST_TALK
from app.views.talk.message import MessageView
from app.widgets.focus import has_focus
from app.window.main_window import MainWindow
from tests.app.helpers.painted import faults, overlapping
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest

CTRL = Qt.KeyboardModifier.ControlModifier
NONE = Qt.KeyboardModifier.NoModifier


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(window.windowHandle(), key, modifiers)
    QApplication.processEvents()


@pytest.fixture
def answered(new_window: MainWindow, tiny_path: object) -> MainWindow:
    """A model has answered one question."""
    window, engine = new_window, new_window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.resize(1280, 800)
    window.bench.open_model(str(tiny_path))
    engine.load_done()
    assert window.bench.chat.send("Which capital?")
    engine.write("The capital", " is", " Paris")
    engine.end(n=3)
    come_to_rest(window, window.bench)
    return window


def click_a_word(window: MainWindow) -> None:
    view = window.talk.chat.column.require(1)
    assert isinstance(view, MessageView)
    assert view.body is not None
    view.body.word_clicked.emit(5)
    QApplication.processEvents()


def test_a_new_window_shows_the_chats_and_the_chat(answered: MainWindow) -> None:
    assert not answered.inspector.isVisible()
    assert answered.chats.isVisible()
    assert not answered.rail.isVisible()
    assert answered.talk.width() > 1000


def test_the_list_of_chats_makes_room_for_the_inspector(answered: MainWindow) -> None:
    press(answered, Qt.Key.Key_J, CTRL)
    assert answered.inspector.isVisible()
    assert answered.rail.isVisible()
    assert not answered.chats.isVisible()
    press(answered, Qt.Key.Key_J, CTRL)
    press(answered, Qt.Key.Key_J, CTRL)
    assert answered.chats.isVisible()
    answered.resize(1000, 700)
    come_to_rest(answered)
    assert not answered.chats.isVisible(), "one pane at a time"


def test_a_click_on_a_word_opens_the_inspector_at_it(answered: MainWindow) -> None:
    answered.talk.composer.field.setFocus()
    click_a_word(answered)
    assert answered.inspector.isVisible()
    assert answered.inspector.tab == "token"
    assert answered.talk.width() >= LEAST_TALK
    assert has_focus(answered.talk.composer), "the keyboard stays"
    answered.panes.show_tab("memory")
    click_a_word(answered)
    assert answered.inspector.tab == "memory", "an open page stays"


def test_in_a_narrow_window_a_click_on_a_word_shows_the_inspector_until_esc(
    answered: MainWindow, qtbot: QtBot
) -> None:
    answered.resize(1000, 700)
    qtbot.waitUntil(lambda: answered.inspector.bar.isVisible())
    answered.talk.composer.field.setFocus()
    click_a_word(answered)
    assert answered.inspector.tab == "token"
    assert answered.inspector.isVisible()
    assert has_focus(answered.inspector)
    QTest.keyClick(answered.focusWidget(), Qt.Key.Key_Escape)
    assert answered.talk.isVisible()
    assert not answered.inspector.isVisible()
    assert has_focus(answered.talk.composer)


def test_it_is_closed_by_esc_by_its_button_and_opened_by_the_one_above(
    answered: MainWindow,
) -> None:
    press(answered, Qt.Key.Key_2, CTRL)
    assert answered.inspector.memory.isVisible()
    answered.inspector.memory.matrix.setFocus()
    press(answered, Qt.Key.Key_Escape)
    assert not answered.inspector.isVisible()
    assert has_focus(answered.talk.composer)
    answered.top.inside.click()
    assert answered.inspector.memory.isVisible(), "where it was"
    answered.inspector.close_button.click()
    assert not answered.inspector.isVisible()
    press(answered, Qt.Key.Key_J, CTRL)
    assert answered.inspector.isVisible()


def test_esc_stops_an_answer_before_it_closes_anything(answered: MainWindow) -> None:
    press(answered, Qt.Key.Key_2, CTRL)
    assert answered.bench.chat.send("More?")
    answered.inspector.memory.matrix.setFocus()
    press(answered, Qt.Key.Key_Escape)
    assert answered.inspector.isVisible()
    engine = answered.bench.engine
    assert isinstance(engine, ScriptedEngine)
    assert type(engine.last).__name__ == "Cancel"


@pytest.mark.styled
def test_the_chat_keeps_its_width_and_nothing_is_cut(answered: MainWindow) -> None:
    """At widths on both sides of each at which the arrangement changes."""
    answered.talk.composer.field.set_text("A draft of some words")
    for inside in (False, True):
        for width in (1024, 1439, 1440, 2560):
            answered.resize(width, 800)
            if inside:
                answered.panes.show_tab("memory")
            come_to_rest(answered, answered.bench)
            assert answered.talk.width() >= LEAST_TALK, width
            assert answered.chats.isVisible() == (not inside or width >= 1440), width
            assert answered.inspector.isVisible() == inside, width
            assert [*faults(answered), *overlapping(answered)] == [], width
            settings = answered.talk.composer.settings_button
            wanted = settings.fontMetrics().horizontalAdvance(settings.text())
            assert wanted <= settings.width(), f"{settings.text()} is cut"


def test_a_choice_between_list_and_icons_stays(answered: MainWindow, qtbot: QtBot) -> None:
    press(answered, Qt.Key.Key_B, CTRL)
    assert not answered.chats.isVisible()
    press(answered, Qt.Key.Key_B, CTRL)
    assert answered.chats.isVisible(), "also beside the inspector, where it would be icons"
    answered.resize(1600, 1000)
    answered.resize(1280, 800)
    qtbot.waitUntil(lambda: answered.width() == 1280)
    assert answered.chats.isVisible()
    press(answered, Qt.Key.Key_2, CTRL)
    come_to_rest(answered)
    assert answered.chats.isVisible()
    assert answered.talk.width() >= LEAST_TALK
    assert list(overlapping(answered)) == []
    answered.resize(1600, 1000)
    press(answered, Qt.Key.Key_B, CTRL)
    assert not answered.chats.isVisible()
    assert answered.rail.isVisible()
