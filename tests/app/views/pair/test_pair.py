"""The sheet with two answers side by side, by keyboard and by mouse."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.presets import OwnSampling
from app.views.pair import NOTE
from app.window.main_window import MainWindow
from engine.protocol import Cancel, Generate
from tests.app.window.scenes.pair_scenes import LEFT, RIGHT, pair, pair_busy, pair_form, requests
from tests.app.window.scenes.trial_scenes import client


def test_both_are_asked_at_once_with_their_own_numbers(window: MainWindow) -> None:
    pair_form(window)
    view = window.sheets.pair
    assert view.caption.text() == NOTE
    assert view.sides[0].choice.model.count() == 2
    view.question.setFocus()
    QTest.keyClick(view.question, Qt.Key.Key_Return)
    asked = requests(window)
    assert [r.sampling.temperature for r in asked] == [0.0, 1.3]
    assert asked[0].messages == asked[1].messages
    assert [len(r.tools.known) for r in asked] == [0, 0]
    assert view.question.text == ""
    assert not view.send.isEnabled()
    assert view.stop.isEnabled()
    QTest.keyClick(view.stop, Qt.Key.Key_Space)
    assert {r.id for r in client(window).asked if isinstance(r, Cancel)} == {r.id for r in asked}


def test_words_are_painted_and_the_place_is_named_where_answers_part(window: MainWindow) -> None:
    pair(window)
    view = window.sheets.pair
    assert [side.text.text for side in view.sides] == ["".join(LEFT), "".join(RIGHT)]
    assert view.caption.text() == (
        "They part at word 6: “Paris” (temperature 0: 8.0 %, temperature 1.3: 8.0 %);"
        " “a” (temperature 1.3: 8.0 %, temperature 0: 8.0 %)."
    )
    assert [side.text.selected for side in view.sides] == [5, 5]
    assert view.sides[1].text.bands[5] == 4
    assert view.under.text() == "“a” (temperature 1.3: 8.0 %, temperature 0: 8.0 %)."
    view.copy_table()
    lines = QApplication.clipboard().text().split("\n")
    assert len(lines) == 1 + len(LEFT) + len(RIGHT)
    assert lines[6] == "temperature 0\tParis\t8.0 %\t8.0 %"


def test_one_side_is_stopped_by_its_own_button(window: MainWindow) -> None:
    pair_busy(window)
    view, (left, right) = window.sheets.pair, requests(window)
    QTest.keyClick(view.sides[1].stop, Qt.Key.Key_Space)
    assert [r.id for r in client(window).asked if isinstance(r, Cancel)] == [right.id]
    assert left.id != right.id


def test_another_word_begins_a_branch_of_that_side(window: MainWindow) -> None:
    pair(window)
    view, chat = window.sheets.pair, window.bench.chat
    shown = chat.path[-1]
    menu = view.sides[1].menu()
    assert [a.isEnabled() for a in menu.actions()] == [True, True, False]
    menu.actions()[0].trigger()
    asked = requests(window)[-1]
    assert asked.sampling.temperature == 1.3
    assert asked.prefix == "".join(RIGHT[:5]) or asked.prefix_tokens
    assert chat.path[-1] is shown
    assert len(chat.siblings(shown)) == 3


def test_inspect_shows_the_word_in_its_branch(window: MainWindow) -> None:
    pair(window)
    view, bench = window.sheets.pair, window.bench
    sides = bench.pair.sides
    assert sides is not None
    message = sides[1].message
    assert message is not None
    assert bench.chat.path[-1] is not message
    QTest.keyClick(view.sides[1].inspect, Qt.Key.Key_Space)
    assert window.sheets.front is None
    assert bench.chat.path[-1] is message
    assert bench.selection.now.token == (message.id, 5)


def test_an_empty_question_asks_the_last_one_again(window: MainWindow) -> None:
    pair(window)
    view, chat = window.sheets.pair, window.bench.chat
    view.send.click()
    again = requests(window)[2:]
    assert [r.messages for r in again] == [requests(window)[0].messages] * 2
    assert [m.role for m in chat.path] == ["user", "assistant"]
    assert len(chat.siblings(chat.path[-1])) == 4


def test_presets_give_their_numbers(window: MainWindow) -> None:
    pair_form(window)
    choice = window.sheets.pair.sides[0].choice
    choice.temperature.setCurrentIndex(0)
    choice.settings.setCurrentText("Precise")
    assert choice.own == OwnSampling(temperature=0.2, top_p=0.9)
    assert choice.names(window.sheets.pair.sides[1].choice) == ("Precise", "temperature 1.3")
    window.sheets.pair.send.click()
    assert isinstance(client(window).last, Generate)
