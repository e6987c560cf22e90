"""The corpus of files, dropped on the window: the text or one sentence, and the window lives on."""

import re
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.state.presets import AnswerLimits
from app.state.talk.chat import ChatState
from app.window.main_window import MainWindow
from engine.gguf import open_gguf
from engine.settings import EngineOptions
from engine.tokenizer import load_tokenizer
from tests.app.documents.corpus import CORPUS, Entry, make
from tests.app.helpers.turns import Turns
from tests.app.window.test_drops import drag, drop, files
from tests.bounds import slowness

pytestmark = pytest.mark.alone
LONGEST_TURN = 0.050


@pytest.fixture
def chat(first_window: MainWindow, tiny_path: Path, qtbot: QtBot) -> ChatState:
    """A new chat with the random model."""
    first_window.bench.open_model(tiny_path, EngineOptions(device="host", ctx=256))
    qtbot.waitUntil(lambda: first_window.bench.session.status == "ready", timeout=60_000)
    qtbot.waitUntil(first_window.files.has_chat)
    return first_window.bench.chat


@pytest.mark.full
def test_every_file_is_read_or_refused_in_one_sentence(
    first_window: MainWindow, chat: ChatState, tiny_path: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    window = first_window
    with open_gguf(tiny_path) as file:
        tokenizer = load_tokenizer(file.metadata)
    (tmp_path / "corpus").mkdir()
    paths = make(tmp_path / "corpus")
    documents, problems = chat.documents, list[str]()
    chat.problem.connect(lambda problem: problems.append(problem.text))
    slow: dict[str, float] = {}
    turns = Turns(interval_ms=10)
    for entry in CORPUS:
        problems.clear()
        turns.restart()
        data = files(paths[entry.name])
        assert drag(window, data).isAccepted(), entry.name
        assert drop(window, data).isAccepted(), entry.name
        qtbot.waitUntil(lambda: bool(documents.documents or problems), timeout=60_000)
        if entry.text is None:
            refused(entry, problems, window.talk.notices.texts)
            continue
        assert documents.documents, problems
        (document,) = documents.documents
        assert document.text == entry.text, entry.name
        assert entry.says in " ".join(document.notes), entry.name
        qtbot.waitUntil(lambda: documents.tokens is not None, timeout=120_000)
        if turns.longest > LONGEST_TURN * slowness():
            slow[entry.name] = turns.longest
        if len(entry.text) < 100_000:
            count = len(tokenizer.encode(entry.text, add_special=False))
            assert documents.tokens == count, entry.name
        documents.remove(0)
    assert not slow
    assert not (tmp_path / "pwned").exists()


def test_the_tokens_predicted_are_those_that_are_sent(
    first_window: MainWindow, chat: ChatState, tmp_path: Path, qtbot: QtBot
) -> None:
    """With the names above each text and all that the template adds, in a first and later turn."""
    paths, prompt = make(tmp_path), first_window.bench.prompt
    chat.details.set_system("Be short.")
    chat.details.set_limits(AnswerLimits(max_tokens=1))
    field = first_window.talk.composer.field
    for names in (("code.py", "letter.docx"), ("utf16.txt",)):
        data = files(*(paths[name] for name in names))
        assert drag(first_window, data).isAccepted()
        assert drop(first_window, data).isAccepted()
        qtbot.waitUntil(lambda: bool(chat.documents.documents) and not chat.documents.arriving)
        field.set_text("What is\n\nin it?")
        qtbot.waitUntil(lambda: prompt.use.whole and not prompt.counting, timeout=30_000)
        predicted = prompt.use.used
        QTest.keyClick(field, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: not chat.busy and not field.text, timeout=60_000)
        stats = chat.path[-1].stats
        assert stats is not None
        assert stats.n_prompt + stats.n_truncated == predicted


def refused(entry: Entry, problems: list[str], shown: list[str]) -> None:
    """One plain sentence that names the file, in the window."""
    (sentence,) = problems
    assert entry.says in sentence, (entry.name, sentence)
    assert sentence.startswith(entry.name[:20]), sentence
    assert "\n" not in sentence
    assert not re.search(r"Traceback|Errno|Error\b|unexpected", sentence), sentence
    assert any(sentence in text for text in shown), (sentence, shown)
