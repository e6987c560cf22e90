"""Everything in the inspector that can be clicked, and whether a click changes what can be seen."""

from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QEvent, QModelIndex, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QMenu,
    QTabBar,
    QTableView,
    QWidget,
)

from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
HAND = Qt.CursorShape.PointingHandCursor
DOWN, ACROSS = 5, 9  # points of a chart where the pointer is looked at
TRIES = 30  # looks at what a click has changed, 10 ms apart
MODES = ("Show as ", "Charts as ")  # how names of buttons begin that show other things


class Target(NamedTuple):
    """A place that invites a click: `key` is the same where it is found again. What follows a
    `mode` is another page, with targets of its own.
    """

    key: tuple[str, ...]
    widget: QWidget
    place: QPoint
    mode: bool = False


def targets(window: MainWindow, places: int) -> Iterator[Target]:
    """What can be seen of the inspector and answers the mouse: so many places of each chart, and
    columns of each table.
    """
    inspector = window.inspector
    for widget in inspector.findChildren(QWidget):
        if widget.isVisible() and widget.isEnabled() and not widget.visibleRegion().isEmpty():
            key = inspector.tab, type(widget).__name__, _name(widget)
            yield from _of(widget, key, places)


def _of(widget: QWidget, key: tuple[str, ...], most: int) -> Iterator[Target]:
    area = widget.visibleRegion().boundingRect()
    parent = widget.parentWidget()
    if isinstance(widget, QTabBar):
        for at in range(widget.count()):
            if at != widget.currentIndex() and widget.isTabVisible(at):
                yield Target((*key, widget.tabText(at)), widget, widget.tabRect(at).center(), True)
    elif isinstance(widget, QComboBox | QAbstractSpinBox):
        if isinstance(widget, QComboBox):
            yield Target(key, widget, area.center(), True)
    elif isinstance(widget, QAbstractButton):
        chosen = widget.isCheckable() and widget.isChecked()  # as a tab that is in front
        if not chosen and not isinstance(parent, QTabBar | QAbstractItemView):
            mode = widget.isCheckable() or _name(widget).startswith(MODES)
            yield Target((*key, widget.text()), widget, area.center(), mode)
    elif isinstance(widget, QHeaderView):
        for at in range(min(most, widget.count()) if widget.sectionsClickable() else 0):
            along = widget.sectionViewportPosition(at) + widget.sectionSize(at) // 2
            across = widget.orientation() == Qt.Orientation.Horizontal
            middle = (widget.height() if across else widget.width()) // 2
            place = QPoint(along, middle) if across else QPoint(middle, along)
            if widget.viewport().rect().contains(place):
                yield Target((*key, f"title {at}"), widget.viewport(), place)
    elif isinstance(widget, QAbstractItemView):
        for index in _cells(widget, most):
            place = widget.visualRect(index).center()
            if widget.viewport().rect().contains(place):
                yield Target((*key, f"column {index.column()}"), widget.viewport(), place)
    elif _hears(widget):
        places = list(_inviting(widget))
        for n, place in enumerate(places[:: max(1, len(places) // most)]):
            yield Target((*key, f"place {n}"), widget, place)


def _cells(view: QAbstractItemView, most: int) -> Iterator[QModelIndex]:
    """Each column of a row that is not the current one."""
    model, now = view.model(), view.currentIndex()
    if model is None:
        return
    row = 1 if now.row() == 0 else 0
    if row < model.rowCount():
        for column in range(min(model.columnCount(), most)):
            yield model.index(row, column)


def _hears(widget: QWidget) -> bool:
    """A chart of ours that takes presses of the mouse."""
    return any(
        "mousePressEvent" in kind.__dict__
        for kind in type(widget).__mro__
        if kind.__module__.startswith("app.")
    )


def _inviting(widget: QWidget) -> Iterator[QPoint]:
    """Where the pointer becomes a hand; of a chart whose pointer never does, no place."""
    area = widget.visibleRegion().boundingRect()
    for row in range(DOWN):
        for column in range(ACROSS):
            place = QPoint(
                area.left() + (2 * column + 1) * area.width() // (2 * ACROSS),
                area.top() + (2 * row + 1) * area.height() // (2 * DOWN),
            )
            _hover(widget, place)
            if widget.cursor().shape() == HAND:
                yield place


def _hover(widget: QWidget, place: QPoint) -> None:
    at = QPointF(place)
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        *(at, widget.mapToGlobal(at), Qt.MouseButton.NoButton, Qt.MouseButton.NoButton, NONE),
    )
    QApplication.sendEvent(widget, event)


def _name(widget: QWidget) -> str:
    named: QWidget | None = widget
    while named is not None and not named.accessibleName():
        named = named.parentWidget()
    return named.accessibleName() if named is not None else ""


def told(window: MainWindow) -> tuple[str, ...]:
    """What a person may notice besides the inspector: popups, banners, clipboard, selection."""
    QApplication.processEvents()
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    popups = [w for w in QApplication.topLevelWidgets() if w.isVisible() and w is not window]
    clipboard = QGuiApplication.clipboard()
    return (
        *(f"{type(w).__name__} {w.geometry()}" for w in popups),
        *window.talk.notices.texts,
        *(clipboard.text(), str(clipboard.mimeData().hasImage())),
        str(window.bench.selection.now),
        str(len(client.asked)),
        str(window.sheets.front),
        str(window.panes.inspects),
    )


def seen(window: MainWindow) -> QImage:
    return window.inspector.grab().toImage()


def click(window: MainWindow, target: Target, asked: list[str]) -> bool:
    """Whether it is answered; with the keyboard there before, so that focus alone is no answer.

    `asked` grows where a dialog for files would open.
    """
    widget = target.widget
    holder = widget if widget.focusPolicy() != Qt.FocusPolicy.NoFocus else widget.parentWidget()
    if holder is not None:
        holder.setFocus()
    if isinstance(holder, QHeaderView) or isinstance(widget.parentWidget(), QHeaderView):
        for view in window.inspector.findChildren(QTableView):
            view.clearSelection()  # what is chosen already is not chosen again
    _hover(widget, target.place)
    QGuiApplication.clipboard().setText("nothing yet")
    before, dialogs = told(window), len(asked)
    picture = seen(window)
    QTest.mouseClick(widget, LEFT, NONE, target.place)
    answered = False
    for _ in range(TRIES):  # a job may answer
        answered = len(asked) > dialogs or told(window) != before or seen(window) != picture
        if answered:
            break
        QTest.qWait(10)
    close_popups(window)
    return answered


def close_popups(window: MainWindow) -> None:
    """Menus, lists of combo boxes, sheets and windows that a click has opened; the inspector comes
    back where it was closed.
    """
    while (popup := QApplication.activePopupWidget()) is not None:
        popup.close()
    for menu in QApplication.topLevelWidgets():
        if isinstance(menu, QMenu) and menu.isVisible():
            menu.close()
    window.inspector.close_windows()
    while (sheet := window.sheets.front) is not None:
        sheet.dismiss()
    if not window.panes.inspects:
        window.panes.toggle_inspector()
    QApplication.processEvents()
