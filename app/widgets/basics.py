"""Labels, buttons and lines in the look of the theme."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QFrame,
    QLabel,
    QPushButton,
    QScrollArea,
    QStyle,
    QStyleOptionButton,
    QStylePainter,
    QToolButton,
    QWidget,
)

from app.theme import fonts
from app.theme.icons import icon
from app.widgets.tips import set_tip

LEAST_BUTTON = 72  # pixels at normal text
TEXT_SIZE = (QEvent.Type.FontChange, QEvent.Type.StyleChange)
"""What happens to a widget when the size of text changes."""
LOOKS = (QEvent.Type.PaletteChange, *TEXT_SIZE)
"""What happens to a widget when the theme or the size of text changes."""


def label(text: str = "", tone: str = "", size: str = "", wrap: bool = False) -> QLabel:
    """Plain text; `tone` quiet, good, warn or bad, `size` small, strong or title."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wrap)
    made.setProperty("tone", tone)
    made.setProperty("letters", size)
    return made


def set_tone(widget: QWidget, tone: str) -> None:
    """Give a label another tone."""
    if widget.property("tone") != tone:
        widget.setProperty("tone", tone)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


class _Height(QObject):
    """Keeps a fixed height of its parent that follows the size of text."""

    def __init__(self, widget: QWidget, px: int) -> None:
        super().__init__(widget)
        self._widget, self._px = widget, px
        widget.installEventFilter(self)
        self._set()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() in TEXT_SIZE:
            self._set()
        return False

    def _set(self) -> None:
        self._widget.setFixedHeight(fonts.px(self._px))


def set_height(widget: QWidget, px: int) -> None:
    """Fix a height in pixels at normal text; it follows the size of text."""
    _Height(widget, px)


def divider(vertical: bool = False) -> QFrame:
    """A line of one pixel."""
    line = QFrame()
    line.setProperty("line", "true")
    if vertical:
        line.setFixedWidth(1)
    else:
        line.setFixedHeight(1)
    return line


def scrolled(content: QWidget, parent: QWidget | None = None) -> QScrollArea:
    """Put a widget into a scroll area: as wide as there is room, scrolled vertically."""
    area = QScrollArea(parent)
    area.setWidget(content)
    area.setWidgetResizable(True)
    for widget in (content, area.viewport()):  # the ground is that of what it lies on
        widget.setAutoFillBackground(False)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return area


def set_shown(part: QWidget, shown: bool) -> None:
    """Show or hide a part of a view. One without a parent is shown with it, not as a window."""
    if shown and part.parentWidget() is None:
        part.setAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide, False)
    else:
        part.setVisible(shown)


def surface(widget: QWidget, name: str) -> None:
    """Paint a widget's background: panel, canvas or card."""
    widget.setProperty("surface", name)
    widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)


def _enter_clicks(button: QAbstractButton, event: QKeyEvent) -> bool:
    """Let Enter click a button; outside of dialogs Qt lets only Space. With Ctrl, Shift or Alt it
    is a shortcut, of something else.
    """
    enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
    enter &= event.modifiers() in (
        Qt.KeyboardModifier.NoModifier,
        Qt.KeyboardModifier.KeypadModifier,
    )
    if enter:
        button.click()
    return enter


class Button(QPushButton):
    """A button with words; `kind` primary, flat or link. Words that do not fit are shortened."""

    shortened = Qt.TextElideMode.ElideRight  # where words are left out

    def __init__(
        self,
        text: str,
        clicked: Callable[[], object],
        kind: str = "",
        picture: str = "",
        name: str = "",
    ) -> None:
        super().__init__(text)
        self._picture = picture
        self.setProperty("kind", kind)
        self.setAccessibleName(name or text)
        self.setAutoDefault(False)
        self.clicked.connect(lambda: clicked())
        self._tint()

    def set_text(self, text: str) -> None:
        """Other words, for the eye and for screen readers."""
        self.setText(text)
        self.setAccessibleName(text)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        hint = super().minimumSizeHint()
        return QSize(min(hint.width(), fonts.px(LEAST_BUTTON)), hint.height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        option = QStyleOptionButton()
        self.initStyleOption(option)
        inside = QStyle.SubElement.SE_PushButtonContents
        room = self.style().subElementRect(inside, option, self).width()
        if not self.icon().isNull():
            room -= self.iconSize().width() + 4
        option.text = self.fontMetrics().elidedText(self.text(), self.shortened, room)
        painter = QStylePainter(self)
        painter.drawControl(QStyle.ControlElement.CE_PushButton, option)
        painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if not _enter_clicks(self, event):
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._tint()

    def _tint(self) -> None:
        if self._picture:
            tone = "accent_text" if self.property("kind") == "primary" else "text"
            self.setIcon(icon(self._picture, tone))
            self.setIconSize(fonts.square(16))


class IconButton(QToolButton):
    """A square button with a picture; its name is also its tool tip."""

    def __init__(
        self, picture: str, name: str, clicked: Callable[[], object] | None = None, size: int = 18
    ) -> None:
        super().__init__()
        self._picture, self._size = picture, size
        self.setProperty("square", "true")
        self.setAccessibleName(name)
        set_tip(self, name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        if clicked is not None:
            self.clicked.connect(lambda: clicked())
        self._tint()

    def set_picture(self, picture: str, name: str) -> None:
        """Another picture with another meaning."""
        self._picture = picture
        self.setAccessibleName(name)
        set_tip(self, name)
        self._tint()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if not _enter_clicks(self, event):
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._tint()

    def _tint(self) -> None:
        self.setIcon(icon(self._picture, "quiet"))
        self.setIconSize(fonts.square(self._size))


def literal(text: str) -> str:
    """Text of a menu or button in which & marks no key."""
    return text.replace("&", "&&")


def set_beside(row: QBoxLayout, beside: bool) -> None:
    """Lay out from left to right, or from top to bottom."""
    way = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
    row.setDirection(way)
