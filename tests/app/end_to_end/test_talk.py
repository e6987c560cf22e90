"""The talk with the real model and the real engine: all that a person does with answers."""

import json
import os
import signal
from pathlib import Path

import psutil
import pytest
from msgspec import structs
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog

from app import local_engine
from app.widgets.tokens.alternatives import AlternativesCard
from engine.protocol import Sampling
from tests.app.end_to_end.person import Person
from tests.program import REPEATS

pytestmark = [pytest.mark.model_file, pytest.mark.device]

LIKELIEST = Sampling(temperature=0)
ENOUGH = 24  # tokens after which an answer is stopped
# Whatever was said becomes likelier: an answer without an end.
ENDLESS = Sampling(temperature=0, frequency_penalty=-100)


def ask(person: Person, question: str, sampling: Sampling = LIKELIEST) -> None:
    """Type it and press Enter; the answer is on its way then, a short one may be there."""
    details = person.bench.chat.details
    details.set_sampling(sampling)
    details.set_limits(structs.replace(details.limits, stop_loops=sampling is not ENDLESS))
    person.click("Message")
    person.type(question)
    person.key(Qt.Key.Key_Return)
    assert person.bench.chat.path[-2].text == question


def ask_to_end(person: Person, question: str, sampling: Sampling = LIKELIEST) -> str:
    ask(person, question, sampling)
    return answered(person)


def answered(person: Person) -> str:
    """Waits for the answer, or for enough of it; its text."""
    chat = person.bench.chat
    person.wait(lambda: not chat.busy or chat.path[-1].n_tokens >= ENOUGH)
    if chat.busy:
        person.key(Qt.Key.Key_Escape)
    person.wait(lambda: not chat.busy)
    person.look()
    return person.bench.chat.path[-1].text


def begin_endless(person: Person) -> None:
    """An answer is being generated, and will not end by itself."""
    ask(person, REPEATS, ENDLESS)
    person.wait(lambda: person.bench.chat.path[-1].n_tokens > 8)


def texts(person: Person) -> list[str]:
    return [message.text for message in person.bench.chat.path]


def words(text: str) -> str:
    """A text without what Markdown may take for markup."""
    return "".join(letter for letter in text if letter.isalnum())


def test_streams_as_it_comes(person: Person) -> None:
    shown: list[str] = []

    def note() -> None:
        body = person.message(1).body if len(person.bench.chat.path) > 1 else None
        if body is not None:
            shown.append(body.text)

    person.bench.chat.message_changed.connect(note)
    answer = ask_to_end(person, "Count from one to ten.")
    person.bench.chat.message_changed.disconnect(note)
    growing = list(dict.fromkeys(words(text) for text in shown if text))
    assert len(growing) >= 5
    assert all(words(answer).startswith(text) for text in growing)
    assert person.bench.chat.path[1].stats is not None


@pytest.mark.parametrize("by", ["Esc", "the button"])
def test_stop(person: Person, by: str) -> None:
    begin_endless(person)
    if by == "Esc":
        person.key(Qt.Key.Key_Escape)
    else:
        person.click("Stop the answer")
    person.wait(lambda: not person.bench.chat.busy)
    assert person.bench.chat.path[1].finish == "cancelled"
    assert person.bench.chat.path[1].text
    assert not person.see("Send").isEnabled(), "it is what was Stop, and nothing is written"
    assert ask_to_end(person, "Say hello."), "it goes on after a stop"


def test_regenerate_edit_and_branches(person: Person) -> None:
    first = ask_to_end(person, "Name a colour.")
    drawn = Sampling(temperature=1.5, seed=4)
    person.bench.chat.details.set_sampling(drawn)
    person.click_in(person.message(1), "Regenerate")
    second = answered(person)
    assert second != first
    assert person.reads("2/2")
    person.click_in(person.message(1), "Previous branch")
    assert texts(person)[1] == first
    assert person.reads("1/2")
    person.click_in(person.message(1), "Next branch")
    assert texts(person)[1] == second

    person.bench.chat.details.set_sampling(LIKELIEST)
    person.click_in(person.message(0), "Edit")
    field = person.see("Edit the message")
    assert QApplication.focusWidget() is field
    person.key(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    person.type("Name an animal.")
    person.key(Qt.Key.Key_Return)
    third = answered(person)
    assert texts(person) == ["Name an animal.", third]
    person.click_in(person.message(0), "Previous branch")
    assert texts(person) == ["Name a colour.", second]
    person.click_in(person.message(1), "Previous branch")
    assert texts(person) == ["Name a colour.", first]


def test_edit_and_branches_by_keyboard(person: Person) -> None:
    ask_to_end(person, "Name a fruit.")
    person.key(Qt.Key.Key_Up)  # in the empty field: edit what was asked last
    assert person.see("Edit the message").hasFocus()
    person.key(Qt.Key.Key_Escape)
    assert not person.all_named("Edit the message")
    person.run("chat.regenerate")
    answered(person)
    assert person.bench.chat.path[1].siblings == 2
    person.click("Message")
    person.tab_to("Previous branch", back=True)
    person.key(Qt.Key.Key_Space)
    assert person.bench.chat.path[1].place == 0
    now = QApplication.focusWidget()
    assert now is not None
    assert now.accessibleName() == "Next branch"


def test_probabilities_and_a_branch_from_an_alternative(person: Person) -> None:
    ask_to_end(person, "What is the capital of France?")
    person.run("chat.probabilities")
    view = person.message(1)
    assert view.tokens is not None
    painter, tokens = view.tokens.painter, person.bench.chat.tokens(1)
    assert len(painter.ends) == len(tokens) == len(painter.bands) > 4
    assert None not in painter.bands

    place = painter.token_rect(3).center().toPoint()
    person.hover(painter, place)
    card = next(w for w in person.all_named("Alternatives…") if isinstance(w, AlternativesCard))
    shares = [choice.share for choice in card.choices]
    assert len(shares) == 10
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1.001
    other = next(n for n, choice in enumerate(card.choices) if not choice.taken)
    text = card.choices[other].text
    person.click(card, card.row_area(other).center().toPoint())
    branch = answered(person)
    assert person.bench.chat.path[1].siblings == 2
    kept = person.bench.chat.tokens(1)
    assert [kept[n].token for n in range(3)] == [tokens[n].token for n in range(3)]
    assert kept[3].token != tokens[3].token
    start = tokens.start(3)
    assert branch[start:].startswith(text.replace("␣", " ").replace("↵", "\n"))

    painter = person.message(1).tokens.painter  # type: ignore[union-attr]
    painter.setFocus(Qt.FocusReason.TabFocusReason)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Return):
        person.key(key)
    answered(person)
    assert person.bench.chat.path[1].siblings == 3
    person.run("chat.probabilities")
    assert person.message(1).tokens is None


def test_search(person: Person) -> None:
    ask_to_end(person, "Tell me about zeppelins.")
    zeppelins = person.bench.chat.chat_id
    person.run("chat.new")
    ask_to_end(person, "Tell me about submarines.")
    person.run("chat.search")
    person.type("zeppelin")
    person.wait(lambda: [row.id for row in person.bench.chats.rows] == [zeppelins])
    person.tab_to("Chats")
    person.key(Qt.Key.Key_Down)
    person.key(Qt.Key.Key_Return)
    assert person.bench.chat.chat_id == zeppelins
    person.run("chat.search")
    person.key(Qt.Key.Key_Delete)
    person.wait(lambda: len(person.bench.chats.rows) > 1)


def test_export_and_import(person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ask_to_end(person, "Write a line of Python.")
    chosen = tmp_path / "chat.md"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(chosen), ""))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(chosen), ""))
    person.run("chat.export")
    person.wait(chosen.exists)
    assert said.strip() in chosen.read_text()
    chosen = tmp_path / "chat.json"
    person.wait(lambda: person.bench.chats.transfer is None)
    person.run("chat.export")
    person.wait(chosen.exists)
    assert json.loads(chosen.read_text())["format"] == "cutaway-chat"
    before, kept = person.bench.chat.chat_id, texts(person)
    ids = person.bench.chat.tokens(1).ids
    person.wait(lambda: person.bench.chats.transfer is None)
    person.run("chat.import")
    person.wait(lambda: person.bench.chat.chat_id != before)
    assert texts(person) == kept
    assert person.bench.chat.tokens(1).ids == ids
    assert ask_to_end(person, "Go on."), "what was imported can be talked to"


def test_another_model_in_mid_answer(person: Person) -> None:
    begin_endless(person)
    bench = person.bench
    assert bench.engine.local.pid is not None
    worker = psutil.Process(bench.engine.local.pid)
    worker.suspend()  # however long the chooser takes, the answer is under way
    person.run("model.open")
    person.wait(lambda: person.window.sheets.chooser.table.rows.total == 2)
    table = person.see("Models")
    assert table.hasFocus()
    names = [model.name for model in person.window.sheets.chooser.table.rows.shown]
    for _ in range(2):
        if names[person.window.sheets.chooser.table.view.currentIndex().row()].startswith("tiny"):
            break
        person.key(Qt.Key.Key_Down)
    person.wait(lambda: person.reads("after the current answer"))
    person.key(Qt.Key.Key_Return)
    worker.resume()
    person.wait(lambda: bench.session.status == "ready" and bench.session.model_name == "tiny")
    assert not bench.chat.busy
    assert bench.chat.path[1].finish == "cancelled"
    assert bench.chat.path[1].text
    ask_to_end(person, "Who are you?", Sampling(seed=1))
    assert [m.model for m in bench.chat.path[1::2]] == ["SmolLM2-135M-Instruct.Q4_1", "tiny"]


def test_kill_the_worker_in_mid_answer(person: Person, expected: list[str]) -> None:
    expected.append("killed (signal 9)")
    begin_endless(person)
    bench = person.bench
    question = bench.chat.path[0].text
    pid = bench.engine.local.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    person.wait(lambda: bench.session.status == "died")
    person.look()
    banner = person.banners()
    assert len(banner) == 1
    assert "signal 9" in banner[0]
    assert [m.finish for m in bench.chat.path] == ["", "died"]
    kept = texts(person)
    assert kept[0] == question
    assert kept[1]
    assert not psutil.pid_exists(pid)
    person.click("Restart")
    person.wait(lambda: bench.session.status == "ready")
    assert not person.banners()
    assert texts(person) == kept
    assert ask_to_end(person, "Are you back?")
    assert bench.engine.local.pid != pid


def test_an_engine_that_hangs_is_replaced_with_one_click(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every chat whose answer was under way shows that it has ended."""
    monkeypatch.setattr(local_engine, "SILENT", 3.0)
    bench = person.bench
    begin_endless(person)
    cut = [bench.chat.path[1]]
    person.run("chat.new")
    ask(person, "Who are you?", ENDLESS)
    cut.append(bench.chat.path[1])
    assert len(bench.chat.writers.answers) == 2
    pid = bench.engine.local.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    person.wait(person.banners)
    [banner] = person.banners()
    assert banner.startswith("The engine has not responded for 3 s.")
    assert [message.finish for message in cut] == ["", ""]
    person.click("Restart the engine")
    person.wait(lambda: bench.session.status == "ready")
    assert not person.banners()
    assert not bench.chat.writers.answers
    assert [message.finish for message in cut] == ["cancelled", "cancelled"]
    assert cut[0].text
    person.wait(lambda: not psutil.pid_exists(pid))
    assert ask_to_end(person, "Are you back?")


def test_after_a_death_one_click_starts_again_with_less(
    person: Person, expected: list[str]
) -> None:
    expected.append("killed (signal 9)")
    bench = person.bench
    before = bench.session.model.n_ctx
    assert bench.engine.local.pid is not None
    os.kill(bench.engine.local.pid, signal.SIGKILL)
    person.wait(lambda: bench.session.status == "died")
    person.look()
    person.click("Restart with half the context")
    person.wait(lambda: bench.session.status == "ready")
    assert bench.session.model.n_ctx == before // 2
    bench.session.restart()
    person.wait(lambda: bench.session.status == "ready")
