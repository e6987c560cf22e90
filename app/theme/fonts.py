"""The system's interface font in our sizes, and a monospaced one for names, types and code."""

from functools import cache

from PySide6.QtCore import QSize
from PySide6.QtGui import QFont, QFontDatabase, QFontMetricsF

from app.theme.tokens import BODY_PX, CHAT_COLUMN, CHAT_PX, ROW, ROW_COMPACT, SMALL_PX, TITLE_PX

_SAMPLE = "the quick brown fox jumps over the lazy dog and runs away again"
_scale, _compact = 1.0, False


def set_scale(scale: float, compact: bool = False) -> None:
    """Make every font larger or smaller, and rows lower; those made before stay as they are."""
    global _scale, _compact
    _scale, _compact = min(max(scale, 0.75), 2.0), compact
    _system.cache_clear()
    _sized.cache_clear()


def px(length: float) -> int:
    """A length that grows with the text, such as the height of a row."""
    return round(length * _scale)


def square(side: float) -> QSize:
    """A picture's size, which grows with the text."""
    return QSize(px(side), px(side))


def row() -> int:
    """The height of a row in lists and tables."""
    return px(ROW_COMPACT if _compact else ROW)


def body() -> QFont:
    return _interface(BODY_PX)


def small() -> QFont:
    return _interface(SMALL_PX)


def chat() -> QFont:
    return _interface(CHAT_PX)


def chat_width() -> int:
    """Pixels of CHAT_COLUMN characters of English."""
    return _chat_width(_scale)


@cache
def _chat_width(scale: float) -> int:
    metrics = QFontMetricsF(chat())
    return round(metrics.horizontalAdvance(_SAMPLE) / len(_SAMPLE) * CHAT_COLUMN)


def title() -> QFont:
    font = _interface(TITLE_PX)
    font.setWeight(QFont.Weight.DemiBold)
    return font


def strong() -> QFont:
    font = _interface(BODY_PX)
    font.setWeight(QFont.Weight.DemiBold)
    return font


def mono(size: int = SMALL_PX) -> QFont:
    font = QFont(_system(QFontDatabase.SystemFont.FixedFont))
    font.setPixelSize(px(size))
    return font


def _interface(size: int) -> QFont:
    return QFont(_sized(px(size)))  # the caller may change it


@cache
def _sized(pixels: int) -> QFont:
    font = QFont(_system(QFontDatabase.SystemFont.GeneralFont))
    font.setPixelSize(pixels)
    font.setFeature(QFont.Tag("tnum"), 1)  # digits of one width, so that columns line up
    return font


@cache
def _system(kind: QFontDatabase.SystemFont) -> QFont:
    """The system's font. Qt looks it up anew each time, and painting needs it at each word."""
    return QFontDatabase.systemFont(kind)
