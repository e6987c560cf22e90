"""What is dragged over the window: models are taken, the rest is refused before it is dropped."""

from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine.protocol import Load
from tests.app.window.test_window import open_model

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
COPY, MOVE, LINK = Qt.DropAction.CopyAction, Qt.DropAction.MoveAction, Qt.DropAction.LinkAction


def files(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drag(window: MainWindow, data: QMimeData, offered: Qt.DropAction = COPY) -> QDragEnterEvent:
    enter = QDragEnterEvent(QPoint(400, 400), offered, data, LEFT, NONE)
    enter.ignore()
    QApplication.sendEvent(window, enter)
    return enter


def drop(window: MainWindow, data: QMimeData, offered: Qt.DropAction = COPY) -> QDropEvent:
    event = QDropEvent(QPointF(400, 400), offered, data, LEFT, NONE)
    event.ignore()
    QApplication.sendEvent(window, event)
    return event


def test_a_model_dropped_anywhere_is_opened(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "Some.gguf"
    data = files(path)
    assert drag(window, data).isAccepted()
    assert window.drops.shade.isVisible()
    assert drop(window, data).isAccepted()
    assert not window.drops.shade.isVisible()
    asks = window.bench.engine.asked  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: bool(asks))  # the file's header is read first
    asked = asks[-1]
    assert isinstance(asked, Load)
    assert asked.path == str(path)
    assert window.talk.welcome.isVisible()


def test_a_picture_is_not_offered_a_place_where_the_model_is_blind(
    window: MainWindow, tmp_path: Path
) -> None:
    client = open_model(window, tmp_path / "SmolLM2-135M.Q4_1.gguf")
    asked = len(client.asked)
    data = files(tmp_path / "cat.png")
    assert not drag(window, data).isAccepted()
    assert not window.drops.shade.isVisible()
    (text,) = window.talk.notices.texts
    assert "cat.png" in text
    assert "does not support pictures" in text
    assert not drop(window, data).isAccepted()
    assert len(client.asked) == asked


def test_texts_and_folders_go_to_the_message(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    open_model(window, tmp_path / "SmolLM2-135M.Q4_1.gguf")
    notes, folder = tmp_path / "notes.txt", tmp_path / "code"
    notes.write_text("remember")
    folder.mkdir()
    (folder / "main.c").write_text("int x;")
    data = files(notes, folder)
    assert drag(window, data).isAccepted()
    assert drop(window, data).isAccepted()
    documents = window.bench.chat.documents
    qtbot.waitUntil(lambda: len(documents.documents) == 2)
    assert [d.name for d in documents.documents] == ["notes.txt", "code"]
    assert "int x;" in documents.documents[1].text


def test_without_a_chat_a_text_is_refused_with_the_next_step(
    window: MainWindow, tmp_path: Path
) -> None:
    data = files(tmp_path / "notes.txt")
    assert not drag(window, data).isAccepted()
    (text,) = window.talk.notices.texts
    assert text.startswith("No model is open. notes.txt was not added.")
    assert not drop(window, data).isAccepted()


def test_a_taken_drop_ends_the_banner_of_a_refused_one(window: MainWindow, tmp_path: Path) -> None:
    notes, model = files(tmp_path / "notes.txt"), files(tmp_path / "Some.gguf")
    drag(window, notes)
    assert len(window.talk.notices.texts) == 1
    drag(window, model)
    assert drop(window, model).isAccepted()
    assert not any("notes.txt" in text for text in window.talk.notices.texts)


def test_a_drop_never_moves_the_file(window: MainWindow, tmp_path: Path) -> None:
    data = files(tmp_path / "Some.gguf")
    for offered in (MOVE | COPY, MOVE | LINK):  # as a file manager offers with Shift held
        enter = drag(window, data, offered)
        assert enter.isAccepted()
        assert enter.dropAction() in (COPY, LINK)
        assert drop(window, data, offered).dropAction() in (COPY, LINK)
    assert not drag(window, data, MOVE).isAccepted()


def test_a_file_is_taken_over_the_composer_too(window: MainWindow, tmp_path: Path) -> None:
    open_model(window, tmp_path / "SmolLM2.gguf")
    field, data = window.talk.composer.field, files(tmp_path / "Other.gguf")
    enter = QDragEnterEvent(QPoint(5, 5), COPY, data, LEFT, NONE)
    enter.ignore()
    QApplication.sendEvent(field.viewport(), enter)
    assert enter.isAccepted()
    assert window.drops.shade.isVisible(), "the window takes it, not the field"


def test_a_name_that_no_disk_has_is_left_to_the_engine(window: MainWindow, qtbot: QtBot) -> None:
    """`file:///tmp/a%00b.gguf`: no job fails with an unexpected error before."""
    data = QMimeData()
    data.setUrls([QUrl("file:///tmp/a%00b.gguf")])
    drag(window, data)
    drop(window, data)
    asks = window.bench.engine.asked  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: bool(asks))
    assert isinstance(asks[-1], Load)
    assert asks[-1].path == "/tmp/a\0b.gguf"


def test_a_folder_without_a_file_says_so(window: MainWindow, tmp_path: Path, qtbot: QtBot) -> None:
    open_model(window, tmp_path / "SmolLM2-135M.Q4_1.gguf")
    folder = tmp_path / "nothing here"
    folder.mkdir()
    data = files(folder)
    assert drag(window, data).isAccepted()
    assert drop(window, data).isAccepted()
    qtbot.waitUntil(lambda: bool(window.talk.notices.texts))
    assert window.talk.notices.texts == ["Nothing here: this folder has no text files"]
