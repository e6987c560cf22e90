"""What the title bar and the banners say, and when banners go."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.widgets.numbers import grouped
from app.widgets.overlays.banner import Banner
from app.window.main_window import MainWindow
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine


def scripted(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


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
        f"Context is {cut} tokens, all this model was trained for; {asked} were asked for."
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
    bench.chats.exported.emit(tmp_path / "chat.json")
    notices.show_banner("kept", Banner("bad", "It failed."))
    assert notices.texts == ["Exported to chat.json.", "It failed."]
    assert bench.chat.send("More?")
    scripted(window).end()
    assert "Exported to chat.json." in notices.texts, "it is still the same chat"
    assert bench.chat.delete_message(2)
    assert "Deleted 2 messages." in notices.texts
    other = next(row.id for row in bench.chats.rows if row.id != bench.chat.chat_id)
    bench.chat.open(None if by == "a new chat" else other)
    assert notices.texts == ["It failed."]
