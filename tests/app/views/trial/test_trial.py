"""The sheet that tries a change, by keyboard and by mouse."""

import pytest
from msgspec import structs
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.talk.answer import NOTHING_COUNTED
from app.views.talk.message import MessageView
from app.views.talk.statistics import said_of
from app.views.trial import AS_IT_IS, HEAD, MILD, NOTE, PARTS
from app.window.main_window import MainWindow
from engine.protocol import Change, Finished, Generate, ScoreAnswer
from tests.app.window.scenes.trial_scenes import PLAIN, TRIED, client, trial, trial_form


def test_the_form_takes_the_selection_and_asks_for_the_change(window: MainWindow) -> None:
    trial_form(window)
    view = window.sheets.trial
    assert view.change == Change(12, "layer", None, 0.5)
    view.part.setCurrentIndex(list(PARTS).index(HEAD))
    view.head.setValue(3)
    view.factor.field.setValue(1.5)
    QTest.keyClick(view.try_it, Qt.Key.Key_Space)
    asked = client(window).last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.changes == [Change(12, "attention", 3, 1.5)]
    assert not view.try_it.isEnabled()
    QTest.keyClick(view.stop, Qt.Key.Key_Space)
    client(window).end("cancelled")
    assert view.try_it.isEnabled()
    assert window.bench.chat.path[-1].changes == asked.changes


def test_both_answers_are_painted_by_what_the_other_model_finds(window: MainWindow) -> None:
    trial(window)
    view = window.sheets.trial
    asked = [r for r in client(window).asked if isinstance(r, ScoreAnswer)]
    assert [bool(r.changes) for r in asked] == [True, False]
    assert [len(r.tokens) for r in asked] == [len(PLAIN), len(TRIED)]
    assert view.changed.title.text() == "Layer 12 left out"
    assert view.plain.text.text == "".join(PLAIN)
    assert view.changed.text.bands[5] == 4  # two in a hundred
    for _ in range(5):
        QTest.keyClick(view.changed.text, Qt.Key.Key_Right)
    assert view.under.text() == "“a”: original 2.0 %, changed 80.0 %"
    view.copy_table()
    lines = QApplication.clipboard().text().split("\n")
    assert len(lines) == 1 + len(PLAIN) + len(TRIED)
    assert lines[6] == "original\tParis\t80.0 %\t2.0 %"


def test_nothing_is_said_of_comparing_before_something_was_tried(window: MainWindow) -> None:
    trial_form(window)
    view = window.sheets.trial
    assert view.says.text() == NOTE
    assert view.back.isHidden()
    assert view.factor.value == MILD
    view.factor.field.setValue(1.0)
    assert view.says.text() == AS_IT_IS
    assert not view.try_it.isEnabled()


def test_an_answer_of_a_changed_model_has_a_bound(window: MainWindow) -> None:
    trial_form(window)
    for n, most in ((11, 64), (100, 200), (4000, 512)):
        window.bench.chat.path[-1].n_tokens = n
        assert window.bench.trial.start([Change(12)])
        asked = client(window).last_of(Generate)
        assert isinstance(asked, Generate)
        assert asked.max_tokens == most
        client(window).say(Finished(asked.id, "cancelled", NOTHING_COUNTED))
    limits = window.bench.chat.details.limits
    window.bench.chat.details.set_limits(structs.replace(limits, max_tokens=20))
    assert window.bench.trial.start([Change(12)])
    asked = client(window).last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.max_tokens == 20


def test_one_click_leads_back_to_the_unchanged_answer(window: MainWindow) -> None:
    trial(window)
    chat, view = window.bench.chat, window.sheets.trial
    tried = chat.path[1]
    assert tried.changes
    assert "The chat shows the changed answer." in view.says.text()
    QTest.keyClick(view.back, Qt.Key.Key_Space)
    assert window.sheets.front is None
    assert not chat.path[1].changes
    assert chat.path[1].text == "".join(PLAIN)
    chat.choose_sibling(1, 1)
    assert chat.path[1] is tried
    assert chat.send("And of Italy?")
    client(window).write("Rome")
    client(window).end(n=1)
    QApplication.processEvents()
    shown = window.talk.chat.column.require(1)
    assert isinstance(shown, MessageView)
    assert shown.end is not None
    assert shown.end.text == "Written with a modified model: layer 12 left out."
    (back,) = shown.end.stops
    QTest.keyClick(back, Qt.Key.Key_Space)
    assert not chat.path[1].changes


def test_it_says_why_nothing_can_be_compared(window: MainWindow) -> None:
    trial_form(window)
    view, chat = window.sheets.trial, window.bench.chat
    chat.open(None)
    view.refresh()
    assert not view.try_it.isEnabled()
    assert "Send a message first" in view.says.text()
    window.bench.session.unload()
    assert view.isVisible()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change(3), "layer 3 left out"),
        (Change(3, "attention", None, 0.5), "attention of layer 3 × 0.5"),
        (Change(3, "feed_forward", None, 2.0), "feed-forward of layer 3 × 2"),
        (Change(3, "attention", 4, 0.0), "head 4, layer 3 left out"),
    ],
)
def test_a_change_in_words(change: Change, said: str) -> None:
    assert said_of(change) == said
