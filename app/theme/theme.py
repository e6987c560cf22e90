"""The theme in use: chosen by the person, or the system's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from app import turn
from app.theme import fonts
from app.theme.style import style_sheet
from app.theme.tokens import DARK, LIGHT, THEMES, ThemeTokens, mix

_Role = QPalette.ColorRole
_POLISHED, _HAS_STYLE = Qt.WidgetAttribute.WA_WState_Polished, Qt.WidgetAttribute.WA_SetStyle
TURN_MS = 1  # between slices of work; 0 would leave no time for other timers


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
    """The colours now; widgets that paint read them at each paint, others on `changeEvent`'s
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
        # Taken before our own palette hides it; where the platform does not report its scheme
        # (offscreen, plain X11) the lightness of its window colour is all there is.
        self._system_is_dark = app.palette().color(QPalette.ColorRole.Window).lightness() < 128
        self._steps: Iterator[None] = iter(())  # what is left of a change of the text's size
        self._out_of_sight: list[QWidget] = []  # widgets that the sheet does not dress now
        self._turn = QTimer(self, singleShot=True, interval=TURN_MS)
        self._turn.timeout.connect(self.go_on)
        app.setStyle("Fusion")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_changed)
        self._apply()

    def choose(self, choice: str, scale: float = 1.0, compact: bool = False) -> None:
        """`choice` is system, light, dark or contrast; `scale` makes all text larger. Where windows
        are shown and the colours stay, this takes several turns of the event loop.
        """
        before = self._choice, self._scale, self._compact
        if (choice, scale, compact) == before:
            return
        resizes = choice == before[0] and any(w.isVisible() for w in self._app.topLevelWidgets())
        if not resizes:
            self.finish()
        self._choice, self._scale, self._compact = choice, scale, compact
        if not resizes:
            self._apply()
        elif not self._turn.isActive():  # else the change under way takes it, or goes on with it
            self._steps = self._resize()
            self._turn.start()

    def finish(self) -> None:
        """Do now what is left of a change."""
        while self._turn.isActive():
            self.go_on()

    def go_on(self) -> None:
        """Do a part of what is left of a change."""
        waited = not turn.left()
        self._turn.start()
        if next(self._steps, self) is self:
            self._turn.stop()
        else:
            self._turn.start(0 if waited else TURN_MS)  # first in the next turn after a short one

    def _resize(self) -> Iterator[None]:
        """Change the size of text. Qt dresses all widgets anew at once, most of which are out of
        sight: these are undressed before, and dressed afterwards.
        """
        yield from _in_slices(self._app.allWidgets(), self._undress)
        with _frozen([w for w in self._app.topLevelWidgets() if w.isVisible()]):
            taken = self._scale, self._compact
            fonts.set_scale(*taken)
            self._app.setStyleSheet("")
            yield
            self._app.setFont(fonts.body())
            yield
            yield  # a turn of its own for what the font changes
            self._app.setStyleSheet(style_sheet(_now))
            yield
            self.changed.emit()
        hidden, self._out_of_sight = self._out_of_sight, []
        yield from _in_slices(hidden, _dress)
        if taken != (self._scale, self._compact):
            yield from self._resize()

    def _undress(self, widget: QWidget) -> None:
        if not widget.isVisible() and widget.testAttribute(_POLISHED):
            widget.style().unpolish(widget)
            widget.setAttribute(_POLISHED, False)  # Qt passes it over,
            widget.setAttribute(_HAS_STYLE)  # and does not notify it of a new style
            self._out_of_sight.append(widget)

    def _system_changed(self) -> None:
        if self._choice == "system":
            self.finish()
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


@contextmanager
def undressed() -> Iterator[None]:
    """Widgets built within get the style sheet at its end, all at once; those that exist keep it.

    Under a sheet, Qt notifies every widget of a tree each time that the tree is put into another:
    two thirds of the time that building a view would take.
    """
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    sheet = app.styleSheet()
    if not sheet:
        yield
        return
    keeper = QWidget()  # without any sheet Qt forgets what a sheet has changed in other widgets
    keeper.setStyleSheet(";")
    widgets = app.allWidgets()
    followed = [widget for widget in widgets if not widget.testAttribute(_HAS_STYLE)]
    polished = [widget for widget in widgets if widget.testAttribute(_POLISHED)]
    for widget in polished:  # Qt passes these over,
        widget.setAttribute(_POLISHED, False)
    for widget in followed:  # and does not notify these of a new style
        widget.setAttribute(_HAS_STYLE)
    app.setStyleSheet("")
    try:
        yield
    finally:
        app.setStyleSheet(sheet)
        for widget in filter(isValid, polished):
            widget.setAttribute(_POLISHED)
        for widget in filter(isValid, followed):
            widget.setAttribute(_HAS_STYLE, False)
        keeper.deleteLater()


def _in_slices(widgets: Sequence[QWidget], do: Callable[[QWidget], None]) -> Iterator[None]:
    """Do something with each of these that still exists, while the turn has time left."""
    for widget in widgets:
        if isValid(widget):
            do(widget)
        if not turn.left():
            yield


def _dress(widget: QWidget) -> None:
    widget.setAttribute(_HAS_STYLE, False)
    widget.setAttribute(_POLISHED)
    widget.style().polish(widget)
    QApplication.sendEvent(widget, QEvent(QEvent.Type.StyleChange))


@contextmanager
def _frozen(windows: Sequence[QWidget]) -> Iterator[None]:
    """Windows are not painted within."""
    for window in windows:
        window.setUpdatesEnabled(False)
    try:
        yield
    finally:
        for window in filter(isValid, windows):
            window.setUpdatesEnabled(True)
