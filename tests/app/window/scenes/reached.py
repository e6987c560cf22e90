"""What of a window the keyboard comes to, and what has a name for those who do not see it."""

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

from app.window.main_window import MainWindow

DOES_SOMETHING = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QTabBar,
)
LONGEST_WALK = 200


def own(widget: QWidget) -> bool:
    """Not a part that Qt makes inside another widget, which is reached through that."""
    parent = widget.parentWidget()
    if isinstance(widget, QScrollBar | QHeaderView):
        return False
    inside = QLineEdit | QComboBox | QAbstractSpinBox | QTabBar
    return not (isinstance(parent, inside) or isinstance(widget.window(), QComboBox))


def acting(window: MainWindow) -> Iterator[QWidget]:
    """What can be seen and does something, or takes the keyboard."""
    for widget in window.findChildren(QWidget):
        does = isinstance(widget, DOES_SOMETHING)
        takes = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
        if (does or takes) and widget.isVisible() and own(widget):
            yield widget


def nameless(window: MainWindow) -> list[str]:
    """Widgets that do something, or tell how far something is, and have no name."""
    bars = [w for w in window.findChildren(QProgressBar) if w.isVisible()]
    without = [w for w in (*acting(window), *bars) if not w.accessibleName().strip()]
    return [type(widget).__name__ for widget in without]


def unreached(window: MainWindow) -> list[str]:
    """Widgets that do something, and to which no Tab comes: those of a form or sheet in front."""
    front: QWidget = QApplication.activePopupWidget() or window.sheets.front or window
    wanted = [
        w for w in acting(window) if w.isEnabled() and (front is window or front.isAncestorOf(w))
    ]
    first = QApplication.focusWidget()
    reached = {first}
    for _ in range(LONGEST_WALK):
        QTest.keyClick(front.window().windowHandle(), Qt.Key.Key_Tab)
        if QApplication.focusWidget() is first:
            break
        reached.add(QApplication.focusWidget())
    still = filter(isValid, wanted)  # a panel is made anew for what is selected on the way
    missed = [w for w in still if w not in reached and w.focusProxy() not in reached]
    return [f"{type(w).__name__} {w.accessibleName()!r}" for w in missed]
