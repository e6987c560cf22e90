"""A model is deleted or moved from its page, with a question before anything goes."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.library import Stored
from app.state.models.storage import StorageState
from app.views.models.storage import StorageBar

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def model(tmp_path: Path) -> Stored:
    path = tmp_path / "models" / "a.gguf"
    path.parent.mkdir()
    path.write_bytes(b"GGUF" + bytes(3 << 20))
    return Stored("a", (path,), path.stat().st_size, "own", False, "llama", "Q8_0")


@pytest.fixture
def bar(model: Stored, qtbot: QtBot) -> StorageBar:
    made = StorageBar(StorageState(lambda: [model], lambda: None))
    qtbot.addWidget(made)
    made.show_model(model)
    made.show()
    return made


def test_a_question_comes_before_deleting(bar: StorageBar, model: Stored, qtbot: QtBot) -> None:
    QTest.mouseClick(bar.delete, LEFT)
    assert bar.caption.text() == "Delete a.gguf? 3 MB become free."
    assert bar.keep.hasFocus() or not bar.isActiveWindow()
    QTest.mouseClick(bar.keep, LEFT)
    assert model.paths[0].is_file()
    QTest.mouseClick(bar.delete, LEFT)
    with qtbot.waitSignal(bar.changed):
        QTest.mouseClick(bar.agree, LEFT)
    assert not model.paths[0].exists()


def test_a_question_goes_with_its_model(bar: StorageBar, model: Stored) -> None:
    QTest.mouseClick(bar.delete, LEFT)
    bar.show_model(None)
    assert not bar.agree.isVisible()
    assert bar.caption.text() == ""
    assert model.paths[0].is_file()


def test_its_folder_is_shown(
    bar: StorageBar, model: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_url(url: QUrl) -> bool:
        opened.append(url.toLocalFile())
        return len(opened) == 1

    monkeypatch.setattr(QDesktopServices, "openUrl", open_url)
    QTest.mouseClick(bar.show_folder, LEFT)
    assert opened == [str(model.paths[0].parent)]
    assert bar.caption.text() == ""
    QTest.mouseClick(bar.show_folder, LEFT)
    assert bar.caption.text() == f"No file manager opens {model.paths[0].parent}."


def test_moving(bar: StorageBar, model: Stored, tmp_path: Path, qtbot: QtBot) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    with qtbot.waitSignal(bar.changed):
        bar.move_to(target)
    assert (target / "a.gguf").stat().st_size == model.size
    assert not model.paths[0].exists()
    assert bar.caption.text() == f"a is in {target} now."


def test_another_programs_model_is_its_to_delete(bar: StorageBar, model: Stored) -> None:
    bar.show_model(Stored("m:latest", model.paths, 5, "ollama", False, "llama", "Q8_0"))
    QTest.mouseClick(bar.delete, LEFT)
    assert "ollama rm" in bar.caption.text()
    assert not bar.agree.isVisible()
    bar.move_to(model.paths[0].parent)
    assert model.paths[0].is_file()
