"""Themes on a real application: colours, icons, letters."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QWidget

import app
from app.theme import fonts
from app.theme.devices import device_look
from app.theme.icons import icon, pixmap
from app.theme.theme import Theme, tokens
from app.theme.tokens import THEMES

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
        with theme.undressed():
            assert not qapp.styleSheet()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert qapp.styleSheet() == sheet


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
