"""What fails in a function that Qt calls: the window goes on, and says so."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QObject,
    QPoint,
    QPointF,
    QRectF,
    QSortFilterProxyModel,
    Qt,
    QTimer,
    qInstallMessageHandler,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QEnterEvent,
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QInputMethodEvent,
    QPainter,
    QWheelEvent,
)
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QGraphicsObject,
    QGraphicsScene,
    QGraphicsView,
    QHeaderView,
    QPlainTextEdit,
    QScrollArea,
    QStyledItemDelegate,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.widgets.guard import SOURCE, guard, install_hooks, instead, overrides, report, seen
from app.window.main_window import MainWindow
from tests.app.helpers.gui import forget_widgets

NONE, LEFT = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton


class Planted(Exception):
    """What a test raises inside an override."""


def failing(name: str) -> Callable[..., Any]:
    def fails(self: object, *args: object) -> object:
        raise Planted(name)

    return fails


def fails_painting(self: QWidget, event: object) -> None:
    painter = QPainter(self)  # stays open, as it does where a formatting fails in its midst
    painter.save()
    raise Planted("paintEvent")


class Rows(QAbstractTableModel):
    """Two rows that can be shown."""

    def rowCount(self, parent: object = None) -> int:  # noqa: N802
        return 2

    def columnCount(self, parent: object = None) -> int:  # noqa: N802
        return 2

    def data(self, index: object, role: int = 0) -> object:
        return "x" if role == 0 else None


class Square(QGraphicsObject):
    """Something in a scene."""

    def boundingRect(self) -> QRectF:  # noqa: N802
        return QRectF(0, 0, 9, 9)

    def paint(self, *args: object) -> None:
        pass


def classes() -> Iterator[type]:
    """The app's classes that override something of Qt's."""
    below: list[type] = [QObject]
    while below:
        found: list[type] = type.__subclasses__(below.pop())
        below += found
        yield from (cls for cls in found if cls.__module__.startswith("app.") and overrides(cls))


NAMES = sorted({name for cls in classes() for name in overrides(cls)})
# Which class of Qt has it, where that is no widget of its own.
OTHERS = {
    **dict.fromkeys(("rowCount", "columnCount", "data", "headerData", "flags", "sort"), Rows),
    **dict.fromkeys(("setData", "mimeTypes", "mimeData", "dropMimeData"), Rows),
    "supportedDropActions": Rows,
    "createMimeDataFromSelection": QPlainTextEdit,
    "boundingRect": Square,
    "paint": QStyledItemDelegate,
    "paintSection": QHeaderView,
    "filterAcceptsRow": QSortFilterProxyModel,
    "scrollContentsBy": QScrollArea,
    **dict.fromkeys(("canInsertFromMimeData", "insertFromMimeData"), QPlainTextEdit),
}
# Of an object within a text document, which takes a document to be called.
OF_TEXT = {"drawObject", "intrinsicSize"}


def planted(name: str, kind: type) -> Any:
    """An object of a class of Qt's in which that fails, if it is such a class's."""
    wanted = OTHERS.get(name, QWidget)
    body = {name: fails_painting if name == "paintEvent" else failing(name)}
    if name == "heightForWidth":
        body["hasHeightForWidth"] = lambda self: True
    cls = type(f"Failing{kind.__name__}", (kind,), body if wanted is kind else {})
    guard(cls)
    return cls


class Board(QWidget):
    """A widget, a table, a text and something to scroll, one of them with what fails."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.plain = planted(name, QWidget)()
        self.plain.setMinimumHeight(20)
        self.table, self.model = QTableView(), planted(name, Rows)(self)
        self.table.setModel(self.model)
        self.table.setItemDelegate(planted(name, QStyledItemDelegate)(self.table))
        header = planted(name, QHeaderView)(Qt.Orientation.Horizontal, self.table)
        self.table.setHorizontalHeader(header)
        self.found = planted(name, QSortFilterProxyModel)(self)
        self.found.setSourceModel(self.model)
        self.text, self.area = planted(name, QPlainTextEdit)(), planted(name, QScrollArea)()
        inner = QWidget()
        inner.setFixedSize(900, 900)
        self.area.setWidget(inner)
        self.drawing = QGraphicsView(QGraphicsScene(self))
        self.square = planted(name, Square)()
        self.drawing.scene().addItem(self.square)
        column = QVBoxLayout(self)
        for widget in (self.plain, self.table, self.text, self.area, self.drawing):
            column.addWidget(widget)
        self.installEventFilter(self.plain)

    def use(self) -> None:
        """All that a person does with it, and Qt."""
        self.resize(400, 600)
        self.show()
        QApplication.processEvents()
        self.grab()
        point, inside = QPointF(2, 2), QPoint(2, 2)
        reason, menu = QFocusEvent(QEvent.Type.FocusIn), QContextMenuEvent.Reason.Keyboard
        wheel = QWheelEvent(
            *(point, point, QPoint(0, 60), QPoint(0, 120)),
            *(Qt.MouseButton.NoButton, NONE, Qt.ScrollPhase.NoScrollPhase, False),
        )
        for event in (
            *(reason, QFocusEvent(QEvent.Type.FocusOut), QEnterEvent(point, point, point)),
            *(QEvent(QEvent.Type.Leave), QEvent(QEvent.Type.StyleChange), wheel),
            QHelpEvent(QEvent.Type.ToolTip, inside, inside),
            *(QContextMenuEvent(menu, inside, inside), QInputMethodEvent()),
        ):
            QApplication.sendEvent(self.plain, event)
        QTest.mouseClick(self.plain, LEFT, NONE, inside)
        QTest.mouseDClick(self.plain, LEFT, NONE, inside)
        QTest.mouseMove(self.plain, QPoint(3, 3))
        QTest.keyClick(self.plain, Qt.Key.Key_A)
        QTest.keyClick(self.plain, Qt.Key.Key_Tab)
        self.plain.move(1, 1)
        self.table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.model.setData(self.model.index(0, 0), "y")
        self._drag()
        self.found.rowCount()
        self.area.verticalScrollBar().setValue(9)
        QGuiApplication.clipboard().setText("pasted")
        self.text.paste()
        self.text.canPaste()
        self.text.selectAll()
        self.text.copy()
        self.plain.hide()
        self.plain.show()
        self.plain.close()
        self.close()

    def _drag(self) -> None:
        """A row onto another."""
        first, last = self.model.index(0, 0), self.model.index(1, 0)
        data = self.model.mimeData([first])
        assert isinstance(self.model.mimeTypes(), list)
        move = self.model.supportedDropActions() & Qt.DropAction.MoveAction
        self.model.dropMimeData(data, move, -1, -1, last)


@pytest.fixture
def unseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Failures do not fail the test; nor does what Qt says of them."""
    seen.clear()
    before = qInstallMessageHandler(lambda *_: None)
    yield
    qInstallMessageHandler(before)
    caplog.get_records("call").clear()


def test_every_override_of_the_app_has_something_instead() -> None:
    assert len(NAMES) > 30
    for name in NAMES:
        instead(name)


def test_every_override_of_the_app_is_guarded(window: MainWindow) -> None:
    bare = [
        f"{cls.__name__}.{name}"
        for cls in classes()
        for name in overrides(cls)
        if not hasattr(vars(cls)[name], "guarded")
    ]
    assert bare == []


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("name", sorted(set(NAMES) - OF_TEXT))
def test_an_exception_in_each_kind_of_override(
    name: str, caplog: pytest.LogCaptureFixture, qtbot: QtBot
) -> None:
    with qtbot.captureExceptions() as escaped:
        board = Board(name)
        board.use()
        board.removeEventFilter(board.plain)
        board.deleteLater()
        forget_widgets()
    assert escaped == []
    logged = {r.getMessage() for r in caplog.records if r.name == SOURCE}
    (text,) = logged
    assert text.endswith(f".{name} failed: Planted: {name}")


@pytest.mark.usefixtures("unseen")
def test_a_failure_is_shown_and_the_log_has_it(window: MainWindow, qtbot: QtBot) -> None:
    try:
        raise Planted("here")
    except Planted as error:
        report(error, "Vitals.paintEvent")
    qtbot.waitUntil(lambda: any("error occurred" in text for text in window.talk.notices.texts))
    (line,) = (x for x in window.bench.log.lines if x.source == SOURCE)
    assert line.text == "Vitals.paintEvent failed: Planted: here"
    assert "Traceback" in line.details


def test_what_fails_at_each_painting_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        try:
            raise Planted("once")
        except Planted as error:
            report(error, "x")
    assert len(caplog.records) == 1
    caplog.clear()


@pytest.mark.usefixtures("unseen")
def test_what_fails_in_slots_timers_and_threads_is_logged(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))  # as before after the test
    install_hooks()

    def in_thread() -> None:
        raise Planted("thread")

    QTimer.singleShot(0, window, lambda: failing("slot")(None))
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    lines = window.bench.log.lines

    def told(what: str) -> bool:
        return any(f"Planted: {what}" in x.text for x in lines if x.level >= logging.ERROR)

    qtbot.waitUntil(lambda: told("slot") and told("thread"))
