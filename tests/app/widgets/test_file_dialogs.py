"""Where dialogs for files start: the folder used last, also in the next run, else home."""

import re
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.widgets import file_dialogs
from app.widgets.file_dialogs import choose_folder, open_file, open_files, save_file

ROOT = Path(__file__).parents[3]


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Where each dialog began; a person chooses a file in a folder of that dialog's name."""
    found: list[str] = []

    def dialog(name: str, several: bool = False) -> None:
        folder = tmp_path / name
        folder.mkdir()
        path = str(folder / "a.bin")

        def chosen(_: object, __: str, at: str, ___: str) -> tuple[object, str]:
            found.append(at)
            return ([path] if several else path), "kind"

        monkeypatch.setattr(QFileDialog, name, chosen)

    def folder(_: object, __: str, at: str) -> str:
        found.append(at)
        return str(tmp_path)

    dialog("getOpenFileName")
    dialog("getOpenFileNames", several=True)
    dialog("getSaveFileName")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return found


def test_each_dialog_starts_where_the_last_one_ended(
    parent: QWidget, starts: list[str], tmp_path: Path
) -> None:
    kept: list[str] = []
    file_dialogs.start_in("", kept.append)
    assert open_file(parent, "Open") == str(tmp_path / "getOpenFileName" / "a.bin")
    assert open_files(parent, "Add", "*") == [str(tmp_path / "getOpenFileNames" / "a.bin")]
    assert save_file(parent, "Save", "x.md") == (
        str(tmp_path / "getSaveFileName" / "a.bin"),
        "kind",
    )
    assert choose_folder(parent, "Folder") == str(tmp_path)
    assert open_file(parent, "Open", "*", at="/elsewhere")
    names = [str(tmp_path / name) for name in ("getOpenFileName", "getOpenFileNames")]
    written = str(tmp_path / "getSaveFileName")
    home = str(tmp_path / "home")
    assert starts == [home, names[0], str(Path(names[1], "x.md")), written, "/elsewhere"]
    assert kept == [*names, written, str(tmp_path), names[0]]


def test_a_folder_that_is_gone_and_a_dialog_that_is_cancelled(
    parent: QWidget, starts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    file_dialogs.start_in(str(tmp_path / "gone"), kept.append)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *a: (starts.append(a[2]) or "", ""))
    assert save_file(parent, "Save", "x.md") == ("", "")
    assert starts == [str(tmp_path / "home" / "x.md")]
    assert kept == []


def test_all_dialogs_for_files_are_these() -> None:
    """Qt's own start in the current directory, which a person has not chosen."""
    made = re.compile(r"\bQFileDialog\b")
    users = {p.name for p in (ROOT / "app").rglob("*.py") if made.search(p.read_text("utf-8"))}
    assert users == {"file_dialogs.py"}
