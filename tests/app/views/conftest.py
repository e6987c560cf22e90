"""Views before a scripted engine."""

from tests.app.gui import ask, bench, engine, one_theme, quiet, small_heap, talk, theme, window

__all__ = ["ask", "bench", "engine", "one_theme", "quiet", "small_heap", "talk", "theme", "window"]
