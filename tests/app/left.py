"""Windows and other widgets without a parent: what a test has left of them is deleted."""

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import createdByPython


def forget_widgets() -> None:
    """What Qt would do once it is back in its loop: destroy what is to be deleted later."""
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def top_widgets() -> list[QWidget]:
    """All widgets of ours without a parent, seen or not; others are Qt's own."""
    if QApplication.instance() is None:
        return []
    return [w for w in QApplication.topLevelWidgets() if w.parent() is None and createdByPython(w)]


def delete_new(before: list[QWidget]) -> None:
    """Delete what has come since, also what was to be deleted later."""
    forget_widgets()
    for widget in top_widgets():
        if widget not in before:
            widget.deleteLater()
    forget_widgets()
