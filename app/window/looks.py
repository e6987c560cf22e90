"""The theme follows the preferences."""

from PySide6.QtCore import QObject

from app.state.preferences import PreferencesState
from app.theme.theme import Theme

LEAST_SCALE, MOST_SCALE = 0.75, 2.0


class Looks(QObject):
    """Puts the preferred colours, size of text and height of rows on the program."""

    def __init__(self, preferences: PreferencesState, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._preferences, self._theme = preferences, theme
        self.changed = theme.changed
        preferences.changed.connect(self._preference_changed)
        self._apply()

    def scale(self, factor: float) -> None:
        """Make all text larger or smaller; 0 is back to normal."""
        scale = self._preferences.value.font_scale * factor if factor else 1.0
        scale = round(min(max(scale, LEAST_SCALE), MOST_SCALE), 2)
        self._preferences.update(font_scale=scale)

    def _preference_changed(self, field: str) -> None:
        if field in ("theme", "font_scale", "density"):
            self._apply()

    def _apply(self) -> None:
        value = self._preferences.value
        self._theme.choose(value.theme, value.font_scale, value.density == "compact")
