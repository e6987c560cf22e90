"""Pins, folders and tags of chats: in the list, by mouse and keyboard, on the disk and in files."""

import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog, QLineEdit, QMenu

from app.state.problem import Problem
from app.state.talk.chats import ChatList
from app.state.talk.disk.database import MIGRATIONS
from app.state.talk.disk.exchange import export_chat, import_chat
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench
from app.theme import fonts
from app.views.talk.chat_rows import DRAGGED, ChatsModel, Heading
from app.views.talk.chats import ChatsView
from tests.app.helpers.seeing import until


@pytest.fixture
def view(bench: Workbench, tmp_path: Path) -> ChatsView:
    """Four chats, the last made first."""
    store = ChatStore(tmp_path / "data" / "chats.sqlite")
    for title in ("Soup", "Tax", "Kernel", "Poem"):
        store.create(title)
    store.close()
    bench.chats.refresh()
    made = ChatsView(bench)
    made.resize(260, 600)
    made.show()
    return made


def shown(view: ChatsView) -> list[str]:
    """The rows as they are drawn, without the day."""
    items = [model(view).item(model(view).index(row)) for row in range(model(view).rowCount())]
    drawn = [item.drawn if isinstance(item, Heading) else item.title for item in items if item]
    return [text for text in drawn if text != "Today"]


def model(view: ChatsView) -> ChatsModel:
    made = view.list.model()
    assert isinstance(made, ChatsModel)
    return made


def index(view: ChatsView, text: str) -> QModelIndex:
    return model(view).index(
        next(
            row
            for row, item in enumerate(model(view).items)
            if (item.text if isinstance(item, Heading) else item.title) == text
        )
    )


def ids(bench: Workbench) -> dict[str, int]:
    return {row.title: row.id for row in bench.chats.rows}


def test_pinned_chats_come_first_and_folders_before_days(bench: Workbench, view: ChatsView) -> None:
    of = ids(bench)
    bench.chats.set_pinned(of["Tax"], True)
    bench.chats.move(of["Kernel"], "  Work   at home ")
    bench.chats.move(of["Soup"], "Cooking")
    assert shown(view) == ["Pinned", "Tax", "▾ Cooking", "Soup", "▾ Work at home", "Kernel", "Poem"]
    bench.chats.set_pinned(of["Tax"], False)
    bench.chats.move(of["Soup"], "")
    assert shown(view) == ["▾ Work at home", "Kernel", "Poem", "Tax", "Soup"]
    assert bench.chats.folders == ["Work at home"]


@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_a_folder_is_folded(bench: Workbench, view: ChatsView, by: str) -> None:
    bench.chats.move(ids(bench)["Soup"], "Cooking & more")

    def press(key: Qt.Key) -> None:
        if by == "keys":
            QTest.keyClick(view.list, key)
        else:
            at = view.list.visualRect(index(view, "Cooking & more")).center()
            QTest.mouseClick(view.list.viewport(), Qt.MouseButton.LeftButton, pos=at)

    view.list.setFocus()
    view.list.setCurrentIndex(index(view, "Cooking & more"))
    press(Qt.Key.Key_Left)
    assert shown(view) == ["▸ Cooking & more  1", "Poem", "Kernel", "Tax"]
    assert bench.preferences.value.folded_folders == ["Cooking & more"]
    spoken = model(view).data(index(view, "Cooking & more"), Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Cooking & more, folder, 1 chat, collapsed"
    assert view.list.currentIndex() == index(view, "Cooking & more"), "the keyboard stays there"
    view.search.setText("Soup")
    assert shown(view) == ["Soup"], "a search looks inside"
    view.search.clear()
    view.list.setCurrentIndex(index(view, "Cooking & more"))
    press(Qt.Key.Key_Right)
    assert "Soup" in shown(view)
    assert bench.preferences.value.folded_folders == []


def test_a_chat_is_dropped_on_a_folder(bench: Workbench, view: ChatsView) -> None:
    bench.chats.move(ids(bench)["Soup"], "Cooking")
    rows = model(view)
    dragged = rows.mimeData([index(view, "Tax")])
    assert dragged.formats() == [DRAGGED]
    move = Qt.DropAction.MoveAction
    rows.dropMimeData(dragged, move, -1, -1, index(view, "Cooking"))
    assert shown(view) == ["▾ Cooking", "Tax", "Soup", "Poem", "Kernel"]
    rows.dropMimeData(rows.mimeData([index(view, "Soup")]), move, -1, -1, index(view, "Today"))
    assert shown(view) == ["▾ Cooking", "Tax", "Poem", "Kernel", "Soup"]


def test_tags_are_words_and_found(
    bench: Workbench, view: ChatsView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: ("#To-Do, gpu  gpu,", True))
    view.list.setFocus()
    view.list.setCurrentIndex(index(view, "Kernel"))
    view.edit_tags()
    bench.chats.set_tags(ids(bench)["Poem"], "today")
    kernel = next(row for row in bench.chats.rows if row.title == "Kernel")
    assert kernel.tags == ("To-Do", "gpu")
    for query, found in (
        ("#to", ["Poem", "Kernel"]),
        ("#to-do", ["Kernel"]),
        ("#gpu kern", ["Kernel"]),
        ("#gpu soup", []),
        ("#nothing", []),
    ):
        view.search.setText(query)
        assert shown(view) == found, query


def test_a_folder_is_renamed_and_removed_as_a_whole(
    bench: Workbench, view: ChatsView, tmp_path: Path
) -> None:
    of = ids(bench)
    for title in ("Soup", "Tax"):
        bench.chats.move(of[title], "One")
    problems: list[Problem] = []
    bench.chats.problem.connect(problems.append)
    refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON chats WHEN new.title = 'Soup'"
    database = sqlite3.connect(tmp_path / "data" / "chats.sqlite")
    database.execute(f"{refuse} BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    bench.chats.rename_folder("One", "Two")
    assert bench.chats.folders == ["One"], "all of it or nothing"
    assert len(problems) == 1
    database.execute("DROP TRIGGER refuse")
    database.close()
    bench.chats.rename_folder("One", "Two")
    assert bench.chats.folders == ["Two"]
    bench.chats.rename_folder("Two", "")
    assert bench.chats.folders == []
    assert len(bench.chats.rows) == 4


def test_a_copy_and_an_export_keep_folder_and_tags(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.sqlite")
    chat = store.create("Soup", folder="Cooking", tags=["hot"])
    export_chat(store, chat, tmp_path / "soup.json")
    made = store.chat(import_chat(store, tmp_path / "soup.json"))
    assert made is not None
    assert (made.folder, made.tags, made.pinned) == ("Cooking", ("hot",), False)
    store.close()


def test_chats_of_the_version_before_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    old = sqlite3.connect(path)
    before = next(n for n, one in enumerate(MIGRATIONS) if "pinned" in " ".join(one))
    for statements in MIGRATIONS[:before]:
        for statement in statements:
            old.execute(statement)
    old.execute(
        "INSERT INTO chats (title, created, changed, model, system, sampling, draft)"
        " VALUES ('Old', 1, 1, '', '', '{}', '')"
    )
    old.execute(f"PRAGMA user_version = {before}")
    old.commit()
    old.close()
    store = ChatStore(path)
    chats = ChatList(store)
    assert [(row.title, row.folder, row.tags, row.pinned) for row in chats.rows] == [
        ("Old", "", (), False)
    ]
    store.close()


def open_dots(view: ChatsView, title: str) -> QMenu:
    """Click the dots at the right end of a chat's row."""
    row = view.list.visualRect(index(view, title))
    at = QPoint(row.right() - 12, row.center().y())
    QTest.mouseMove(view.list.viewport(), at)
    QTest.mouseClick(view.list.viewport(), Qt.MouseButton.LeftButton, pos=at)
    popup = QApplication.activePopupWidget()
    assert isinstance(popup, QMenu)
    return popup


def run(menu: QMenu, title: str) -> None:
    """Click a line of the menu."""
    action = next(action for action in menu.actions() if action.text() == title)
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action).center())


def columns(view: ChatsView, title: str) -> set[int]:
    """The columns of a row's right end in which something is drawn on its ground."""
    area = view.list.visualRect(index(view, title))
    picture = view.list.viewport().grab(area).toImage()
    middle, ground = area.height() // 2, picture.pixel(area.width() - 4, area.height() // 2)
    right = range(area.width() - fonts.row(), area.width() - 4)
    return {x for x in right if picture.pixel(x, middle) != ground}


def test_a_row_shows_its_menu_under_the_mouse(bench: Workbench, view: ChatsView) -> None:
    long = "Tax " * 40
    bench.chats.rename(ids(bench)["Tax"], long.strip())
    title = long.strip()
    before = columns(view, title)
    assert before, "the title needs the whole row"
    row = view.list.visualRect(index(view, title))
    QTest.mouseMove(view.list.viewport(), row.center())
    until(lambda: columns(view, title) != before)
    side = fonts.row()
    dots = columns(view, title)
    assert dots
    assert min(dots) > row.width() - side, "and the title ends before it"
    assert not columns(view, "Soup"), "other rows have none"


def test_the_menu_is_of_its_row_not_of_the_open_chat(
    bench: Workbench, view: ChatsView, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = ids(bench)
    bench.chat.open(of["Poem"])
    run(open_dots(view, "Tax"), "Pin")
    assert bench.chat.chat_id == of["Poem"], "a click on the dots opens no chat"
    assert [row.title for row in bench.chats.rows if row.pinned] == ["Tax"]
    names: list[str] = []

    def chosen(parent: object, caption: str, name: str, kinds: str) -> tuple[str, str]:
        names.append(name)
        return str(tmp_path / "out.md"), kinds

    monkeypatch.setattr(QFileDialog, "getSaveFileName", chosen)
    run(open_dots(view, "Soup"), "Export…")
    assert [Path(name).name for name in names] == ["Soup.md"]
    menu = open_dots(view, "Kernel")
    bench.chats.refresh()  # a title that was generated meanwhile
    run(menu, "Delete")
    assert {row.title for row in bench.chats.rows} == {"Poem", "Tax", "Soup"}
    assert view.list.currentIndex() == index(view, "Poem")


def test_rename_in_the_menu_edits_its_row(bench: Workbench, view: ChatsView) -> None:
    bench.chat.open(ids(bench)["Poem"])
    run(open_dots(view, "Soup"), "Rename")
    editor = view.list.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == "Soup"
    editor.setText("Broth")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    until(lambda: "Broth" in ids(bench))
    assert "Poem" in ids(bench)


def test_a_right_click_opens_the_menu_and_no_chat(bench: Workbench, view: ChatsView) -> None:
    bench.chat.open(ids(bench)["Poem"])
    at = view.list.visualRect(index(view, "Tax")).center()
    view.list.customContextMenuRequested.emit(at)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    assert view.list.currentIndex() == index(view, "Tax"), "the row is marked while it is open"
    menu.close()
    assert view.list.currentIndex() == index(view, "Poem")
    assert bench.chat.chat_id == ids(bench)["Poem"]
