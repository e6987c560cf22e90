"""The chat that was open comes back; what was exported can be found."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.state.workbench import Workbench
from app.widgets.basics import Button
from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine


def test_the_last_chat_is_open_again(tmp_path: Path, qapp: object) -> None:
    def begin() -> Workbench:
        return Workbench(ScriptedEngine(), tmp_path / "config", tmp_path / "data")

    first = begin()
    engine = first.engine
    assert isinstance(engine, ScriptedEngine)
    first.open_model(tmp_path / "SmolLM2.gguf")
    engine.load_done()
    first.chat.send("What is a cat?")
    first.close()
    second = begin()
    second.reopen_chat()
    assert [m.text for m in second.chat.path][:1] == ["What is a cat?"]
    assert second.chat.chat_id is not None
    second.chats.delete(second.chat.chat_id)
    second.close()
    third = begin()
    third.reopen_chat()
    assert (third.chat.chat_id, third.chat.path) == (None, [])
    third.close()


def test_what_was_typed_before_any_chat_is_there_again(tmp_path: Path, qapp: object) -> None:
    for found in ("", "half a question"):
        bench = Workbench(ScriptedEngine(), tmp_path / "config", tmp_path / "data")
        assert bench.chat.details.draft == found
        bench.chat.details.set_draft("half a question")
        bench.close()


def test_a_finished_export_is_shown_in_its_folder(
    window: MainWindow, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    window.bench.chats.exported.emit(tmp_path / "cats & <b>.md")
    notices = window.talk.notices
    assert notices.texts == ["Exported to cats & <b>.md."]
    (button,) = [b for b in notices.findChildren(Button) if b.text() == "Show in folder"]
    button.click()
    assert opened == [str(tmp_path)]


def test_a_deleted_message_is_told_with_undo(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(tmp_path / "SmolLM2.gguf")
    engine.load_done()
    window.bench.chat.send("Q")
    engine.write("An answer")
    engine.end()
    assert window.bench.chat.delete_message(0)
    assert window.talk.notices.texts == ["Deleted 2 messages."]
    undo: Callable[[], None] = next(
        b.click for b in window.talk.notices.findChildren(Button) if b.text() == "Undo"
    )
    undo()
    assert [m.text for m in window.bench.chat.path] == ["Q", "An answer"]
    assert window.talk.notices.texts == []


def test_the_folder_of_a_dialog_is_kept_for_the_next_run(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = str(tmp_path / "x.gguf")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (chosen, ""))
    window.commands.run("model.open_file")
    assert window.bench.preferences.value.last_folder == str(tmp_path)
