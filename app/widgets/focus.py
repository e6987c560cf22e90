"""Where the keyboard goes."""

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget


def focusable(root: QWidget) -> Iterator[QWidget]:
    """The widgets below `root` that Tab reaches now, in its order."""
    widget = root.nextInFocusChain()
    while widget is not None and widget is not root:
        if (
            root.isAncestorOf(widget)
            and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            and widget.isVisibleTo(root)
            and widget.isEnabled()
            and widget.focusProxy() is None
        ):
            yield widget
        widget = widget.nextInFocusChain()


def focus_first(root: QWidget, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> bool:
    """Give the keyboard to the first of them; False where there is none."""
    first = root.focusProxy() or next(focusable(root), None)
    if first is not None:
        first.setFocus(reason)
    return first is not None


def has_focus(root: QWidget) -> bool:
    """Whether the keyboard is in `root` or below."""
    now = QApplication.focusWidget()
    return now is not None and (now is root or root.isAncestorOf(now))
