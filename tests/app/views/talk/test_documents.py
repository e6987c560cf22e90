"""Documents of a message: read in a thread, kept, sent as text, and gone with their chat."""

import sqlite3
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.documents.document import Document
from app.state.presets import OwnSampling
from app.state.talk.disk.exchange import export_chat, import_chat
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.thread import Thread
from app.state.workbench import Workbench
from app.views.talk.documents import DocumentChip, DocumentView
from app.widgets.numbers import grouped
from engine.gguf import open_gguf
from engine.protocol import Generate, Load
from engine.tokenizer import Tokenizer, load_tokenizer
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.talk.driving import view

STORY = "The keeper is called Marta.\n"


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return path


def attach(bench: Workbench, qtbot: QtBot, *paths: Path) -> None:
    documents = bench.chat.documents
    documents.add_files(paths)
    qtbot.waitUntil(lambda: not documents.arriving)


def test_a_question_carries_its_documents(
    bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, story: Path
) -> None:
    attach(bench, qtbot, story)
    assert bench.chat.send("Who keeps it?")
    asked = engine.last
    assert isinstance(asked, Generate)
    assert asked.messages[-1].content == f"Who keeps it?\n\n--- File: story.txt ---\n{STORY}"
    assert bench.chat.path[0].text == "Who keeps it?"
    assert bench.chat.documents.documents == ()


def test_a_document_alone_is_a_question(
    bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, story: Path
) -> None:
    attach(bench, qtbot, story)
    assert bench.chat.send("")
    assert bench.chat.details.title == "story.txt"


def test_a_file_that_cannot_be_read_is_named(
    bench: Workbench, qtbot: QtBot, tmp_path: Path
) -> None:
    told: list[str] = []
    bench.chat.problem.connect(lambda problem: told.append(problem.text))
    attach(bench, qtbot, tmp_path / "gone.txt")
    (text,) = told
    assert text == "gone.txt: it was moved or deleted; attach it again"
    assert bench.chat.documents.documents == ()


@pytest.fixture
def tokenizes(bench: Workbench, engine: ScriptedEngine, tiny_path: Path, qtbot: QtBot) -> Tokenizer:
    """A model's file is open; its tokenizer."""
    bench.open_model(tiny_path)
    looked = str(tiny_path)  # the file is looked at before it is loaded
    qtbot.waitUntil(lambda: getattr(engine.last_of(Load), "path", "") == looked)
    engine.load_done()
    with open_gguf(tiny_path) as file:
        return load_tokenizer(file.metadata)


def test_its_tokens_fill_the_context(
    bench: Workbench, tokenizes: Tokenizer, qtbot: QtBot, story: Path
) -> None:
    attach(bench, qtbot, story)
    documents = bench.chat.documents
    qtbot.waitUntil(lambda: documents.tokens is not None)
    count = len(tokenizes.encode(STORY, add_special=False))
    assert documents.tokens == count
    (share,) = bench.chat.context.shares
    assert (share.tokens, share.counted, share.draft) == (count, True, True)


def test_a_draft_keeps_them_and_each_chat_its_own(
    bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, story: Path
) -> None:
    chat = bench.chat
    assert chat.send("one")
    engine.end()
    first = chat.chat_id
    attach(bench, qtbot, story)
    chat.open(None)
    assert chat.documents.documents == ()
    chat.documents.add_files([story])  # read while another chat is opened
    chat.open(first)
    qtbot.waitUntil(lambda: chat.documents.job is None)
    assert [d.name for d in chat.documents.documents] == ["story.txt"]
    chat.open(None)
    assert [d.text for d in chat.documents.documents] == [STORY]


def test_edited_questions_keep_them(
    bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, story: Path
) -> None:
    attach(bench, qtbot, story)
    assert bench.chat.send("Who?")
    engine.end()
    assert bench.chat.edit_and_resend(0, "Where?")
    asked = engine.last
    assert isinstance(asked, Generate)
    assert asked.messages[-1].text == f"Where?\n\n--- File: story.txt ---\n{STORY}"


def test_parts_and_pasted_texts(bench: Workbench) -> None:
    documents = bench.chat.documents
    documents.add_text("a\nb\nc\nd")
    documents.add_text("more")
    assert [d.name for d in documents.documents] == ["Pasted text", "Pasted text 2"]
    documents.cut(0, 2, 3)
    assert documents.documents[0].text == "b\nc"
    assert documents.documents[0].name == "Pasted text (lines 2–3)"
    documents.remove(0)
    assert [d.text for d in documents.documents] == ["more"]


def test_a_text_is_stored_once_and_goes_with_its_last_message(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    document = Document("story.txt", "text", STORY, len(STORY))
    chats = []
    for _ in range(2):
        thread = Thread(store)
        thread.begin("Who?", "", OwnSampling(), None, (), (document,))
        chats.append(thread.chat_id or 0)
    store.close()

    def stored() -> int:
        with sqlite3.connect(path) as database:
            return int(database.execute("SELECT count(*) FROM texts").fetchone()[0])

    assert stored() == 1
    for left, chat in ((1, chats[0]), (0, chats[1])):
        store = ChatStore(path)
        assert store.tree(chat).path()[0].documents == (document,)
        store.delete(chat)
        store.close()
        assert stored() == left


def test_a_message_and_its_documents_are_stored_together(
    bench: Workbench,
    engine: ScriptedEngine,
    qtbot: QtBot,
    story: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attach(bench, qtbot, story)
    rows = bench.chat.store.documents

    def refuse(*_: object) -> None:
        raise StoreError("chats.sqlite", "disk is full")

    monkeypatch.setattr(rows, "write", refuse)
    assert not bench.chat.send("Who?")
    assert bench.chat.path == []
    assert [d.name for d in bench.chat.documents.documents] == ["story.txt"]
    monkeypatch.undo()
    assert bench.chat.send("Who?")
    assert bench.chat.path[0].documents[0].text == STORY


def test_out_and_in_again(
    bench: Workbench, engine: ScriptedEngine, qtbot: QtBot, story: Path, tmp_path: Path
) -> None:
    attach(bench, qtbot, story)
    assert bench.chat.send("Who?")
    engine.write("Marta.")
    engine.end()
    store, chat = bench.chat.store, bench.chat.chat_id or 0
    export_chat(store, chat, tmp_path / "chat.json")
    again = store.tree(import_chat(store, tmp_path / "chat.json")).path()
    assert again[0].documents == bench.chat.path[0].documents
    assert b'"version": 3' in (tmp_path / "chat.json").read_bytes()
    export_chat(store, chat, tmp_path / "chat.md")
    assert f"story.txt:\n\n```\n{STORY}\n```" in (tmp_path / "chat.md").read_text()


def chips(talk: Talk) -> list[DocumentChip]:
    return [chip for chip in talk.composer.documents.items if isinstance(chip, DocumentChip)]


def paste(talk: Talk, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    talk.composer.field.insertFromMimeData(data)


def test_a_long_paste_is_a_document_and_a_short_one_text(
    talk: Talk, engine: ScriptedEngine
) -> None:
    paste(talk, "short")
    assert talk.composer.field.text == "short"
    paste(talk, "a" * 2_000_000)
    assert talk.composer.field.text == "short"
    (chip,) = chips(talk)
    assert chip.button.accessibleName() == "Pasted text, 2 MB"
    assert chip.remove is not None
    chip.remove.click()
    assert chips(talk) == []
    assert talk.composer.documents.isHidden()


def test_chips_are_reached_by_keyboard(
    talk: Talk, tokenizes: Tokenizer, qtbot: QtBot, story: Path
) -> None:
    attach(talk.bench, qtbot, story)
    qtbot.waitUntil(lambda: talk.bench.chat.documents.tokens is not None)
    (chip,) = chips(talk)
    assert chip.facts.text() == f"{len(tokenizes.encode(STORY, add_special=False))} tok"
    shown: list[int] = []
    talk.composer.documents.opened.connect(shown.append)
    chip.button.setFocus()
    QTest.keyClick(chip.button, Qt.Key.Key_Return)
    assert shown == [0]
    assert chip.remove is not None
    assert chip.remove.accessibleName() == "Remove story.txt"
    assert talk.composer.send_button.isEnabled()


def test_a_sent_question_shows_them(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "<b>bold & co.txt"
    path.write_text(STORY)
    attach(talk.bench, qtbot, path)
    talk.composer.field.set_text("Who?")
    talk.composer.send()
    strip = view(talk, 0).documents
    assert strip is not None
    (chip,) = strip.items
    assert isinstance(chip, DocumentChip)
    assert chip.button.text() == "<b>bold && co.txt"  # a doubled & is no mnemonic
    assert chip.remove is None


def test_too_long_says_by_how_much(
    talk: Talk, tokenizes: Tokenizer, qtbot: QtBot, story: Path
) -> None:
    story.write_text("word " * 5000)
    attach(talk.bench, qtbot, story)
    qtbot.waitUntil(lambda: talk.bench.chat.documents.tokens is not None)
    over = len(tokenizes.encode("word " * 5000, add_special=False)) - 2047
    said = talk.composer.overflow.words.text().replace("\u202f", "\u2009")
    assert f"{grouped(over)} tokens too long" in said
    assert not talk.composer.overflow.isHidden()


def test_the_sheet_sends_a_part(bench: Workbench, qtbot: QtBot) -> None:
    bench.chat.documents.add_text("\n".join(f"line {n}" for n in range(1, 101)))
    sheet = DocumentView(bench)
    qtbot.addWidget(sheet)
    sheet.show_document(bench.chat.documents.documents[0], 0)
    assert "100 lines" in sheet.facts.text()
    assert not sheet.keep.isEnabled()
    sheet.first.setValue(3)
    sheet.last.setValue(4)
    sheet.keep.click()
    assert bench.chat.documents.documents[0].text == "line 3\nline 4"


def test_the_sheet_lays_out_a_bounded_text(bench: Workbench, qtbot: QtBot) -> None:
    sheet = DocumentView(bench)
    qtbot.addWidget(sheet)
    sheet.show_document(Document("a", "text", "a" * 5_000_000, 5_000_000))
    text = sheet.text.toPlainText()
    assert len(text) < 201_000
    assert max(map(len, text.split("\n"))) == 2000
    assert "the first 200\u2009000 characters are shown" in sheet.facts.text()


def test_the_parts_with_the_answer_are_sent(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot, tmp_path: Path
) -> None:
    bench = talk.bench
    lines = [f"Line {n} is about nothing that anybody would ever look for." for n in range(400)]
    lines[321] = "The lighthouse keeper is called Marta."
    path = tmp_path / "long.txt"
    path.write_text("\n".join(lines))
    attach(bench, qtbot, path)
    talk.composer.field.set_text("What is the lighthouse keeper's name?")
    view = DocumentView(bench)
    view.resize(700, 700)
    view.show()
    view.show_document(bench.chat.documents.documents[0], 0)
    parts = view.parts
    assert parts.question.text() == "What is the lighthouse keeper's name?"
    assert parts.list.isHidden()
    assert parts.send.isHidden()
    QTest.keyClick(parts.question, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(parts.search.found))
    checked = [
        parts.list.item(row).text()
        for row in range(parts.list.count())
        if parts.list.item(row).checkState() == Qt.CheckState.Checked
    ]
    assert any("Marta" in text or "lines 3" in text for text in checked)
    for row in range(parts.list.count()):
        wanted = "lighthouse" in parts.search.found[row].text
        parts.list.item(row).setCheckState(
            Qt.CheckState.Checked if wanted else Qt.CheckState.Unchecked
        )
    with qtbot.waitSignal(view.done):
        QTest.mouseClick(parts.send, Qt.MouseButton.LeftButton)
    (kept,) = bench.chat.documents.documents
    assert kept.name.startswith("long.txt (lines ")
    assert "called Marta" in kept.text
    assert len(kept.text) < 4000
    assert bench.chat.send("Who?")
    request = engine.last
    assert isinstance(request, Generate)
    assert "called Marta" in request.messages[-1].content
    view.close()


def test_a_question_without_its_words_says_so(
    bench: Workbench, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 2000)
    attach(bench, qtbot, path)
    view = DocumentView(bench)
    view.show_document(bench.chat.documents.documents[0], 0)
    view.parts.question.setText("zebra")
    view.parts.find_parts()
    qtbot.waitUntil(lambda: not view.parts.search.searching)
    assert view.parts.facts.text() == "No part has a word of the question."
    assert view.parts.list.isHidden()


def test_too_long_a_document_offers_its_parts(
    talk: Talk, qtbot: QtBot, tokenizes: Tokenizer, tmp_path: Path
) -> None:
    for name, size in (("short.txt", 10), ("long.txt", 5000)):
        (tmp_path / name).write_text("word " * size)
    attach(talk.bench, qtbot, tmp_path / "short.txt", tmp_path / "long.txt")
    overflow = talk.composer.overflow
    qtbot.waitUntil(lambda: not overflow.isHidden())
    with qtbot.waitSignal(talk.composer.documents.opened) as opened:
        QTest.mouseClick(overflow.parts, Qt.MouseButton.LeftButton)
    assert opened.args == [1]
