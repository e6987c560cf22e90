"""Parts of a text that are lit, as by a marker: the colour says how strongly."""

from PySide6.QtGui import QColor, QTextCharFormat

from app.theme.theme import tokens
from app.theme.tokens import mix

Light = tuple[int, int, float]
"""The first character, the one behind the last, and how strongly it is lit, from 0 to 1."""

UNDERLINED = 0.5  # from this strength on it is also underlined, for those who see no colour
_FAINTEST, _BRIGHTEST = 0.10, 0.42  # of the tone over the ground


def light_colour(strength: float) -> str:
    """Return the background colour of a highlighted word."""
    share = _FAINTEST + (_BRIGHTEST - _FAINTEST) * min(max(strength, 0.0), 1.0)
    return mix(tokens().attention, tokens().canvas, share)


def light_format(strength: float) -> QTextCharFormat:
    """How a lit word looks in a document: the text keeps its full contrast."""
    look = QTextCharFormat()
    look.setBackground(QColor(light_colour(strength)))
    look.setForeground(QColor(tokens().text))
    if strength >= UNDERLINED:
        look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        look.setUnderlineColor(QColor(tokens().attention))
    return look
