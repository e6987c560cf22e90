"""Tool tips, letter by letter: what a file, a model or a person says is never markup."""

import textwrap
from functools import lru_cache

from PySide6.QtCore import QPoint
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QToolTip, QWidget

WIDTH = 100  # characters of a line
MOST = 3000  # characters in all
_NOTHING = "\u200b"  # takes no room


def plain_tip(text: str) -> str:
    """The text for a tip, also for ToolTipRole: shortened, in lines, and not taken for HTML.

    Qt takes for HTML what has a tag or an entity in its first line; neither survives something
    invisible within.
    """
    if not text:
        return ""
    return _wrapped(text if len(text) <= MOST else f"{text[:MOST]}…")


@lru_cache(maxsize=512)  # each window has hundreds, nearly all the same in each
def _wrapped(shown: str) -> str:
    lines = (part for line in shown.splitlines() for part in textwrap.wrap(line, WIDTH) or [""])
    return "\n".join(lines).replace("<", f"<{_NOTHING}").replace("&", f"&{_NOTHING}")


def set_tip(shown: QWidget | QAction, text: str) -> None:
    """Set the tooltip of a widget or of a menu's row as plain text."""
    shown.setToolTip(plain_tip(text))


def show_tip(place: QPoint, text: str, widget: QWidget) -> None:
    """Show a tip at a place of the screen now; none where there is no text."""
    QToolTip.showText(place, plain_tip(text), widget)


def hide_tip() -> None:
    QToolTip.hideText()
