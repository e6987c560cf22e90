"""Panes side by side, folded, one at a time; the log's drawer; views in windows of their own."""

import logging
from datetime import datetime

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.state.log import LogLine
from app.state.problem import Problem
from app.theme.theme import Theme, tokens
from app.theme.tokens import LEAST_INSIDE, LEAST_TALK
from app.widgets.basics import Button
from app.widgets.focus import has_focus
from app.window.desk import caption
from app.window.main_window import MainWindow
from app.window.panes.view_window import ViewWindow
from tests.app.helpers.painted import faults, overlapping
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
ALT = Qt.KeyboardModifier.AltModifier


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = CTRL) -> None:
    QTest.keyClick(window.windowHandle(), key, modifiers)
    QApplication.processEvents()


def share(window: MainWindow) -> float:
    talk, inspector = window.panes.body.sizes()
    return talk / (talk + inspector)


def test_one_key_goes_through_three_arrangements(window: MainWindow) -> None:
    come_to_rest(window)
    assert window.talk.width() == pytest.approx(LEAST_TALK, abs=2), "42 % would be less"
    press(window, Qt.Key.Key_J)
    assert window.talk.width() == pytest.approx(LEAST_TALK, abs=2), "so would 25 %"
    assert window.rail.isVisible(), "the inspector has the room of the list"
    assert not window.chats.isVisible()
    press(window, Qt.Key.Key_J)
    assert not window.inspector.isVisible()
    assert window.chats.isVisible()
    press(window, Qt.Key.Key_J)
    assert window.talk.width() == pytest.approx(LEAST_TALK, abs=2)
    window.panes.body.setSizes([900, 700])
    window.panes.body.splitterMoved.emit(900, 1)
    for _ in range(3):
        press(window, Qt.Key.Key_J)
    assert share(window) == pytest.approx(9 / 16, abs=0.02), "each is remembered"


def test_at_1100_px_chats_are_icons(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1100, 700)
    qtbot.waitUntil(lambda: window.rail.isVisible())
    assert not window.chats.isVisible()
    assert window.talk.width() >= LEAST_TALK
    assert window.inspector.width() >= LEAST_INSIDE
    press(window, Qt.Key.Key_B)
    assert window.chats.isVisible()
    assert not window.rail.isVisible()
    press(window, Qt.Key.Key_B)
    assert window.rail.isVisible()
    press(window, Qt.Key.Key_K)
    assert window.chats.isVisible()
    assert has_focus(window.chats)
    window.resize(1600, 1000)
    qtbot.waitUntil(lambda: window.chats.isVisible() and not window.rail.isVisible())
    press(window, Qt.Key.Key_B)
    assert not window.chats.isVisible()
    assert window.rail.isVisible()


@pytest.mark.parametrize("scale", [0.75, 1.0, 2.0])
def test_one_pane_at_a_time_at_640(window: MainWindow, qtbot: QtBot, scale: float) -> None:
    window.bench.preferences.update(font_scale=scale)
    window.resize(640, 700)
    window.panes.show_tab("talk")
    qtbot.waitUntil(lambda: not window.inspector.isVisible())
    assert window.talk.isVisible()
    press(window, Qt.Key.Key_J)
    assert window.inspector.isVisible()
    assert not window.talk.isVisible()
    press(window, Qt.Key.Key_J)
    assert window.talk.isVisible()


@pytest.mark.parametrize(
    "widths", [(640, 901, 2560), pytest.param((899, 1100, 1600), marks=pytest.mark.full)], ids=str
)
@pytest.mark.styled
def test_no_room_is_used_twice_at_any_width(
    window: MainWindow, client: ScriptedEngine, widths: tuple[int, ...]
) -> None:
    for width in widths:
        for _ in range(3):
            window.resize(width, 700)
            come_to_rest(window)
            assert [*faults(window), *overlapping(window)] == [], width
            press(window, Qt.Key.Key_J)


# The log's drawer


def told(window: MainWindow, level: int, text: str, details: str = "") -> None:
    window.bench.log.take([LogLine(1.0, level, "engine", text, details)])


def test_the_drawer_is_one_line_that_counts_errors(window: MainWindow) -> None:
    drawer = window.drawer
    assert not drawer.is_open
    assert drawer.errors.text() == "Log: 0 errors"
    told(window, logging.ERROR, "no room")
    told(window, logging.INFO, "opening another")
    assert drawer.errors.text() == "Log: 1 error"
    assert drawer.latest.text() == "·  opening another"
    before = QApplication.focusWidget()
    press(window, Qt.Key.Key_J, CTRL | SHIFT)
    assert drawer.log.isVisible()
    assert has_focus(drawer.log)
    press(window, Qt.Key.Key_J, CTRL | SHIFT)
    assert not drawer.log.isVisible()
    assert QApplication.focusWidget() is drawer.handle
    QTest.mouseClick(drawer.handle, Qt.MouseButton.LeftButton)
    assert drawer.is_open
    assert before is not None


def test_details_open_the_log_at_that_line(window: MainWindow) -> None:
    told(window, logging.ERROR, "intel:0: no room for cache", "Traceback of the cache")
    told(window, logging.ERROR, "another error", "Traceback of another")
    told(window, logging.INFO, "and goes on")
    window.drawer.log.level.setCurrentText("Info and up")
    window.drawer.log.table.query.setText("goes on")
    problem = Problem("NoMem", "intel:0: no room for cache", "restart_less")
    window.talk.notices.problem("session", problem)
    (details,) = (b for b in window.findChildren(Button) if b.text() == "Details")
    details.click()
    assert window.drawer.log.isVisible()
    assert "of the cache" in window.drawer.log.details.toPlainText()
    window.drawer.show_line("nothing in the log says this")
    assert "of another" in window.drawer.log.details.toPlainText(), "else the newest error"


# Windows of their own


def own(window: MainWindow, page: str = "memory") -> ViewWindow:
    window.panes.show_tab(page)
    press(window, Qt.Key.Key_N, CTRL | SHIFT)
    QTest.qWait(20)
    return window.inspector.windows[page]


def test_a_window_opens_where_it_was_closed(window: MainWindow, client: ScriptedEngine) -> None:
    apart = own(window)
    apart.setGeometry(120, 90, 640, 520)
    QApplication.processEvents()
    apart.close()
    apart = own(window)
    assert (apart.width(), apart.height()) == (640, 520)
    apart.close()
    assert own(window, "graph").width() == 900, "each has its own"


@pytest.mark.styled
def test_a_view_has_a_window_of_its_own_and_comes_back(
    window: MainWindow, client: ScriptedEngine, theme: Theme
) -> None:
    memory = window.inspector.memory
    apart = own(window)
    assert memory.window() is apart
    assert memory.isVisible()
    assert apart.windowTitle().startswith("Memory – ")
    window.bench.selection.select_layer(5)
    assert apart.strip.caption.text().endswith(" › layer 5"), "the selection follows"
    QTest.keyClick(apart.windowHandle(), Qt.Key.Key_Left, ALT)
    assert window.bench.selection.now.layer is None, "commands work here too"
    window.bench.preferences.update(theme="dark", font_scale=1.5)
    come_to_rest(window, apart)
    assert apart.grab().toImage().pixelColor(3, apart.height() - 3) == QColor(tokens().panel)
    assert [*faults(apart), *overlapping(apart)] == []
    (back,) = (b for b in window.inspector.findChildren(Button) if b.text() == "Move back here")
    assert back.isVisible()
    back.click()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    assert window.inspector.windows == {}
    assert memory.window() is window
    assert memory.isVisible()


def test_closing_the_window_brings_the_view_back(window: MainWindow) -> None:
    apart = own(window)
    apart.close()
    assert window.inspector.memory.window() is window
    apart = own(window)
    window.bench.selection.show_in("memory")
    assert window.inspector.windows["memory"] is apart, "it is not opened twice"
    apart.activateWindow()
    QTest.qWait(10)
    QTest.keyClick(apart.windowHandle(), Qt.Key.Key_N, CTRL | SHIFT)
    assert window.inspector.windows == {}


def test_it_closes_with_the_main_window(window: MainWindow) -> None:
    apart = own(window)
    window.close()
    assert not apart.isVisible()
    assert [w for w in QApplication.topLevelWidgets() if w.isVisible()] == []


# Pictures


def test_a_view_is_copied_as_a_picture_with_its_caption(
    window: MainWindow, client: ScriptedEngine
) -> None:
    window.bench.selection.select_layer(5)
    view = window.inspector.memory
    press(window, Qt.Key.Key_C, CTRL | ALT)
    picture = QGuiApplication.clipboard().image()
    assert picture.width() == view.width()
    assert picture.height() > view.height()
    below = picture.copy(0, view.height() + 1, picture.width(), picture.height())
    colours = {below.pixelColor(x, y).name() for x in range(300) for y in range(below.height() - 1)}
    assert len(colours) > 2, "words stand there"
    (said,) = window.talk.notices.texts
    assert said == f"Copied a picture of Memory, {picture.width()} × {picture.height()} pixels."
    words = caption(window.bench, "Memory", "layer 5", datetime(2026, 11, 22, 8, 30))
    assert words == "Memory · tiny · Intel CPU · layer 5 · 2026-11-22 08:30"


# The model's file


def test_the_models_file_lies_behind_its_name(window: MainWindow, client: ScriptedEngine) -> None:
    assert window.top.about.isVisible()
    QTest.mouseClick(window.top.about, Qt.MouseButton.LeftButton)
    assert window.sheets.file.isVisible()
    assert window.sheets.file.metadata.table.rows.shown
    press(window, Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier)
    assert not window.sheets.file.isVisible()
    press(window, Qt.Key.Key_I)
    assert window.sheets.file.isVisible()
