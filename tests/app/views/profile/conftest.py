"""The window before a scripted engine."""

from tests.app.helpers.gui import one_theme, plain, quiet, small_heap, theme
from tests.app.helpers.gui import window as window
from tests.app.window.selecting import client

__all__ = ["client", "one_theme", "plain", "quiet", "small_heap", "theme"]
