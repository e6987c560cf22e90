"""Pins, folders and tags of chats: in the list, by mouse and keyboard, on the disk and in files."""

import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QInputDialog

from app.state.problem import Problem
from app.state.talk.chats import ChatList
from app.state.talk.disk.database import MIGRATIONS
from app.state.talk.disk.exchange import export_chat, import_chat
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench
from app.views.talk.chat_rows import DRAGGED, ChatsModel, Heading
from app.views.talk.chats import ChatsView


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
