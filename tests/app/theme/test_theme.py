"""Themes on a real application: colours, icons, letters."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QStackedWidget, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

import app
from app import turn
from app.theme import fonts
from app.theme.devices import device_look
from app.theme.icons import icon, pixmap
from app.theme.theme import Theme, tokens, undressed
from app.theme.tokens import THEMES
from app.widgets.basics import Button, IconButton, label, set_tone

MOST_SHARED = 0.75  # of the ink of two icons that mean two things
ICONS = sorted(path.name.removesuffix(".svg") for path in (files("resources") / "icons").iterdir())


@pytest.fixture
def theme(qapp: QApplication) -> Iterator[Theme]:
    made = Theme(qapp)
    yield made
    made.choose("light")
    made.deleteLater()


@pytest.mark.parametrize("name", sorted(THEMES))
def test_a_theme_is_what_the_application_has(theme: Theme, qapp: QApplication, name: str) -> None:
    theme.choose(name)
    assert tokens() is THEMES[name]
    window = qapp.palette().color(QPalette.ColorRole.Window)
    assert window == QColor(THEMES[name].canvas)
    assert THEMES[name].divider in qapp.styleSheet()
    assert "$" not in qapp.styleSheet()


def test_what_is_built_undressed_is_dressed_at_the_end(theme: Theme, qapp: QApplication) -> None:
    """Also where building it fails."""
    theme.choose("dark")
    sheet = qapp.styleSheet()

    def build() -> None:
        with undressed():
            assert not qapp.styleSheet()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert qapp.styleSheet() == sheet


@pytest.fixture
def pages(theme: Theme, qtbot: QtBot) -> QStackedWidget:
    """A shown window with ten pages, one of which is in sight."""
    theme.choose("light")
    made = QStackedWidget()
    qtbot.addWidget(made)
    for n in range(10):
        page = QWidget()
        column = QVBoxLayout(page)
        parts = (label("small", "quiet", "small"), label("warns", "warn"), Button("Go", int))
        for part in (*parts, IconButton("copy", "Copy"), QLineEdit(f"{n}")):
            column.addWidget(part)
        made.addWidget(page)
    made.show()
    qtbot.waitExposed(made)
    for n in range(10):  # each has been seen
        made.setCurrentIndex(n)
        QApplication.processEvents()
    return made


def looks(pages: QStackedWidget) -> list[tuple[object, ...]]:
    """How each widget looks, in sight or not."""
    return [
        (
            type(widget).__name__,
            widget.font().pixelSize(),
            widget.sizeHint().toTuple(),
            widget.palette().color(QPalette.ColorRole.WindowText).name(),
        )
        for widget in [pages, *pages.findChildren(QWidget)]
    ]


def test_building_undressed_leaves_what_exists_as_it_is(
    theme: Theme, pages: QStackedWidget, qtbot: QtBot
) -> None:
    """Also when it takes another tone or theme afterwards: Qt remembers what the sheet changed."""
    before = looks(pages)
    words = [w for w in pages.findChildren(QLabel) if w.text() == "warns"]
    with undressed():
        late = label("late", "warn", "small")
        qtbot.addWidget(late)
    late.show()
    assert late.palette().windowText().color() == QColor(tokens().warn)
    assert looks(pages) == before
    for page in range(10):
        pages.setCurrentIndex(page)
    QApplication.processEvents()
    assert looks(pages) == before
    set_tone(words[0], "")
    assert words[0].palette().windowText().color() == QColor(tokens().text)
    set_tone(words[0], "warn")
    theme.choose("dark", 1.3)
    dark = looks(pages)
    theme.choose("light")
    assert looks(pages) == before
    theme.choose("dark", 1.3)
    assert looks(pages) == dark


def test_larger_text_in_slices_looks_as_at_once(theme: Theme, pages: QStackedWidget) -> None:
    before = looks(pages)
    theme.choose("light", 1.5)
    assert looks(pages) == before
    while fonts.px(100) == 100:
        theme.go_on()
    theme.choose("light", 2.0)  # a key comes before the widgets are dressed
    theme.finish()
    sliced = looks(pages)
    assert sliced != before
    theme.choose("dark", 2.0)  # other colours come at once
    assert looks(pages) != sliced
    theme.choose("light", 2.0)
    assert looks(pages) == sliced
    theme.choose("light", 1.0)
    theme.finish()
    for page in (0, 9):  # out of sight and in sight
        words = pages.widget(page).findChildren(QLabel)[1]
        set_tone(words, "")
        assert words.palette().color(QPalette.ColorRole.WindowText) == QColor(tokens().text)
    theme.choose("light", 0.75)
    theme.choose("dark", 1.0)  # before the text has its size
    theme.choose("light", 1.0)
    for page in (0, 9):
        set_tone(pages.widget(page).findChildren(QLabel)[1], "warn")
    assert looks(pages) == before


def test_larger_text_takes_many_short_turns(
    theme: Theme, pages: QStackedWidget, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Widgets out of sight are dressed one after the other, and nothing is painted half-dressed."""
    monkeypatch.setattr(turn, "BUDGET", 0.0)
    monkeypatch.setattr(turn, "_ends", None)  # this turn has begun with the old one
    turns: list[int] = []

    class Watched(QWidget):
        def changeEvent(self, event: QEvent) -> None:  # noqa: N802
            if event.type() == QEvent.Type.StyleChange:
                turns[-1] += 1

    for _ in range(20):
        Watched(pages.widget(0)).ensurePolished()
    seen = Watched(pages.widget(9))
    seen.show()
    turns.append(0)
    theme.choose("light", 1.5)
    step = theme.go_on
    before, painted = qapp.styleSheet(), []
    while qapp.styleSheet() in (before, "") or not pages.updatesEnabled():
        turns.append(0)
        step()
        painted.append(pages.updatesEnabled() and qapp.styleSheet() != before)
    assert not any(painted[:-1])
    assert seen.font().pixelSize() == fonts.body().pixelSize()
    assert sum(turns[:-1]) <= 2
    assert turns[-1] <= 1  # it may begin with those out of sight
    while sum(turns) < 20:
        turns.append(0)
        step()
        assert turns[-1] <= 1
    theme.finish()
    assert sum(turns) >= 20


def test_larger_text_makes_larger_rows(theme: Theme, qapp: QApplication) -> None:
    theme.choose("light")
    before = qapp.font().pixelSize(), fonts.row()
    theme.choose("light", 1.5)
    assert qapp.font().pixelSize() == round(before[0] * 1.5)
    assert fonts.row() == round(before[1] * 1.5)
    theme.choose("light", 1.0, compact=True)
    assert fonts.row() < before[1]


@pytest.mark.parametrize("name", ICONS)
def test_icons_are_drawn_in_the_colour_asked_for(qapp: QApplication, name: str) -> None:
    image = pixmap(name, "#FF0000", 24, 1).toImage()
    inked = [
        image.pixelColor(x, y)
        for x in range(24)
        for y in range(24)
        if image.pixelColor(x, y).alpha() > 128
    ]
    assert inked
    assert {colour.name() for colour in inked if colour.alpha() == 255} <= {"#ff0000"}
    assert not icon(name).isNull()


def test_every_icon_that_is_named_is_there() -> None:
    named = set()
    for path in Path(app.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        named |= set(re.findall(r"IconButton\(\s*\"([\w-]+)\"", text))
        named |= set(re.findall(r"picture=\"([\w-]+)\"", text))
    assert named
    assert named <= set(ICONS)


def test_devices_differ_by_colour_letter_and_hatch() -> None:
    looks = [device_look(name) for name in ("a:0", "b:0", "c:0", "d:0", "host")]
    assert len({look.colour for look in looks}) == 5
    assert len({look.letter for look in looks}) == 5
    assert len({look.hatch for look in looks}) == 5
    assert device_look("a:0") == looks[0]


def test_no_device_has_the_hosts_letter() -> None:
    devices = [device_look(f"many:{i}").letter for i in range(26)]
    assert device_look("host").letter not in devices
    assert len(set(devices)) == 25


def test_preferences_and_sampling_have_two_icons(qapp: QApplication) -> None:
    def ink(name: str) -> set[tuple[int, int]]:
        image = pixmap(name, "#000000", 24, 1).toImage()
        places = [(x, y) for x in range(24) for y in range(24)]
        return {place for place in places if image.pixelColor(*place).alpha() > 64}

    one, other = ink("settings"), ink("sliders")
    assert len(one & other) < MOST_SHARED * min(len(one), len(other))


def test_an_icon_is_made_once_for_each_theme(theme: Theme) -> None:
    theme.choose("light")
    first = icon("copy").cacheKey()
    assert icon("copy").cacheKey() == first
    theme.choose("dark")
    assert icon("copy").cacheKey() != first
    theme.choose("light")
    assert icon("copy").cacheKey() == first


def test_a_widget_deep_in_others_hears_of_a_new_theme_as_often_as_one_on_top(
    theme: Theme, qapp: QApplication
) -> None:
    class Widget(QWidget):
        heard = 0

        def changeEvent(self, event: QEvent) -> None:  # noqa: N802
            self.heard += event.type() == QEvent.Type.StyleChange

    theme.choose("light")
    top = within = Widget()
    for _ in range(12):
        within = Widget(parent=within)
    top.show()
    top.heard = within.heard = 0
    theme.choose("dark")
    assert 0 < within.heard <= 2
    assert within.heard == top.heard
    top.deleteLater()
