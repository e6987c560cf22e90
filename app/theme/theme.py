"""The theme in use: chosen by the person, or the system's."""

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.theme import fonts
from app.theme.style import style_sheet
from app.theme.tokens import DARK, LIGHT, THEMES, ThemeTokens, mix

_Role = QPalette.ColorRole


def palette(tokens: ThemeTokens) -> QPalette:
    made = QPalette()
    for role, colour in {
        _Role.Window: tokens.canvas,
        _Role.WindowText: tokens.text,
        _Role.Base: tokens.panel,
        _Role.AlternateBase: tokens.canvas,
        _Role.Text: tokens.text,
        _Role.PlaceholderText: tokens.quiet,
        _Role.Button: tokens.raised,
        _Role.ButtonText: tokens.text,
        _Role.BrightText: tokens.bad,
        _Role.Highlight: tokens.accent,
        _Role.HighlightedText: tokens.accent_text,
        _Role.Accent: tokens.accent,
        _Role.Link: tokens.link,
        _Role.LinkVisited: tokens.link,
        _Role.ToolTipBase: tokens.raised,
        _Role.ToolTipText: tokens.text,
        _Role.Light: tokens.panel,
        _Role.Midlight: tokens.raised,
        _Role.Mid: tokens.divider,
        _Role.Dark: tokens.faint,
        _Role.Shadow: mix("#000000", tokens.canvas, 0.5),
    }.items():
        made.setColor(role, QColor(colour))
    disabled = QColor(mix(tokens.quiet, tokens.canvas, 0.6))
    for role in (_Role.WindowText, _Role.Text, _Role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, disabled)
    return made


_now = LIGHT


def tokens() -> ThemeTokens:
    """The colours now; widgets that paint ask at each paint, others on `changeEvent`'s
    PaletteChange.
    """
    return _now


class Theme(QObject):
    """Puts tokens on the application, and follows the system where the choice is "system"."""

    changed = Signal()

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self._choice, self._scale, self._compact = "system", 1.0, False
        # Taken before our own palette hides it; where the platform does not tell its scheme
        # (offscreen, plain X11) the lightness of its window colour is all there is.
        self._system_is_dark = app.palette().color(QPalette.ColorRole.Window).lightness() < 128
        app.setStyle("Fusion")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_changed)
        self._apply()

    def choose(self, choice: str, scale: float = 1.0, compact: bool = False) -> None:
        """`choice` is system, light, dark or contrast; `scale` makes all text larger."""
        if (choice, scale, compact) != (self._choice, self._scale, self._compact):
            self._choice, self._scale, self._compact = choice, scale, compact
            self._apply()

    @contextmanager
    def undressed(self) -> Iterator[None]:
        """Widgets built within get the style sheet at its end, all at once.

        Under a sheet, Qt tells every widget of a tree each time that the tree is put into another:
        two thirds of the time that the window's building would take.
        """
        self._app.setStyleSheet("")
        try:
            yield
        finally:
            self._app.setStyleSheet(style_sheet(_now))

    def _system_changed(self) -> None:
        if self._choice == "system":
            self._apply()

    def _apply(self) -> None:
        global _now
        _now = self._wanted()
        fonts.set_scale(self._scale, self._compact)
        # Replacing a sheet, Qt polishes each widget once for each one it lies in; setting it
        # where there is none, once.
        self._app.setStyleSheet("")
        self._app.setFont(fonts.body())
        self._app.setPalette(palette(_now))
        self._app.setStyleSheet(style_sheet(_now))
        self.changed.emit()

    def _wanted(self) -> ThemeTokens:
        if self._choice in THEMES:
            return THEMES[self._choice]
        scheme = QGuiApplication.styleHints().colorScheme()
        if scheme == Qt.ColorScheme.Unknown:
            return DARK if self._system_is_dark else LIGHT
        return DARK if scheme == Qt.ColorScheme.Dark else LIGHT
