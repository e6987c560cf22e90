"""The window before a scripted engine."""

from tests.app.helpers.gui import (
    ask,
    bench,
    engine,
    one_theme,
    plain,
    quiet,
    small_heap,
    talk,
    theme,
)
from tests.app.helpers.gui import window as window
from tests.app.window.selecting import client

__all__ = [
    "ask",
    "bench",
    "client",
    "engine",
    "one_theme",
    "plain",
    "quiet",
    "small_heap",
    "talk",
    "theme",
]
