"""The small part of the look that a palette cannot say."""

from importlib.resources import files
from string import Template

from app.theme import fonts
from app.theme.tokens import (
    RADIUS_CARD,
    RADIUS_CONTROL,
    ROW,
    SMALL_PX,
    TITLE_PX,
    ThemeTokens,
    mix,
    readable,
)

# Properties that widgets carry: kind (primary, flat, link), tone (quiet, bad, ...), surface.
_SHEET = Template("""
* { outline: none; }
QToolTip { background: $raised; color: $text; border: 1px solid $divider; padding: 4px 6px; }
QWidget[surface="panel"] { background: $panel; }
QWidget[surface="canvas"] { background: $canvas; }
QFrame[line="true"] { background: $divider; border: none; }
QFrame[surface="card"] { background: $panel; border: 1px solid $divider; border-radius: ${card}px; }
QLabel[tone="quiet"] { color: $quiet; }
QLabel[tone="good"] { color: $good; }
QLabel[tone="warn"] { color: $warn; }
QLabel[tone="bad"] { color: $bad; }
QLabel[tone="accent"] {
  color: $link; border: 1px solid $link; border-radius: ${control}px; padding: 0 5px;
}
QLabel[letters="small"] { font-size: ${small}px; }
QLabel[letters="strong"] { font-weight: 600; }
QLabel[letters="title"] { font-size: ${title}px; font-weight: 600; }

QPushButton, QToolButton, QComboBox {
  background: $raised; color: $text; border: 1px solid $divider; border-radius: ${control}px;
  padding: 0 12px; min-height: ${inner}px; max-height: ${inner}px;
}
QPushButton:hover, QToolButton:hover, QComboBox:hover { background: $hover; }
QPushButton:pressed, QToolButton:pressed { background: $press; }
QPushButton:disabled, QToolButton:disabled, QComboBox:disabled { color: $disabled; }
QPushButton:focus, QToolButton:focus, QComboBox:focus, QLineEdit:focus, QSpinBox:focus,
QDoubleSpinBox:focus { border: 1px solid $accent; }
QPushButton[kind="primary"] { background: $accent; color: $accent_text; border-color: $accent; }
QPushButton[kind="primary"]:hover { background: $accent_hover; border-color: $accent_hover; }
QPushButton[kind="primary"]:focus { border-color: $text; }
QPushButton[kind="primary"]:disabled {
  background: $raised; color: $disabled; border-color: $divider;
}
QPushButton[kind="link"] {
  background: transparent; border-color: transparent; color: $link; padding: 0 4px;
}
QPushButton[kind="link"]:hover { text-decoration: underline; }
QPushButton[kind="link"]:focus { border-color: $accent; }
QPushButton[kind="flat"], QToolButton {
  background: transparent; border-color: transparent; padding: 0 8px;
}
QToolButton[square="true"] { padding: 0; min-width: ${inner}px; max-width: ${inner}px; }
QLineEdit QToolButton { padding: 0; border: none; min-height: 16px; max-height: 16px; }
QPushButton[kind="flat"]:hover, QToolButton:hover { background: $hover; }
QPushButton[kind="flat"]:focus, QToolButton:focus { border-color: $accent; }
QToolButton:checked, QPushButton[kind="flat"]:checked { background: $selection; }
QToolButton::menu-indicator, QPushButton::menu-indicator { image: none; width: 0; }

QLineEdit, QSpinBox, QDoubleSpinBox {
  background: $panel; color: $text; border: 1px solid $divider; border-radius: ${control}px;
  padding: 0 8px; min-height: ${inner}px; max-height: ${inner}px;
  selection-background-color: $accent; selection-color: $accent_text;
}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { width: 0; border: none; }
QComboBox { padding: 0 8px 0 10px; }
QComboBox::drop-down { border: none; width: 24px; }
QComboBox::down-arrow { image: url("$pictures/arrow.svg"); width: 14px; height: 14px; }
QCheckBox::indicator, QListWidget::indicator {
  width: ${box}px; height: ${box}px; border: 1px solid $faint; border-radius: 3px;
  background: $panel;
}
QListWidget::indicator { width: ${tick}px; height: ${tick}px; }
QCheckBox::indicator:focus, QCheckBox::indicator:hover,
QListWidget::indicator:hover { border-color: $accent; }
QCheckBox::indicator:checked, QListWidget::indicator:checked {
  background: $accent; border-color: $accent; image: url("$pictures/$check.svg");
}
QCheckBox[row="true"] { min-height: ${inner}px; }
QCheckBox:focus { color: $link; }
QComboBox QAbstractItemView {
  background: $panel; color: $text; border: 1px solid $divider; padding: 4px;
  selection-background-color: $selection; selection-color: $text;
}
QPlainTextEdit, QTextEdit {
  background: $panel; color: $text; border: 1px solid $divider; border-radius: ${control}px;
  selection-background-color: $accent; selection-color: $accent_text;
}
QPlainTextEdit:focus, QTextEdit:focus { border: 1px solid $accent; }
QPlainTextEdit[plain="true"], QPlainTextEdit[plain="true"]:focus {
  background: transparent; border: none;
}
QToolButton[floating="true"] {
  background: $panel; border: 1px solid $divider; border-radius: ${round}px; padding: 0;
  min-width: ${inner}px; max-width: ${inner}px;
}
QToolButton[floating="true"]:focus { border-color: $accent; }

QMenu { background: $panel; color: $text; border: 1px solid $divider; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 12px; border-radius: ${control}px; }
QMenu::item:selected { background: $selection; }
QMenu::item:disabled { color: $disabled; }
QMenu::separator { height: 1px; background: $divider; margin: 4px 8px; }

QTabBar { background: transparent; }
QTabBar::tab {
  background: transparent; color: $quiet; padding: 0 12px; height: 38px;
  border: none; border-bottom: 2px solid transparent;
}
QTabBar QToolButton { color: $quiet; min-height: 38px; max-height: 38px; }
QTabBar[level="second"] QToolButton { min-height: ${inner}px; max-height: ${inner}px; }
QTabBar QToolButton:hover { color: $text; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:selected { color: $text; border-bottom: 2px solid $accent; }
QTabBar::tab:selected:focus { background: $selection; }
QTabBar[level="second"]::tab {
  height: ${inner}px; margin: 0 4px 0 0; border: none; border-radius: ${control}px;
}
QTabBar[level="second"]::tab:selected { background: $raised; border: none; }
QTabBar[level="second"]::tab:selected:focus { background: $selection; }

QAbstractItemView {
  background: $panel; color: $text; border: none; alternate-background-color: $canvas;
  selection-background-color: $selection; selection-color: $text; gridline-color: $divider;
}
QTableView::item { padding: 0 5px; border: none; }
QTableView { border: 1px solid transparent; border-radius: ${control}px; }
QTableView:focus { border-color: $focus; }
QListView::item:focus { border: 1px solid $accent; }
QListView::item { border-radius: ${control}px; }
QListView::item:hover { background: $hover; }
QListView::item:selected { background: $selection; color: $text; }
QHeaderView { background: $panel; }
QHeaderView::section {
  background: $panel; color: $quiet; border: none; border-bottom: 1px solid $divider;
  padding: 0 8px; height: ${row}px;
}
QHeaderView::section:hover { color: $text; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QTableCornerButton::section { background: $panel; border: none; }

QScrollArea { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 12px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 0; }
QScrollBar::handle { background: $scroll; border-radius: 3px; margin: 3px; }
QScrollBar::handle:vertical { min-height: 32px; }
QScrollBar::handle:horizontal { min-width: 32px; }
QScrollBar::handle:hover { background: $faint; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }

QSplitter::handle { background: $divider; }
QSplitter::handle:hover { background: $accent; }
QProgressBar {
  background: $divider; border: none; border-radius: 2px; max-height: 4px; min-height: 4px;
}
QProgressBar:focus { border: 1px solid $accent; max-height: 6px; min-height: 6px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
""")


def style_sheet(tokens: ThemeTokens) -> str:
    """The application's style sheet."""
    values = {name: getattr(tokens, name) for name in tokens.__dataclass_fields__}
    return _SHEET.substitute(
        values,
        card=RADIUS_CARD,
        control=RADIUS_CONTROL,
        row=fonts.px(ROW),
        inner=fonts.px(ROW) - 2,
        box=fonts.px(16),
        tick=fonts.px(12),
        round=fonts.px(ROW) // 2,
        small=fonts.px(SMALL_PX),
        title=fonts.px(TITLE_PX),
        pictures=(files("resources") / "style"),
        check="check-white" if readable(tokens.accent) == "#FFFFFF" else "check-black",
        focus=mix(tokens.accent, tokens.panel, 0.5),
        hover=mix(tokens.text, tokens.raised, 0.05),
        press=mix(tokens.text, tokens.raised, 0.12),
        scroll=mix(tokens.faint, tokens.panel, 0.55),
        disabled=mix(tokens.quiet, tokens.canvas, 0.6),
        accent_hover=mix(tokens.text, tokens.accent, 0.12),
    )
