"""Tabs with whole words: those that have no room are in a menu, the current one is seen."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.widgets.controls.fitted_tabs import FittedTabs

WORDS = ("Talk", "Token", "Memory", "Layers", "Graph", "Tensors", "Profile")


def seen(tabs: FittedTabs) -> list[str]:
    return [tabs.tabText(at) for at in range(tabs.count()) if tabs.isTabVisible(at)]


def listed(tabs: FittedTabs) -> list[str]:
    """What the menu has when it opens."""
    tabs.more.menu().aboutToShow.emit()
    return [action.text() for action in tabs.more.menu().actions()]


def test_tabs_without_room_are_in_the_menu(qtbot: QtBot) -> None:
    tabs = FittedTabs("Pages")
    qtbot.addWidget(tabs)
    for at, word in enumerate(WORDS):
        tabs.put(word, at)
    tabs.resize(2000, 40)
    tabs.show()
    assert seen(tabs) == list(WORDS)
    assert not tabs.more.isVisible()
    widths = [tabs.tabRect(at).width() for at in range(7)]
    tabs.resize(sum(widths[:3]) + tabs.more.sizeHint().width(), 40)
    assert seen(tabs) == list(WORDS[:3]), "whole words, as many as fit"
    assert listed(tabs) == list(WORDS[3:])
    assert tabs.more.geometry().right() <= tabs.width()
    assert tabs.more.geometry().left() > tabs.tabRect(2).right()
    tabs.more.menu().actions()[2].trigger()
    assert tabs.tabData(tabs.currentIndex()) == 5
    assert "Tensors" in seen(tabs), "the current one is always seen"
    assert sorted(seen(tabs) + listed(tabs)) == sorted(WORDS)
    assert tabs.more.geometry().right() <= tabs.width()
    tabs.setFocus()
    tabs.setCurrentIndex(0)
    QTest.keyClick(tabs, Qt.Key.Key_Right)
    assert tabs.currentIndex() == 1
    tabs.resize(2000, 40)
    assert seen(tabs) == list(WORDS)
    assert not tabs.more.isVisible()
    tabs.removeTab(0)
    tabs.put("Talk", "talk", 0)
    assert tabs.tabText(0) == "Talk"


def test_the_menu_stands_behind_the_last_tab(qtbot: QtBot) -> None:
    tabs = FittedTabs("Pages")
    qtbot.addWidget(tabs)
    for at, word in enumerate(WORDS):
        tabs.put(word, at)
    tabs.resize(2000, 40)
    tabs.show()
    tabs.setCurrentIndex(6)
    widths = [tabs.tabSizeHint(at).width() for at in range(7)]
    tabs.resize(sum(widths) - 10, 40)
    shown = [at for at in range(7) if tabs.isTabVisible(at)]
    assert shown[-1] == 6
    assert [tabs.tabRect(at).width() for at in shown] == [widths[at] for at in shown]
    assert tabs.more.x() == tabs.tabRect(6).right() + 1
    assert tabs.more.geometry().right() <= tabs.width()
