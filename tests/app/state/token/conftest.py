"""State before a scripted engine."""

from tests.app.helpers.gui import bench, engine, one_theme, quiet, theme

__all__ = ["bench", "engine", "one_theme", "quiet", "theme"]
