"""Tabs that shorten their words: the longest first, whole again where there is room."""

from pytestqt.qtbot import QtBot

from app.widgets.controls.fitted_tabs import FittedTabs

WORDS = ("Talk", "Token", "Memory", "Layers", "Graph", "Tensors", "Profile")


def test_words_are_shortened_as_far_as_needed(qtbot: QtBot) -> None:
    tabs = FittedTabs("Pages")
    qtbot.addWidget(tabs)
    for at, word in enumerate(WORDS):
        tabs.put(word, at)
    tabs.resize(1000, 40)
    tabs.show()
    assert [tabs.tabText(at) for at in range(7)] == list(WORDS)
    tabs.resize(420, 40)
    shown = [tabs.tabText(at) for at in range(7)]
    assert shown[0] == "Talk", "the short ones stay whole"
    assert shown[5].endswith("…")
    assert tabs.tabToolTip(5) == "Tensors"
    assert tabs.accessibleTabName(5) == "Tensors"
    assert tabs.tabData(5) == 5
    assert tabs.tabToolTip(0) == ""
    tabs.setCurrentIndex(5)
    assert tabs.tabText(5) == "Tensors", "the current one is whole"
    tabs.resize(1000, 40)
    assert [tabs.tabText(at) for at in range(7)] == list(WORDS)
    assert tabs.tabToolTip(5) == ""
    tabs.removeTab(0)
    tabs.put("Talk", "talk", 0)
    assert tabs.tabText(0) == "Talk"
