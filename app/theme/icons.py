"""Our own icons: SVG files of strokes, drawn in the requested colour."""

from functools import cache
from importlib.resources import files

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.theme.tokens import mix

SIZES = (16, 20, 24)


def icon(name: str, tone: str = "text") -> QIcon:
    """`resources/icons/<name>.svg` in a colour of the theme; to be made anew when that changes."""
    from app.theme.theme import tokens

    now = tokens()
    return _icon(name, getattr(now, tone), now.canvas)


def pixmap(name: str, colour: str, size: int, ratio: float) -> QPixmap:
    """One drawing, for a label of `size` pixels on a screen of that pixel ratio."""
    return _pixmap(name, colour, size, ratio)


@cache  # a button calls it a dozen times for each change of the theme
def _icon(name: str, colour: str, canvas: str) -> QIcon:
    made, faded = QIcon(), mix(colour, canvas, 0.4)
    for size in SIZES:
        for ratio in (1, 2):
            made.addPixmap(_pixmap(name, colour, size, ratio))
            made.addPixmap(_pixmap(name, faded, size, ratio), QIcon.Mode.Disabled)
    return made


@cache
def _source(name: str) -> str:
    return (files("resources") / "icons" / f"{name}.svg").read_text("utf-8")


@cache
def _pixmap(name: str, colour: str, size: int, ratio: float) -> QPixmap:
    drawn = QPixmap(round(size * ratio), round(size * ratio))
    drawn.fill(Qt.GlobalColor.transparent)
    renderer = QSvgRenderer(QByteArray(_source(name).replace("currentColor", colour).encode()))
    painter = QPainter(drawn)
    renderer.render(painter, QRectF(drawn.rect()))
    painter.end()
    drawn.setDevicePixelRatio(ratio)
    return drawn
