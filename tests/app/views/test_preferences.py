"""The sheet of preferences: what is kept of prepared weights is told, bounded, and deleted."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.tools.config import ServerConfig
from app.tools.tool import KnownTool
from app.window.main_window import MainWindow
from engine import kept, prefixes
from engine.kept import prepared_files, prepared_folder
from engine.protocol import ForgetChat
from engine.settings import AUTOMATIC
from tests.app.helpers.scripted import ScriptedEngine


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
    qtbot.waitUntil(lambda: view.weights.size_shown.text() == "2.0 GB stored")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _refuse)
        view.weights.delete.setFocus()
        QTest.keyClick(view.weights.delete, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: "Permission denied" in view.weights.size_shown.text())
    assert len(prepared_files()) == 2
    view.hide()
    view.show()
    qtbot.waitUntil(view.weights.delete.isEnabled)
    QTest.keyClick(view.weights.delete, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.weights.size_shown.text() == "Nothing stored")
    assert not prepared_files()
    assert not view.weights.delete.isEnabled()


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_what_is_cleared_is_named_a_cache(window: MainWindow) -> None:
    """A button "Delete all" beside the word "Chats" would seem to delete them."""
    window.sheets.show_preferences()
    view = window.sheets.preferences
    named = {one.text() for one in view.findChildren(QLabel)}
    assert {"Chat cache", "Prepared weights", "Models folder"} <= named
    assert not named & {"Chats", "Weights", "Folder"}
    assert [view.chats.delete.text(), view.weights.delete.text()] == ["Clear", "Clear"]
    assert any("clearing it keeps all chats" in text for text in named)


def test_the_limit_is_what_models_are_opened_with(window: MainWindow) -> None:
    view, bench = window.sheets.preferences, window.bench
    assert bench.options_for("m.gguf").prepared is None
    for text, wanted in (
        ("Keep at most 20 GB", 20),
        ("Keep none", 0),
        ("Automatic", None),
    ):
        view.prepared.setCurrentText(text)
        view.prepared.activated.emit(view.prepared.currentIndex())
        assert bench.options_for("m.gguf").prepared == wanted
        assert window.sheets.chooser.options.options().prepared == wanted
        assert bench.preferences.value.prepared_gb == wanted


def test_speculation_is_a_choice(window: MainWindow) -> None:
    view, preferences = window.sheets.preferences, window.bench.preferences
    assert view.speculation.currentText() == "Off"
    for text, wanted, opened in (
        ("Automatic", "auto", "auto"),
        ("From earlier text (n-gram)", "ngram", "ngram"),
        ("From the model itself (MTP)", "mtp", "auto"),
    ):
        view.speculation.setCurrentText(text)
        view.speculation.activated.emit(view.speculation.currentIndex())
        assert preferences.value.speculation == wanted
        assert window.bench.options_for("m.gguf").spec_type == opened
        assert window.sheets.chooser.options.options().spec_type == opened


def test_what_chats_have_read_is_limited_and_deleted(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a chat go when it is deleted, all of them by the button."""
    monkeypatch.setattr(prefixes, "cache_folder", lambda: tmp_path)
    view, bench = window.sheets.preferences, window.bench
    for text, wanted in (("Keep none", 0), ("Keep at most 5 GB", 5), ("Automatic", AUTOMATIC)):
        view.chats_kept.setCurrentText(text)
        view.chats_kept.activated.emit(view.chats_kept.currentIndex())
        assert bench.options_for("m.gguf").kept_chats == wanted
        assert window.sheets.chooser.options.options().kept_chats == wanted
    engine = bench.engine
    assert isinstance(engine, ScriptedEngine)
    bench.open_model(tmp_path / "m.gguf")
    engine.load_done()
    qtbot.waitUntil(lambda: bench.session.model is not None)
    assert bench.chat.send("Where?")
    engine.write("Here.")
    engine.end()
    chat = bench.chat.chat_id
    assert chat is not None
    for block, owner in (("a", str(chat)), ("b", "another")):
        saved = prefixes.Saved(prefixes.Head([1], [], [block]), memoryview(b""))
        prefixes.write(prefixes.file_of(block), saved, 1 << 20)
        prefixes.write(prefixes.file_of(prefixes.tail_name(block, [1], owner)), saved, 1 << 20)
    bench.chats.delete(chat)
    qtbot.waitUntil(lambda: len(prefixes.kept_prefixes()) == 2)
    forgotten = [one.chat for one in engine.asked if isinstance(one, ForgetChat)]
    assert forgotten == [str(chat)]
    assert {one.path.name[0] for one in prefixes.kept_prefixes()} == {"b"}
    window.sheets.show_preferences()
    qtbot.waitUntil(view.chats.delete.isEnabled)
    QTest.keyClick(view.chats.delete, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.chats.size_shown.text() == "Nothing stored")
    assert not prefixes.kept_prefixes()


def test_what_is_always_allowed_is_listed_and_revoked(window: MainWindow, qtbot: QtBot) -> None:
    consent = window.bench.tools.consent
    server = ServerConfig("files <b>", "npx")
    read = KnownTool(server.name, server.hash, "read", "files__read")
    consent.allow_server(server)
    consent.set_always(read, True)
    window.sheets.show_preferences()
    tools = window.sheets.preferences.tools
    assert tools is not None
    assert [button.accessibleName() for button in tools.revoke] == [
        "Revoke: files <b> may start",
        "Revoke: files <b>: read",
    ]
    assert tools.none.isHidden()
    tools.revoke[1].setFocus()
    QTest.keyClick(tools.revoke[1], Qt.Key.Key_Return)
    assert consent.may_call(read, "{}", 1) is None
    assert len(tools.revoke) == 1
    tools.revoke[0].click()
    assert consent.may_start(server) is None
    assert not tools.none.isHidden()
