"""The sheet of preferences: what is kept of prepared weights is told, bounded, and deleted."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine import kept
from engine.kept import prepared_files, prepared_folder


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two of a GB each on the disk, whatever blocks the file system counts for a byte."""
    monkeypatch.setattr(kept, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(kept, "size_on_disk", lambda told: told.st_size * 10**9)
    prepared_folder().mkdir()
    made = [prepared_folder() / f"{name}.weights" for name in "ab"]
    for path in made:
        path.write_bytes(b"x")
    return made


def test_what_is_kept_is_told_and_deleted(
    window: MainWindow, qtbot: QtBot, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    window.sheets.show_preferences()
    view = window.sheets.preferences
    qtbot.waitUntil(lambda: view.kept.text() == "2.0 GB stored")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _refuse)
        view.delete_kept.setFocus()
        QTest.keyClick(view.delete_kept, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: "Permission denied" in view.kept.text())
    assert len(prepared_files()) == 2
    view.hide()
    view.show()
    qtbot.waitUntil(view.delete_kept.isEnabled)
    QTest.keyClick(view.delete_kept, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.kept.text() == "Nothing stored")
    assert not prepared_files()
    assert not view.delete_kept.isEnabled()


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_the_limit_is_what_models_are_opened_with(window: MainWindow) -> None:
    view, bench = window.sheets.preferences, window.bench
    assert bench.options_for("m.gguf").prepared is None
    for text, wanted in (
        ("Keep at most 20 GB", 20),
        ("Keep none", 0),
        ("Prepared weights on disk", None),
    ):
        view.prepared.setCurrentText(text)
        view.prepared.activated.emit(view.prepared.currentIndex())
        assert bench.options_for("m.gguf").prepared == wanted
        assert window.sheets.chooser.options.options().prepared == wanted
        assert bench.preferences.value.prepared_gb == wanted


def test_speculation_is_a_choice(window: MainWindow) -> None:
    view, preferences = window.sheets.preferences, window.bench.preferences
    assert view.speculation.currentText() == "Off"
    for text, wanted in (("Automatic", "auto"), ("From earlier text (n-gram)", "ngram")):
        view.speculation.setCurrentText(text)
        view.speculation.activated.emit(view.speculation.currentIndex())
        assert preferences.value.speculation == wanted
