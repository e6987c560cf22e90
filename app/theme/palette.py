"""Tokens as Qt's palette; what Fusion draws by itself follows from it."""

from PySide6.QtGui import QColor, QPalette

from app.theme.tokens import ThemeTokens, mix

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
