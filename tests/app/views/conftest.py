"""Views before a scripted engine."""

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
    window,
)

__all__ = [
    "ask",
    "bench",
    "engine",
    "one_theme",
    "plain",
    "quiet",
    "small_heap",
    "talk",
    "theme",
    "window",
]
