"""Rows and tables: filter and order against plain Python, copies as text."""

import random
import threading
from threading import Event

import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.widgets.basics import IconButton
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import LEAST, Table, narrowed
from engine.errors import BadFile

Item = tuple[str, int]
COLUMNS = (
    Column[Item]("Name", lambda r: r[0]),
    Column[Item]("Count", lambda r: str(r[1]), lambda r: r[1], right=True),
)


@pytest.fixture
def items() -> list[Item]:
    draw = random.Random(7)
    return [(f"blk.{draw.randrange(40)}.Weight", draw.randrange(1000)) for _ in range(500)]


def test_filter_and_order_are_those_of_plain_lists(items: list[Item]) -> None:
    rows = TableRows(COLUMNS)
    rows.show_rows(items)
    assert rows.shown == items
    rows.look_for("WEIGHT 1")
    wanted = [item for item in items if "1" in f"{item[0]}\t{item[1]}"]
    assert rows.shown == wanted
    rows.sort(1, Qt.SortOrder.DescendingOrder)
    assert rows.shown == sorted(wanted, key=lambda item: item[1], reverse=True)
    rows.look_for("")
    rows.sort(-1)
    assert rows.shown == items
    assert rows.total == rows.rowCount() == len(items)


def test_texts_at_hand_are_what_a_filter_looks_in(items: list[Item]) -> None:
    rows = TableRows(COLUMNS)
    rows.show_rows(items, ["x" if at % 2 else "y" for at in range(len(items))])
    rows.look_for("x")
    assert rows.shown == items[1::2]


@pytest.fixture
def table(qtbot: QtBot, items: list[Item]) -> Table:
    table = Table(TableRows(COLUMNS), "Things")
    qtbot.addWidget(table)
    table.rows.show_rows(items)
    table.resize(400, 300)
    table.show()
    return table


def test_a_table_copies_as_text(table: Table, items: list[Item]) -> None:
    table.query.setText("blk.7.")
    table.copy_all()
    lines = QGuiApplication.clipboard().text().splitlines()
    wanted = [f"{name}\t{count}" for name, count in items if "blk.7." in name]
    assert lines == ["Name\tCount", *wanted]
    table.choose(0)
    QTest.keyClick(table.view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text().splitlines() == ["Name\tCount", wanted[0]]


def test_the_chosen_row_stays_chosen(table: Table, items: list[Item], qtbot: QtBot) -> None:
    heard: list[Item | None] = []
    table.chosen.connect(heard.append)
    table.choose(3)
    assert heard == [items[3]]
    table.rows.show_rows([*items, ("new", 1)])
    assert table.view.currentIndex().row() == 3
    table.rows.show_rows([("first", 0), *items])
    assert table.view.currentIndex().row() == 4


def test_columns_sort_by_mouse_and_by_key(table: Table, items: list[Item]) -> None:
    header = table.view.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(1) + 10, header.height() // 2)
    QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
    rising = sorted(items, key=lambda item: item[1])
    assert table.rows.shown == rising
    table.view.setFocus()
    QTest.keyClick(table.view, Qt.Key.Key_2, Qt.KeyboardModifier.AltModifier)
    assert table.rows.shown == sorted(items, key=lambda item: item[1], reverse=True)
    QTest.keyClick(table.view, Qt.Key.Key_1, Qt.KeyboardModifier.AltModifier)
    assert table.rows.shown == sorted(items, key=lambda item: item[0].lower())


def test_the_widest_columns_are_cut_first() -> None:
    assert narrowed({0: 100, 1: 200}, 300) == {0: 100, 1: 200}
    assert narrowed({0: 100, 1: 400, 2: 300}, 400) == {0: 100, 1: 150, 2: 150}
    assert narrowed({0: 400, 1: 400}, 20) == {0: LEAST, 1: LEAST}
    assert narrowed({}, 10) == {}


def test_another_width_of_the_table_measures_no_row_again(items: list[Item], qtbot: QtBot) -> None:
    measured: list[Item] = []

    def text(item: Item) -> str:
        measured.append(item)
        return item[0]

    table = Table(TableRows((Column[Item]("Name", text), COLUMNS[1])), "Things")
    qtbot.addWidget(table)
    table.rows.show_rows(items)
    assert measured
    measured.clear()
    QApplication.sendEvent(table, QResizeEvent(QSize(500, 300), QSize(400, 300)))
    assert measured == []


def copy_button(table: Table) -> IconButton:
    (button,) = (b for b in table.findChildren(IconButton) if "ings" in b.accessibleName())
    return button


def test_many_rows_are_copied_beside_the_window(table: Table, qtbot: QtBot) -> None:
    """All of 262,144; while they are written into a text that never ends, the table answers."""
    QGuiApplication.clipboard().setText("before")
    release = Event()
    slow = Column[Item]("Name", lambda r: release.wait() and r[0] or r[0])
    waits = Table(TableRows([slow, COLUMNS[1]]), "Things")
    qtbot.addWidget(waits)
    many = [(f"token {n}", n) for n in range(262_144)]
    waits.rows._all = waits.rows.shown = many  # nothing is measured: a column waits
    button = copy_button(waits)
    button.click()
    assert button.accessibleName() == "Stop copying things"
    assert QGuiApplication.clipboard().text() == "before"
    button.click()
    assert button.accessibleName() == "Copy things as text"
    release.set()
    qtbot.waitUntil(lambda: all(thread.name != "job" for thread in threading.enumerate()))
    qtbot.wait(50)
    assert QGuiApplication.clipboard().text() == "before", "it was stopped"
    waits.rows.columns = COLUMNS
    button.click()
    qtbot.waitUntil(lambda: QGuiApplication.clipboard().text() != "before")
    lines = QGuiApplication.clipboard().text().split("\n")
    assert lines[0] == "Name\tCount"
    assert lines[1:] == [f"{name}\t{count}" for name, count in many]
    assert button.accessibleName() == "Copy things as text"


def test_all_chosen_rows_of_many_are_copied(table: Table, qtbot: QtBot) -> None:
    many = [(f"token {n}", n) for n in range(5000)]
    table.rows.show_rows(many)
    table.view.selectAll()
    QGuiApplication.clipboard().setText("before")
    QTest.keyClick(table.view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: QGuiApplication.clipboard().text() != "before")
    assert len(QGuiApplication.clipboard().text().split("\n")) == 5001


def test_what_cannot_be_copied_is_said(table: Table, qtbot: QtBot) -> None:
    def broken(item: Item) -> str:
        raise BadFile("m.gguf", "it ends too soon")

    broken_table = Table(TableRows([Column[Item]("Name", lambda r: r[0])]), "Things")
    qtbot.addWidget(broken_table)
    broken_table.rows.show_rows([("a", 1)] * 5000)
    broken_table.rows.columns = (Column[Item]("Name", broken),)
    copy_button(broken_table).click()
    qtbot.waitUntil(lambda: "it ends too soon" in broken_table.count.text())
